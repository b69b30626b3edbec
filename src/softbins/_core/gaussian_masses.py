"""The masses of a Gaussian between edges, inside of them and however far away."""

from __future__ import annotations

import math

import torch
from torch import Tensor

SQRT2 = math.sqrt(2.0)


def inner_masses(y: Tensor, edges: Tensor, sigma: float | Tensor) -> Tensor:
    """Twice the masses of Gaussians about y (..., 1), for y inside the edges."""
    return torch.erf((edges - y) / (sigma * SQRT2)).diff()


def all_masses(y: Tensor, edges: Tensor, sigma: float | Tensor) -> Tensor:
    """The masses up to a factor for each y (..., 1), which keeps those of a far y above 0.

    At distance z from y, the tail is Q(z) = erfcx(z / sqrt 2) exp(-z^2 / 2) / 2. With
    z = z_0 + gap, where z_0 belongs to the nearest edge, dividing by exp(-z_0^2 / 2) leaves
    exp(-gap (gap + 2 z_0) / 2); the gap comes from the edges alone, so that nothing cancels.
    """
    nearest, start, gap = _distances(y, edges, sigma)
    scaled: Tensor = torch.special.erfcx((start + gap) / SQRT2)
    outer = (scaled * torch.exp(-gap * (gap / 2 + start))).diff().abs()
    return torch.where(y == nearest, inner_masses(y, edges, sigma), outer)


def slopes_of_masses(y: Tensor, edges: Tensor, sigma: float | Tensor) -> Tensor:
    """The derivatives of the masses in y, up to the factor of `all_masses`."""
    _, start, gap = _distances(y, edges, sigma)
    density = math.sqrt(2 / math.pi) * torch.exp(-gap * (gap / 2 + start)) / sigma
    return -density.diff()


def _distances(y: Tensor, edges: Tensor, sigma: float | Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The nearest point inside the edges, and in sigmas, how far from it y and the edges are."""
    nearest = torch.minimum(torch.maximum(y, edges[..., :1]), edges[..., -1:])
    return nearest, (y - nearest).abs() / sigma, (edges - nearest).abs() / sigma
