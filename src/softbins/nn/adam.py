"""Adam, computed by the same kernel as in `torch.optim.AdamW`, but quicker to start.

The first `torch.optim.Optimizer` of a process loads PyTorch's compiler. That takes about three
seconds, where a small fit takes ten, and nothing here needs the compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

BETA_1 = 0.9  # decay of the running mean of gradients


class Adam:
    """Adam (Kingma and Ba, 2015) with decoupled weight decay (Loshchilov and Hutter, 2019).

    `state` has for each parameter the running means of its gradients ("exp_avg") and of their
    squares ("exp_avg_sq"), and the number of steps. `after_step` is called after every step, with
    the optimizer.

        optimizer = Adam(list(network.parameters()), rate=1e-3)
        loss(network(x), y).backward()
        optimizer.step()
    """

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        rate: float,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        self.parameters, self.rate, self.beta_2 = list(parameters), rate, beta_2
        self.epsilon, self.weight_decay = epsilon, weight_decay
        # The numbers of steps are views of one tensor, so that one operation counts them all up.
        self.steps = torch.zeros(len(self.parameters), device=self.parameters[0].device)
        self.state: dict[Tensor, dict[str, Tensor]] = {
            parameter: {
                "step": step,
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
            for parameter, step in zip(self.parameters, self.steps, strict=True)
        }
        self.after_step: Callable[[Adam], None] | None = None

    def zero_grad(self) -> None:
        """Remove the gradients of all parameters."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Change the parameters that have a gradient."""
        used: list[Tensor] = [p for p in self.parameters if p.grad is not None]
        states = [self.state[parameter] for parameter in used]
        steps = [state["step"] for state in states]
        for counter in [self.steps] if len(used) == len(self.parameters) else steps:
            counter.add_(1)
        torch._fused_adamw_(
            used,
            # The kernel reads memory in order and ignores strides.
            [p.grad.contiguous() for p in used if p.grad is not None],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            steps,
            lr=self.rate,
            beta1=BETA_1,
            beta2=self.beta_2,
            weight_decay=self.weight_decay,
            eps=self.epsilon,
            amsgrad=False,
            maximize=False,
        )
        if self.after_step is not None:
            self.after_step(self)
