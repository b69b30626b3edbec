"""Muon: steps that move all units of a hidden layer, where Adam's follow a few loud directions.

The gradient of a weight matrix is mostly a few outer products. Muon (Jordan et al., 2024) keeps a
running mean of it and brings the singular values close to 1 before it takes the step. On tables
without noise fewer steps are enough then, and networks may be narrower.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from softbins.nn.adam import Adam
from softbins.nn.settings import MuonSettings

# The odd quintic that is closest to 1 on [0.02, 1], and the one that is on what it leaves of that
# interval, as linear programmes find them: a x + b x^3 + c x^5. (Amsel et al., 2025, compose such.)
QUINTICS = ((7.711, -22.1138, 16.2487), (3.2153, -2.4112, 0.5013))


class Muon(Adam):
    """Muon for matrices (members, inputs, units), and Adam for all other parameters.

    Matrices with many more inputs than units are left to Adam, too, which takes its parameters
    from `how`; the weight decay is for all.
    """

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        matrices: Sequence[nn.Parameter],
        rate: float,
        settings: MuonSettings,
        **how: float,
    ) -> None:
        self.settings = settings
        limit = settings.max_inputs_per_unit
        self.matrices = [m for m in matrices if m.requires_grad and _is_compact(m, limit)]
        chosen = set(self.matrices)
        rest = [parameter for parameter in parameters if parameter not in chosen]
        super().__init__(rest, rate, **how)
        self.state |= {matrix: {"exp_avg": torch.zeros_like(matrix)} for matrix in self.matrices}

    def zero_grad(self) -> None:
        """Forget the gradients."""
        super().zero_grad()
        for matrix in self.matrices:
            matrix.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Change the parameters as their gradients say."""
        for matrix in self.matrices:
            if matrix.grad is not None:
                self._move(matrix, matrix.grad)
        super().step()

    def _move(self, matrix: Tensor, gradient: Tensor) -> None:
        mean = self.state[matrix]["exp_avg"].lerp_(gradient, 1 - self.settings.momentum)
        inputs, units = matrix.shape[1:]
        size = self.rate * self.settings.rate_factor * math.sqrt(units / inputs)
        matrix.mul_(1 - self.rate * self.weight_decay)
        matrix.sub_(evened(gradient.lerp(mean, self.settings.momentum)), alpha=size)


def _is_compact(matrix: Tensor, max_inputs_per_unit: float) -> bool:
    inputs, units = matrix.shape[1:]
    return inputs <= max_inputs_per_unit * units


def evened(matrices: Tensor) -> Tensor:
    """Matrices (members, rows, columns) with singular values close to 1, and the same vectors.

    They are measured by the fourth root of the sum of their fourth powers, which is closer to the
    largest than the Frobenius norm. One below a fiftieth of that comes out as 25 times its share.
    """
    x = matrices / _norms(matrices)
    square = _square(x)
    size = _norms(square)
    x, square = x.div_(size.sqrt()), square.div_(size)
    first, second = QUINTICS
    x = _quintic(x, square, *first)
    return _quintic(x, _square(x), *second)


def _norms(matrices: Tensor) -> Tensor:
    """Frobenius norms (members, 1, 1), more than 0."""
    norms: Tensor = torch.linalg.vector_norm(matrices, dim=(1, 2), keepdim=True)
    return norms.clamp_min(torch.finfo(matrices.dtype).tiny)


def _square(x: Tensor) -> Tensor:
    """The smaller of the products with their transposes."""
    return torch.bmm(x.mT, x) if x.shape[1] > x.shape[2] else torch.bmm(x, x.mT)


def _quintic(x: Tensor, square: Tensor, a: float, b: float, c: float) -> Tensor:
    rest = torch.baddbmm(square, square, square, beta=b, alpha=c)
    if x.shape[1] > x.shape[2]:
        return torch.baddbmm(x, x, rest, beta=a)
    return torch.baddbmm(x, rest, x, beta=a)
