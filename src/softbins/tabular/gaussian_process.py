"""A Gaussian process beside the networks, for tables of few rows.

Its mean is a smooth function through the training rows. The kernel is Matern's with smoothness 3/2
plus a linear one, and each column has a length scale. Targets are bent by asinh about their median,
so that neither skewed targets nor outliers rule it; the mean is bent back with the errors on
held-out rows in mind.

What is kept are plain arrays. `gaussian_process_fit` finds them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

SQRT_3 = math.sqrt(3.0)
ARRAYS = ("center", "length", "rows", "weights", "slope")


@dataclass(frozen=True, eq=False)
class BentTarget:
    """Targets y as u = asinh((y - center) / spread), and the mean of y for a predicted u.

    For an error r that is added to u, the mean of sinh(u + r) is `rising` exp(u) - `falling`
    exp(-u), with half of the means of exp(r) and exp(-r). Predictions stay between `low` and
    `high`.
    """

    center: float
    spread: float
    low: float
    high: float
    rising: float = 0.5
    falling: float = 0.5

    def mean(self, u: Tensor) -> Tensor:
        """The mean target for predictions of bent targets."""
        inside = u.clamp(self.low, self.high)
        return self.center + self.spread * (
            self.rising * inside.exp() - self.falling * (-inside).exp()
        )


@dataclass(frozen=True, eq=False)
class GaussianProcess:
    """The mean of a Gaussian process: for scaled features (n, d) predictions (n,).

    Features become z = (x - `center`) / `length`, in which the training rows are `rows` (m, d). A
    bent target is `offset`, plus the kernel times `weights` (m,), plus z times `slope` (d,).
    """

    center: Tensor
    length: Tensor
    rows: Tensor
    weights: Tensor
    slope: Tensor
    offset: float
    target: BentTarget

    def __post_init__(self) -> None:
        # Copies of torch's own making: where numbers lie in memory decides the last bit of a sum.
        for name in ARRAYS:
            object.__setattr__(self, name, getattr(self, name).contiguous().clone())

    def __call__(self, x: Tensor) -> Tensor:
        """Predictions (n,) in float64."""
        z = (x.double() - self.center) / self.length
        bent = self.offset + matern(z, self.rows) @ self.weights + z @ self.slope
        return self.target.mean(bent)

    # Files

    def tensors(self) -> dict[str, Tensor]:
        """Everything as tensors, for a model file."""
        target = self.target
        numbers = torch.tensor(
            [
                *(self.offset, target.center, target.spread, target.low, target.high),
                *(target.rising, target.falling),
            ],
            dtype=torch.float64,
        )
        arrays = {name: getattr(self, name) for name in ARRAYS} | {"numbers": numbers}
        return {f"gaussian_process.{name}": value for name, value in arrays.items()}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> Self:
        """What `tensors` gave, taken out of the tensors of a model file."""
        arrays = {name: tensors.pop(f"gaussian_process.{name}") for name in ARRAYS}
        offset, *target = tensors.pop("gaussian_process.numbers").tolist()
        return cls(**arrays, offset=offset, target=BentTarget(*target))


def matern(a: Tensor, b: Tensor) -> Tensor:
    """(n, m) values of the kernel (1 + sqrt(3) r) exp(-sqrt(3) r), at distances r of rows."""
    squares = a.square().sum(-1, keepdim=True) + b.square().sum(-1) - 2 * a @ b.T
    r = SQRT_3 * squares.clamp_min(0).sqrt()
    return (1 + r) * (-r).exp()
