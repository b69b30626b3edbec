"""Adam as PyTorch computes it, without the seconds that a first `torch.optim.Optimizer` takes.

Those go into loading PyTorch's compiler, which is not used here: three where a small fit takes ten.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn


class Adam:
    """Adam (Kingma and Ba, 2015) with decoupled weight decay (Loshchilov and Hutter, 2019).

    `state` has for each parameter the two moments and the number of steps.
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
        # Side by side: to count up a dozen numbers one by one takes as long as some layers.
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
        """Forget the gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Change the parameters as their gradients say."""
        used: list[Tensor] = [p for p in self.parameters if p.grad is not None]
        states = [self.state[parameter] for parameter in used]
        steps = [state["step"] for state in states]
        for counted in [self.steps] if len(used) == len(self.parameters) else steps:
            counted.add_(1)
        torch._fused_adamw_(
            used,
            # As they lie in memory, which is how the kernel takes them, whatever their strides say.
            [p.grad.contiguous() for p in used if p.grad is not None],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            steps,
            lr=self.rate,
            beta1=0.9,
            beta2=self.beta_2,
            weight_decay=self.weight_decay,
            eps=self.epsilon,
            amsgrad=False,
            maximize=False,
        )
        if self.after_step is not None:
            self.after_step(self)
