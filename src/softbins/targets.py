"""What a target value becomes: a distribution over the bins (Section 2.3).

Each target turns values `y` of any shape into rows of k weights that sum to one:
`target.weights(y, bins)` has shape `(*y.shape, k)`. Everything is worked out in float64 and
handed back in the precision of `y`; the one exception is the window of `Gaussian`, see there.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution

from softbins._checks import LARGEST, SMALLEST_POSITIVE, require
from softbins.bins import Bins

Outside = Literal["clamp", "error", "tail"]
SQRT2 = math.sqrt(2.0)


@dataclass(frozen=True, eq=False)
class Target(ABC):
    """A distribution over the bins for each target value; the choice of p in Section 2.2.

    `outside` says what happens to targets outside the bins' range: "clamp" moves them to the
    nearest end, "error" refuses them, "tail" keeps them where they are and truncates their
    distribution to the range, however little of it is left there.
    """

    _: KW_ONLY
    outside: Outside = "clamp"

    def __post_init__(self) -> None:
        if self.outside not in ("clamp", "error", "tail"):
            raise ValueError(f"outside: expected 'clamp', 'error' or 'tail', got {self.outside!r}")

    def weights(self, y: Tensor, bins: Bins) -> Tensor:
        """Rows p_1 .. p_k >= 0 that sum to one, one for each value of `y`."""
        dtype = torch.promote_types(y.dtype, torch.float32)
        return self._masses(self.placed(y, bins), bins).to(dtype)

    def placed(self, y: Tensor, bins: Bins) -> Tensor:
        """The targets in float64, checked, and moved where `outside` wants them."""
        if y.device != bins.edges.device:
            raise ValueError(f"y: is on {y.device}, but the bins are on {bins.edges.device}")
        if self.outside == "error":
            # The ends themselves may have been rounded outwards to the targets' precision.
            eps = torch.finfo(y.dtype).eps if y.is_floating_point() else 0.0
            low, high = bins.low - eps * abs(bins.low), bins.high + eps * abs(bins.high)
            hint = "widen the bins (Bins.covering), or choose outside='clamp' or 'tail'"
            y = require("y", y, low, high, hint).double()
        else:
            y = require("y", y, hint="drop or impute those rows").double()
        return y if self.outside == "tail" else y.clamp(bins.low, bins.high)

    @abstractmethod
    def _masses(self, y: Tensor, bins: Bins) -> Tensor:
        """The weights of targets that `placed` has prepared, in float64."""


def _within(name: str, value: float | Tensor, low: float, high: float, hint: str) -> float | Tensor:
    """A parameter, a number or a tensor of them, that lies in [low, high]."""
    if isinstance(value, Tensor):
        return require(name, value, low, high, hint)
    if not low <= value <= high:
        raise ValueError(f"{name}: got {value}; {hint}")
    return value


def _positive(name: str, value: float | Tensor) -> float | Tensor:
    return _within(name, value, SMALLEST_POSITIVE, LARGEST, f"{name} must be positive and finite")


def _row(value: float | Tensor, y: Tensor) -> float | Tensor:
    """A parameter that broadcasts against `y`, made to broadcast against rows of bins."""
    return value.to(y).unsqueeze(-1) if isinstance(value, Tensor) else value


def _normalised(masses: Tensor) -> Tensor:
    return masses / masses.sum(-1, keepdim=True)


def _one_hot(index: Tensor, bins: Bins) -> Tensor:
    return (index.unsqueeze(-1) == torch.arange(bins.count, device=index.device)).double()


@dataclass(frozen=True, eq=False)
class OneBin(Target):
    """HL-OneBin: all the weight in the target's bin, the limit of a Dirac delta (Section 2.3)."""

    def _masses(self, y: Tensor, bins: Bins) -> Tensor:
        return _one_hot(bins.locate(y), bins)


@dataclass(frozen=True, eq=False)
class UniformMix(Target):
    """HL-Uniform: weight epsilon in each other bin, 1 - (k - 1) epsilon in the target's own.

    `epsilon` is a number or a tensor that broadcasts against the targets. The paper prints
    1 - k epsilon for the target's bin, which does not sum to one.
    """

    epsilon: float | Tensor

    def __post_init__(self) -> None:
        super().__post_init__()
        _within("epsilon", self.epsilon, 0.0, 0.5, "epsilon must lie in [0, 1 / number of bins]")

    def _masses(self, y: Tensor, bins: Bins) -> Tensor:
        hint = f"with {bins.count} bins, epsilon must lie in [0, 1 / {bins.count}]"
        epsilon = _row(_within("epsilon", self.epsilon, 0.0, 1 / bins.count, hint), y)
        return epsilon + _one_hot(bins.locate(y), bins) * (1 - bins.count * epsilon)


@dataclass(frozen=True, eq=False)
class TwoHot(Target):
    """The two bins whose centres enclose the target, weighted so that the mean is the target.

    Targets beyond the first or last centre put all their weight there.
    """

    def _masses(self, y: Tensor, bins: Bins) -> Tensor:
        y = y.clamp(bins.centers[0].item(), bins.centers[-1].item())
        left = torch.searchsorted(bins.centers[1:-1].contiguous(), y.contiguous(), right=True)
        start = bins.centers[left]
        share = (y - start) / (bins.centers[left + 1] - start)
        share = share.unsqueeze(-1)
        return _one_hot(left, bins) * (1 - share) + _one_hot(left + 1, bins) * share


@dataclass(frozen=True, eq=False)
class Similarity(Target):
    """Radial basis similarity of the target to the bins' centres, normalised (Section 2.3).

    The soft labels of age estimation: p_i proportional to exp(-(c_i - y)^2 / (2 bandwidth^2)).
    """

    bandwidth: float | Tensor

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "bandwidth", _positive("bandwidth", self.bandwidth))

    def _masses(self, y: Tensor, bins: Bins) -> Tensor:
        # Distances relative to the nearest centre, so that nothing overflows or cancels:
        # (c - y)^2 - (n - y)^2 = (c - n) (c + n - 2 y).
        nearest = bins.centers[TwoHot()._masses(y, bins).argmax(-1)].unsqueeze(-1)
        beyond, bandwidth = y.unsqueeze(-1) - nearest, _row(self.bandwidth, y)
        gap = bins.centers - nearest
        return torch.softmax(-(gap / bandwidth) * ((gap - 2 * beyond) / bandwidth) / 2, -1)


@dataclass(frozen=True, eq=False)
class FromCDF(Target):
    """Any family of `torch.distributions` with a cdf: "the choice of p is flexible" (Section 2.2).

    `make(y)` returns the distribution of targets `y`, such as `lambda y: Laplace(y, 0.5)`. It is
    truncated to the bins; where nothing of it is left there, the nearest bin takes all.
    """

    make: Callable[[Tensor], Distribution]

    def _masses(self, y: Tensor, bins: Bins) -> Tensor:
        distribution = self.make(y.unsqueeze(-1))
        try:
            cdf = distribution.cdf(bins.edges)
        except ValueError as error:
            raise ValueError(
                f"make: {type(distribution).__name__} has no cdf at some edge of {bins}; build "
                f"it with validate_args=False if it is 0 or 1 there ({error})"
            ) from error
        masses = cdf.diff().clamp_min(0.0)
        total = masses.sum(-1, keepdim=True)
        usable = torch.isfinite(total) & (total > torch.finfo(total.dtype).tiny)
        return torch.where(usable, masses / total, _one_hot(bins.locate(y), bins))


@dataclass(frozen=True, eq=False)
class Payoff(Target):
    """The exponentiated payoff p(t) proportional to exp(reward(t, y) / temperature) (Section 3).

    `reward(t, y)` is elementwise. For -(t - y)^2 / 2 this is `Gaussian` with
    sigma^2 = temperature. The integral over each bin is a quadrature with the bin of `y` cut in
    two at `y`, good to 1e-6 for a peak or a kink at the target down to 1e-3 of a bin's width.
    """

    reward: Callable[[Tensor, Tensor], Tensor]
    temperature: float | Tensor

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "temperature", _positive("temperature", self.temperature))

    def _masses(self, y: Tensor, bins: Bins) -> Tensor:
        own, inner = bins.locate(y).unsqueeze(-1), y.clamp(bins.low, bins.high).unsqueeze(-1)
        # Cell i is bin i left of the target's own bin, and bin i - 1 right of it; the own bin
        # [l, h) is cells [l, y) and [y, h).
        cell = torch.arange(bins.count + 1, device=y.device)
        starts = torch.where(cell == own + 1, inner, bins.edges[cell - (cell > own).long()])
        ends = torch.where(cell == own, inner, bins.edges[1:][cell - (cell > own).long()])
        logs = self._log_integrals(starts, ends, y.unsqueeze(-1))
        masses = torch.softmax(logs, -1)
        left = torch.where(cell[:-1] <= own, masses[..., :-1], 0.0)
        right = torch.where(cell[:-1] >= own, masses[..., 1:], 0.0)
        return left + right

    def _log_integrals(self, starts: Tensor, ends: Tensor, y: Tensor) -> Tensor:
        nodes, log_weights = (part.to(y) for part in _tanh_rule())
        width = (ends - starts).unsqueeze(-1)
        # Measured from the nearer end: a node next to the target keeps its tiny distance.
        near, far = starts.unsqueeze(-1) + width * nodes, ends.unsqueeze(-1) - width * nodes
        temperature = self.temperature
        if isinstance(temperature, Tensor):
            temperature = temperature.to(y)[..., None, None]
        payoff = self.reward(torch.cat([near, far], -1), y.unsqueeze(-1)) / temperature
        return torch.logsumexp(payoff + torch.cat([log_weights] * 2), -1) + width.squeeze(-1).log()


@cache
def _tanh_rule(nodes: int = 64, reach: float = 10.0) -> tuple[Tensor, Tensor]:
    """Half of a tanh quadrature on [0, 1]: distances from the nearer end, and log weights.

    The nodes are spread evenly over the logarithm of their distance, down to exp(-2 reach), so
    that a peak at an end is sampled equally well whatever its width.
    """
    step = reach / nodes
    u = (np.arange(nodes) + 0.5) * step
    weight = step / 2 / np.cosh(u) ** 2
    return torch.tensor(1 / (1 + np.exp(2 * u))), torch.tensor(np.log(weight))


@dataclass(frozen=True, eq=False)
class Gaussian(Target):
    """HL-Gaussian: a Gaussian about the target, truncated to the bins (Section 2.3).

    p_i = (Phi((l_{i+1} - y) / sigma) - Phi((l_i - y) / sigma)) / Z. `sigma` is a standard
    deviation in the target's unit: a number, or a tensor that broadcasts against the targets
    (heteroscedastic targets, members with different sigmas). `Gaussian.of_bins(1.0)` counts it
    in widths of the target's own bin instead: the paper's setting.
    """

    sigma: float | Tensor
    in_bins: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "sigma", _positive("sigma", self.sigma))

    @classmethod
    def of_bins(cls, ratio: float | Tensor = 1.0, *, outside: Outside = "clamp") -> Gaussian:
        """Sigma as a multiple of the width of the bin in which the target lies."""
        return cls(ratio, in_bins=True, outside=outside)

    def with_sigma(self, sigma: float | Tensor) -> Gaussian:
        """The same target with another sigma, in the same unit."""
        return replace(self, sigma=sigma)

    def _sigmas(self, y: Tensor, bins: Bins) -> float | Tensor:
        """Sigma for each row of bins, in the target's unit."""
        sigma = _row(self.sigma, y)
        if not self.in_bins:
            return sigma
        if bins.step is not None:
            return sigma * bins.step
        return sigma * bins.widths[bins.locate(y)].unsqueeze(-1)

    def _masses(self, y: Tensor, bins: Bins) -> Tensor:
        sigma, y = self._sigmas(y, bins), y.unsqueeze(-1)
        masses = torch.erf((bins.edges - y) / (sigma * SQRT2)).diff()
        if self.outside == "tail":
            inside = (y >= bins.low) & (y <= bins.high)
            masses = torch.where(inside, masses, _tail_masses(y, bins, sigma))
        return _normalised(masses)


def _tail_masses(y: Tensor, bins: Bins, sigma: float | Tensor) -> Tensor:
    """Masses of targets outside the bins, up to a factor that keeps them from underflowing.

    At distance z from the target, the tail is Q(z) = erfcx(z / sqrt 2) exp(-z^2 / 2) / 2. With
    z = z_0 + gap, where z_0 belongs to the nearest edge, dividing by exp(-z_0^2 / 2) leaves
    exp(-gap (gap + 2 z_0) / 2); the gap comes from the edges alone, so that nothing cancels.
    """
    nearest = y.clamp(bins.low, bins.high)
    start, gap = (y - nearest).abs() / sigma, (bins.edges - nearest).abs() / sigma
    scaled: Tensor = torch.special.erfcx((start + gap) / SQRT2)
    return (scaled * torch.exp(-gap * (gap / 2 + start))).diff().abs()
