"""The weights of targets on bins, for any array library `xp`; `array_bins` says what that is.

Equal to those of `softbins.targets`, but worked out in float32 where an array library has no more.
Everything starts from the signed distances of the edges from a target, which have all their digits
(`Split`), and no step subtracts numbers that are close to each other:

- Inside the bins, a mass of the Gaussian is a difference of erf over Z. Rounding of erf is at most
  some 1e-7 of the sum, which is what Z is, whatever sigma.
- Outside (`outside="tail"`), all masses are tiny, and wanted as shares of each other. At distance
  z = s + g from the target, s to the nearest edge and g from there on, the density is proportional
  to exp(-g (g / 2 + s)), and its integral from g on to
  erfcx(z / sqrt 2) exp(-g (g / 2 + s)) with erfcx(x) = exp(x^2) erfc(x). Over a bin in which the
  density falls a lot, the mass is the difference of two such integrals, the second much smaller
  than the first. Over one in which it hardly falls, that would cancel, but a Gauss-Legendre rule of
  a few nodes is exact.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softbins._core.array_bins import ArrayBins, array_bins
from softbins._core.array_places import array_curve
from softbins._core.gaussian_masses import SQRT2
from softbins._core.target_base import Outside
from softbins.bins import Bins
from softbins.targets import Gaussian, OneBin, Target, TwoHot, UniformMix

TARGETS = (Gaussian, OneBin, TwoHot, UniformMix)
# Beyond so many times the bins' range, a Gaussian is flat in every precision.
LARGEST_SIGMA_IN_RANGES = 1e6
# So far away, in sigmas, the nearest bin has everything, and float32 still holds the masses.
FARTHEST_IN_SIGMAS = 1e18
# Gauss-Legendre nodes, good to 1e-15 where the density falls to exp(-FALL) within a bin.
NODES = 6
FALL = 1.0
# The degree with which log(erfcx) is good to 1e-14.
ERFCX_DEGREE = 24


def require_target(target: Any, sigma: Any) -> None:
    """Raise `TypeError` unless this target distribution has its weights here."""
    if not isinstance(target, TARGETS):
        names = ", ".join(known.__name__ for known in TARGETS)
        raise TypeError(
            f"target: expected one of {names}, got {target!r}; others need PyTorch's HistogramLoss"
        )
    if sigma is not None and not isinstance(target, Gaussian):
        raise ValueError(f"sigma: {type(target).__name__} has none, only Gaussian does")


def weights(
    xp: Any, y: Any, bins: Bins, target: Target, dtype: str, sigma: Any | None = None
) -> Any:
    """The weights (*y.shape, k) of targets, NaN where a target has to be refused.

    Compiled functions cannot raise an error because of a value. A target is refused if it is not
    finite, and also if it is outside the bins where the target distribution says "error". `sigma`
    replaces that of a Gaussian, and broadcasts against `y`.
    """
    require_target(target, sigma)
    parts, y = array_bins(bins, dtype), xp.expand_dims(y, -1)
    distances = parts.edges.distance_from(xp, y, dtype)
    if isinstance(target, Gaussian) and bins.transformed_step is not None:
        result = _transformed_gaussian(xp, y, bins, target, dtype, sigma)
    elif isinstance(target, Gaussian):
        sigmas = _sigmas(xp, distances, bins, target, dtype, sigma)
        result = _gaussian(xp, distances, parts, target.outside, dtype, sigmas)
    elif isinstance(target, TwoHot):
        result = _two_hot(xp, y, parts, dtype)
    else:
        result = _own_bin(xp, distances, dtype)
    if isinstance(target, UniformMix):
        epsilon = xp.array(_epsilon(target, bins), dtype)
        result = epsilon + result * (1 - bins.count * epsilon)
    return xp.where(_valid(xp, y, distances, bins, target, dtype), result, math.nan)


def _valid(xp: Any, y: Any, distances: Any, bins: Bins, target: Target, dtype: str) -> Any:
    finite = xp.isfinite(y)
    if target.outside != "error":
        return finite
    # The ends themselves may have been rounded outwards to the targets' precision.
    room = float(np.finfo(dtype).eps)
    above = distances[..., :1] <= room * abs(bins.low)
    below = distances[..., -1:] >= -room * abs(bins.high)
    return xp.logical_and(finite, xp.logical_and(above, below))


# Weights as differences of what lies to the left


def _falls(xp: Any, inner: Any) -> Any:
    """Weights (..., k) from the shares (..., k - 1) that lie right of the inner borders."""
    one = xp.ones_like(inner[..., :1])
    shares = xp.concatenate([one, inner, xp.zeros_like(one)], axis=-1)
    return shares[..., :-1] - shares[..., 1:]


def _own_bin(xp: Any, distances: Any, dtype: str) -> Any:
    """All the weight in the bin that holds the target, or else in the nearest one."""
    return _falls(xp, xp.array(distances[..., 1:-1] <= 0, dtype))


def _two_hot(xp: Any, y: Any, parts: ArrayBins, dtype: str) -> Any:
    """The share of the way from each center to the next that lies left of the target."""
    passed = -parts.centers.distance_from(xp, y, dtype)[..., :-1]
    return _falls(xp, xp.clip(passed / xp.array(parts.gaps, dtype), 0.0, 1.0))


def _epsilon(target: UniformMix, bins: Bins) -> NDArray[Any]:
    epsilon = per_bin(target.epsilon)
    if (epsilon > 1 / bins.count).any():
        raise ValueError(
            f"epsilon: got {target.epsilon}; with {bins.count} bins, epsilon must lie in "
            f"[0, 1 / {bins.count}]"
        )
    return epsilon


def per_bin(value: float | Tensor) -> NDArray[Any]:
    """A parameter of a target, a number or a tensor, made to broadcast against (*y.shape, k)."""
    found = value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
    return np.expand_dims(found, -1)


# The Gaussian


def _sigmas(
    xp: Any, distances: Any, bins: Bins, target: Gaussian, dtype: str, sigma: Any | None
) -> Any:
    """Sigma in the target's unit, (..., 1), kept where all that follows is finite."""
    largest = float(np.finfo(dtype).max)
    own = np.minimum(per_bin(target.sigma), largest) if sigma is None else xp.expand_dims(sigma, -1)
    sigmas = xp.array(own, dtype)
    if target.in_bins and bins.step is not None:
        sigmas = sigmas * bins.step
    elif target.in_bins:
        widths = xp.array(array_bins(bins, dtype).widths, dtype)
        sigmas = sigmas * xp.sum(_own_bin(xp, distances, dtype) * widths, axis=-1, keepdims=True)
    flat = LARGEST_SIGMA_IN_RANGES * (bins.high - bins.low)
    return xp.clip(sigmas, float(np.finfo(dtype).tiny), min(flat, largest))


def _gaussian(
    xp: Any, distances: Any, parts: ArrayBins, outside: Outside, dtype: str, sigma: Any
) -> Any:
    """The masses of Gaussians about targets at such distances from the edges."""
    below, above = distances[..., :1], -distances[..., -1:]
    from_nearest = xp.where(below > 0, xp.array(parts.from_low, dtype), distances)
    from_nearest = xp.where(above > 0, xp.array(parts.from_high, dtype), from_nearest)
    masses = _rises(xp.erf(from_nearest / (sigma * SQRT2)))
    if outside == "tail":
        beyond = xp.maximum(below, above)
        start = xp.clip(beyond / sigma, 0.0, FARTHEST_IN_SIGMAS)
        widths = xp.array(parts.widths, dtype) / sigma
        tail = _tail_masses(xp, start, xp.abs(from_nearest) / sigma, widths)
        masses = xp.where(beyond > 0, tail, masses)
    return masses / xp.sum(masses, axis=-1, keepdims=True)


def _transformed_gaussian(
    xp: Any, y: Any, bins: Bins, target: Gaussian, dtype: str, sigma: Any | None
) -> Any:
    """The weights on bins that are equal in another space, counted in bins there."""
    sigma = target.sigma if sigma is None else sigma
    if not isinstance(sigma, float | int):
        raise ValueError(f"sigma: on {bins} it must be one number; others need PyTorch")
    in_bins = sigma if target.in_bins else sigma / (bins.transformed_step or 1.0)
    curve = array_curve(bins, float(in_bins), dtype)
    return _gaussian(xp, curve.distances(xp, y, dtype), curve.even, "tail", dtype, in_bins)


def _rises(values: Any) -> Any:
    return values[..., 1:] - values[..., :-1]


def _tail_masses(xp: Any, start: Any, gap: Any, width: Any) -> Any:
    """Masses of targets outside the bins, up to a factor: see the top of this file."""
    near = xp.minimum(gap[..., :-1], gap[..., 1:])
    tails = scaled_erfc(xp, (start + gap) / SQRT2) * xp.exp(-gap * (gap / 2 + start))
    flat = width * (near + width + start) <= FALL
    return xp.where(flat, _integral(xp, start, near, width), xp.abs(_rises(tails)))


def _integral(xp: Any, start: Any, near: Any, width: Any) -> Any:
    """The integral of sqrt(2 / pi) exp(-g (g / 2 + start)) for g from near to near + width."""
    places, shares = np.polynomial.legendre.leggauss(NODES)
    total = xp.zeros_like(width)
    for place, share in zip((places + 1) / 2, shares / 2, strict=True):
        gap = near + width * float(place)
        total = total + float(share) * xp.exp(-gap * (gap / 2 + start))
    return math.sqrt(2 / math.pi) * width * total


def scaled_erfc(xp: Any, x: Any) -> Any:
    """exp(x^2) erfc(x) for x >= 0, which few array libraries have: t exp(P(t)), t = 2 / (2 + x)."""
    t = 2 / (2 + x)
    position = 4 * t - 2
    last, before = xp.zeros_like(t), xp.zeros_like(t)
    first, *others = _scaled_erfc_coefficients()
    for coefficient in reversed(others):
        last, before = position * last - before + coefficient, last
    return t * xp.exp(position / 2 * last - before + first)


@cache
def _scaled_erfc_coefficients() -> list[float]:
    """The Chebyshev coefficients of P(t) = log(exp(x^2) erfc(x) / t), which is smooth in t."""

    def logarithm(position: Any) -> Any:
        t = (position + 1) / 2
        return np.log(torch.special.erfcx(torch.from_numpy(2 / t - 2)).numpy() / t)

    found = np.polynomial.chebyshev.chebinterpolate(logarithm, ERFCX_DEGREE)
    return [float(coefficient) for coefficient in found]
