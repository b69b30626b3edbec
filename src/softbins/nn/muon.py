"""Muon, an optimizer whose steps are equally large in all directions of a weight matrix.

The gradient of a weight matrix is dominated by a few singular values, and so are Adam's steps.
Muon (Jordan et al., 2024) takes a running mean of the gradients and brings all its singular values
close to 1 before it takes the step. On tables without noise, fewer steps and narrower networks
are enough then.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from softbins.nn.adam import Adam
from softbins.nn.settings import MuonSettings

# Two polynomials a x + b x^3 + c x^5 that are applied in turn (as Amsel et al., 2025, compose
# them). The first is the one closest to 1 on [0.02, 1], the second is the one closest to 1 on the
# values of the first there. Linear programs found them.
QUINTICS = ((7.711, -22.1138, 16.2487), (3.2153, -2.4112, 0.5013))


class Muon(Adam):
    """Muon for the weights (V, inputs, units) of hidden layers, Adam for all other parameters.

    Weights with many more inputs than units, or without `requires_grad`, are not Muon's either.
    `adam_options` are arguments of `Adam`; of those, weight decay is for Muon's weights as well.

        optimizer = Muon(list(network.parameters()), network.hidden_weights(), 1e-3, settings)
    """

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        hidden_weights: Sequence[nn.Parameter],
        rate: float,
        settings: MuonSettings,
        **adam_options: float,
    ) -> None:
        self.settings = settings
        self.matrices = [m for m in hidden_weights if m.requires_grad and self._suits(m)]
        chosen = set(self.matrices)
        rest = [parameter for parameter in parameters if parameter not in chosen]
        super().__init__(rest, rate, **adam_options)
        self.state |= {matrix: {"exp_avg": torch.zeros_like(matrix)} for matrix in self.matrices}

    def zero_grad(self) -> None:
        """Remove the gradients of all parameters."""
        super().zero_grad()
        for matrix in self.matrices:
            matrix.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Change the parameters that have a gradient."""
        for matrix in self.matrices:
            if matrix.grad is not None:
                self._step_matrix(matrix, matrix.grad)
        super().step()

    def _step_matrix(self, matrix: Tensor, gradient: Tensor) -> None:
        mean = self.state[matrix]["exp_avg"].lerp_(gradient, 1 - self.settings.momentum)
        inputs, units = matrix.shape[1:]
        size = self.rate * self.settings.rate_factor * math.sqrt(units / inputs)
        matrix.mul_(1 - self.rate * self.weight_decay)
        matrix.sub_(orthogonalize(gradient.lerp(mean, self.settings.momentum)), alpha=size)

    def _suits(self, matrix: Tensor) -> bool:
        """Whether there are not many more inputs than units.

        Most directions of the gradient would be noise then, and Adam does better.
        """
        inputs, units = matrix.shape[1:]
        return inputs <= self.settings.max_inputs_per_unit * units


def orthogonalize(matrices: Tensor) -> Tensor:
    """Matrices (V, rows, columns) with the same singular vectors and singular values close to 1.

    First, the singular values s are divided by (sum s^4)^(1/4), which is at least the largest of
    them and closer to it than the Frobenius norm. What is below 0.02 then becomes about 25 times
    as large, and all others end within 0.52 of 1.
    """
    x = matrices / _norms(matrices)
    square = _gram_matrix(x)
    size = _norms(square)
    x, square = x.div_(size.sqrt()), square.div_(size)
    first, second = QUINTICS
    x = _quintic(x, square, *first)
    return _quintic(x, _gram_matrix(x), *second)


def _norms(matrices: Tensor) -> Tensor:
    """Frobenius norms (V, 1, 1), with something tiny instead of 0."""
    norms: Tensor = torch.linalg.vector_norm(matrices, dim=(1, 2), keepdim=True)
    return norms.clamp_min(torch.finfo(matrices.dtype).tiny)


def _gram_matrix(x: Tensor) -> Tensor:
    """The smaller one of the products x^T x and x x^T."""
    return torch.bmm(x.mT, x) if x.shape[1] > x.shape[2] else torch.bmm(x, x.mT)


def _quintic(x: Tensor, square: Tensor, a: float, b: float, c: float) -> Tensor:
    """The polynomial a s + b s^3 + c s^5 of the singular values s, given the Gram matrix of x."""
    rest = torch.baddbmm(square, square, square, beta=b, alpha=c)
    if x.shape[1] > x.shape[2]:
        return torch.baddbmm(x, x, rest, beta=a)
    return torch.baddbmm(x, rest, x, beta=a)
