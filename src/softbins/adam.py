"""Adam as PyTorch computes it, without the seconds that a first `torch.optim.Optimizer` takes.

Those go into loading PyTorch's compiler, which is not used here: three where a small fit takes ten.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.optim.adam import adam


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
        self.state: dict[Tensor, dict[str, Tensor]] = {
            parameter: _nothing_yet(parameter) for parameter in self.parameters
        }
        self.after_step: Callable[[Adam], None] | None = None

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Change the parameters as their gradients say."""
        used = [parameter for parameter in self.parameters if parameter.grad is not None]
        states = [self.state[parameter] for parameter in used]
        adam(
            list(used),
            [parameter.grad for parameter in used if parameter.grad is not None],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            [state["step"] for state in states],
            fused=True,
            decoupled_weight_decay=True,
            amsgrad=False,
            beta1=0.9,
            beta2=self.beta_2,
            lr=self.rate,
            weight_decay=self.weight_decay,
            eps=self.epsilon,
            maximize=False,
        )
        if self.after_step is not None:
            self.after_step(self)


def _nothing_yet(parameter: nn.Parameter) -> dict[str, Tensor]:
    return {
        "step": torch.zeros((), device=parameter.device),
        "exp_avg": torch.zeros_like(parameter),
        "exp_avg_sq": torch.zeros_like(parameter),
    }
