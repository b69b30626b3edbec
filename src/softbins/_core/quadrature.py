"""The numerical integration behind `Payoff`, whose densities have no integral in closed form."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor


@cache
def tanh_rule(nodes: int = 64, reach: float = 10.0) -> tuple[Tensor, Tensor]:
    """Half of a tanh quadrature on [0, 1]: distances from the nearer end, and log weights.

    The nodes are spread evenly over the logarithm of their distance, down to exp(-2 reach), so
    that a peak at an end is sampled equally well whatever its width.
    """
    step = reach / nodes
    u = (np.arange(nodes) + 0.5) * step
    weight = step / 2 / np.cosh(u) ** 2
    return torch.tensor(1 / (1 + np.exp(2 * u))), torch.tensor(np.log(weight))
