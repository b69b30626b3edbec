"""What a target value becomes: a distribution over the bins (Section 2.3).

Each target turns values `y` of any shape into rows of k weights that sum to one:
`target.weights(y, bins)` has shape `(*y.shape, k)`. Everything is worked out in float64 and
returned in the precision of `y`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.distributions import Distribution

from softbins._core.exact_mean import curve_of, weights_with_mean
from softbins._core.gaussian_masses import all_masses, inner_masses
from softbins._core.quadrature import tanh_rule
from softbins._core.target_base import Outside, Target, one_hot, per_bin, positive, within
from softbins.bins import Bins

__all__ = [
    "FromCDF",
    "Gaussian",
    "OneBin",
    "Payoff",
    "Similarity",
    "Target",
    "TwoHot",
    "UniformMix",
]


@dataclass(frozen=True, eq=False)
class OneBin(Target):
    """HL-OneBin: all the weight in the target's bin, the limit of a Dirac delta (Section 2.3).

    Parameters
    ----------
    outside : {"clamp", "error", "tail"}
        What happens to targets outside the bins; see `Target`.

    Examples
    --------
    >>> import torch
    >>> from softbins import Bins, OneBin
    >>> OneBin().weights(torch.tensor(0.3), Bins.uniform(0.0, 1.0, 4))
    tensor([0., 1., 0., 0.])
    """

    def _masses(self, y: Tensor, bins: Bins) -> Tensor:
        return one_hot(bins.locate(y), bins)

    def _counted_in(self, width: Tensor) -> Target:
        return self


@dataclass(frozen=True, eq=False)
class UniformMix(Target):
    """HL-Uniform: weight epsilon in each other bin, 1 - (k - 1) epsilon in the target's own.

    The paper prints 1 - k epsilon for the target's bin, with which the weights do not sum to one.

    Parameters
    ----------
    epsilon : float or Tensor
        Weight of each bin that does not hold the target, from 0 to 1 / k. A tensor broadcasts
        against the targets.
    outside : {"clamp", "error", "tail"}
        What happens to targets outside the bins; see `Target`.

    Examples
    --------
    >>> import torch
    >>> from softbins import Bins, UniformMix
    >>> UniformMix(0.05).weights(torch.tensor(0.3), Bins.uniform(0.0, 1.0, 4))
    tensor([0.0500, 0.8500, 0.0500, 0.0500])
    """

    epsilon: float | Tensor

    def __post_init__(self) -> None:
        super().__post_init__()
        within("epsilon", self.epsilon, 0.0, 0.5, "epsilon must lie in [0, 1 / number of bins]")

    def _masses(self, y: Tensor, bins: Bins) -> Tensor:
        hint = f"with {bins.count} bins, epsilon must lie in [0, 1 / {bins.count}]"
        epsilon = per_bin(within("epsilon", self.epsilon, 0.0, 1 / bins.count, hint), y)
        return epsilon + one_hot(bins.locate(y), bins) * (1 - bins.count * epsilon)

    def _counted_in(self, width: Tensor) -> Target:
        return self


@dataclass(frozen=True, eq=False)
class TwoHot(Target):
    """The two bins whose centers enclose the target, weighted so that the mean is the target.

    Targets beyond the first or last center put all their weight there.

    Parameters
    ----------
    outside : {"clamp", "error", "tail"}
        What happens to targets outside the bins; see `Target`.

    Examples
    --------
    >>> import torch
    >>> from softbins import Bins, TwoHot
    >>> TwoHot().weights(torch.tensor(0.75), Bins([0.0, 1.0, 2.0]))
    tensor([0.7500, 0.2500])
    """

    def _masses(self, y: Tensor, bins: Bins) -> Tensor:
        y = y.clamp(bins.centers[0].item(), bins.centers[-1].item())
        left = torch.searchsorted(bins.centers[1:-1].contiguous(), y.contiguous(), right=True)
        start = bins.centers[left]
        share = (y - start) / (bins.centers[left + 1] - start)
        share = share.unsqueeze(-1)
        return one_hot(left, bins) * (1 - share) + one_hot(left + 1, bins) * share

    def _counted_in(self, width: Tensor) -> Target:
        return self


@dataclass(frozen=True, eq=False)
class Similarity(Target):
    """Radial basis similarity of the target to the bins' centers, normalized (Section 2.3).

    The soft labels of age estimation: p_i proportional to exp(-(c_i - y)^2 / (2 bandwidth^2)).

    Parameters
    ----------
    bandwidth : float or Tensor
        Distance in the target's unit, positive. A tensor broadcasts against the targets.
    outside : {"clamp", "error", "tail"}
        What happens to targets outside the bins; see `Target`.

    Examples
    --------
    >>> import torch
    >>> from softbins import Bins, Similarity
    >>> Similarity(1.0).weights(torch.tensor(1.5), Bins([0.0, 1.0, 2.0, 3.0]))
    tensor([0.2741, 0.4519, 0.2741])
    """

    bandwidth: float | Tensor

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "bandwidth", positive("bandwidth", self.bandwidth))

    def _masses(self, y: Tensor, bins: Bins) -> Tensor:
        # Distances relative to the nearest center, so that nothing overflows or cancels:
        # (c - y)^2 - (n - y)^2 = (c - n) (c + n - 2 y).
        nearest = bins.centers[TwoHot()._masses(y, bins).argmax(-1)].unsqueeze(-1)
        beyond, bandwidth = y.unsqueeze(-1) - nearest, per_bin(self.bandwidth, y)
        gap = bins.centers - nearest
        return torch.softmax(-(gap / bandwidth) * ((gap - 2 * beyond) / bandwidth) / 2, -1)

    def _counted_in(self, width: Tensor) -> Target:
        return replace(self, bandwidth=_number(self.bandwidth, width) / width)


@dataclass(frozen=True, eq=False)
class FromCDF(Target):
    """Any family of `torch.distributions` with a cdf: "the choice of p is flexible" (Section 2.2).

    The distribution is truncated to the bins; where nothing of it is left there, the nearest bin
    takes all.

    Parameters
    ----------
    make : callable
        `make(y)` returns the distribution of targets `y`, such as `lambda y: Laplace(y, 0.5)`.
    outside : {"clamp", "error", "tail"}
        What happens to targets outside the bins; see `Target`.

    Examples
    --------
    >>> import torch
    >>> from softbins import Bins, FromCDF
    >>> laplace = FromCDF(lambda y: torch.distributions.Laplace(y, 0.5))
    >>> laplace.weights(torch.tensor(1.5), Bins([0.0, 1.0, 2.0, 3.0]))
    tensor([0.1674, 0.6652, 0.1674])
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
        return torch.where(usable, masses / total, one_hot(bins.locate(y), bins))


@dataclass(frozen=True, eq=False)
class Payoff(Target):
    """The exponentiated payoff p(t) proportional to exp(reward(t, y) / temperature) (Section 3).

    For the reward -(t - y)^2 / 2 this is `Gaussian` with sigma^2 = temperature. The integral over
    each bin is a quadrature with the bin of `y` cut in two at `y`, good to 1e-6 for a peak or a
    kink at the target down to 1e-3 of a bin's width.

    Parameters
    ----------
    reward : callable
        `reward(t, y)` is what predicting t brings if the target is y, element by element.
    temperature : float or Tensor
        Divides the reward, positive. A tensor broadcasts against the targets.
    outside : {"clamp", "error", "tail"}
        What happens to targets outside the bins; see `Target`.

    Examples
    --------
    >>> import torch
    >>> from softbins import Bins, Payoff
    >>> payoff = Payoff(lambda t, y: -(t - y).abs(), temperature=0.5)
    >>> payoff.weights(torch.tensor(1.5), Bins([0.0, 1.0, 2.0, 3.0]))
    tensor([0.1674, 0.6652, 0.1674])
    """

    reward: Callable[[Tensor, Tensor], Tensor]
    temperature: float | Tensor

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "temperature", positive("temperature", self.temperature))

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
        nodes, log_weights = (part.to(y) for part in tanh_rule())
        width = (ends - starts).unsqueeze(-1)
        # Measured from the nearer end: a node next to the target keeps its tiny distance.
        near, far = starts.unsqueeze(-1) + width * nodes, ends.unsqueeze(-1) - width * nodes
        temperature = self.temperature
        if isinstance(temperature, Tensor):
            temperature = temperature.to(y)[..., None, None]
        payoff = self.reward(torch.cat([near, far], -1), y.unsqueeze(-1)) / temperature
        return torch.logsumexp(payoff + torch.cat([log_weights] * 2), -1) + width.squeeze(-1).log()


@dataclass(frozen=True, eq=False)
class Gaussian(Target):
    """HL-Gaussian: a Gaussian about the target, truncated to the bins (Section 2.3).

    p_i = (Phi((l_{i+1} - y) / sigma) - Phi((l_i - y) / sigma)) / Z. The paper's setting, a sigma
    of one bin, is `Gaussian.of_bins(1.0)`. On bins that are equal in another space
    (`Bins.symlog`, `Bins.transformed`) it is Gaussian there, with the target as its mean in the
    target's own unit.

    Parameters
    ----------
    sigma : float or Tensor
        Standard deviation in the target's unit, or in that of the space in which the bins are
        equal; positive. A tensor broadcasts against the targets, for heteroscedastic targets or
        for members with different sigmas.
    in_bins : bool
        Whether sigma is counted in widths of the bin in which the target lies instead.
    outside : {"clamp", "error", "tail"}
        What happens to targets outside the bins; see `Target`.

    Examples
    --------
    >>> import torch
    >>> from softbins import Bins, Gaussian
    >>> Gaussian(0.5).weights(torch.tensor(1.5), Bins([0.0, 1.0, 2.0, 3.0]))
    tensor([0.1577, 0.6845, 0.1577])
    """

    sigma: float | Tensor
    in_bins: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "sigma", positive("sigma", self.sigma))

    @classmethod
    def of_bins(cls, ratio: float | Tensor = 1.0, *, outside: Outside = "clamp") -> Gaussian:
        """A Gaussian whose sigma is a multiple of the width of the bin that holds the target.

        Parameters
        ----------
        ratio : float or Tensor
            Sigma divided by the bin's width, positive.
        outside : {"clamp", "error", "tail"}
            What happens to targets outside the bins; see `Target`.

        Returns
        -------
        Gaussian
            The target distribution.
        """
        return cls(ratio, in_bins=True, outside=outside)

    def with_sigma(self, sigma: float | Tensor) -> Gaussian:
        """The same target distribution with another sigma, in the same unit.

        Parameters
        ----------
        sigma : float or Tensor
            The new sigma, positive.

        Returns
        -------
        Gaussian
            A copy with that sigma.
        """
        return replace(self, sigma=sigma)

    def prepare(self, bins: Bins) -> None:
        """Make what weights on transformed bins start from, which takes a moment, once.

        Parameters
        ----------
        bins : Bins
            The bins, which keep it.
        """
        if bins.transformed_step is not None and not isinstance(self.sigma, Tensor):
            curve_of(bins, self.sigma if self.in_bins else self.sigma / bins.transformed_step)

    def _sigmas(self, y: Tensor, bins: Bins) -> float | Tensor:
        """Sigma in the target's unit, made to broadcast against weights (*y.shape, k)."""
        sigma = per_bin(self.sigma, y)
        if not self.in_bins:
            return sigma
        if bins.step is not None:
            return sigma * bins.step
        return sigma * bins.widths[bins.locate(y)].unsqueeze(-1)

    def _masses(self, y: Tensor, bins: Bins) -> Tensor:
        if bins.transformed_step is not None:
            unit = 1.0 if self.in_bins else bins.transformed_step
            return weights_with_mean(y, bins, per_bin(self.sigma, y) / unit)
        sigma = self._sigmas(y, bins)
        masses_of = all_masses if self.outside == "tail" else inner_masses
        masses = masses_of(y.unsqueeze(-1), bins.edges, sigma)
        return masses / masses.sum(-1, keepdim=True)

    def _counted_in(self, width: Tensor) -> Target:
        if self.in_bins:
            return self
        return replace(self, sigma=_number(self.sigma, width) / width, in_bins=True)


def _number(value: float | Tensor, like: Tensor) -> float | Tensor:
    return value.to(like) if isinstance(value, Tensor) else value


# `torch.load(..., weights_only=True)` may make these: nothing runs but their checks. `FromCDF` and
# `Payoff` hold a function, which is for its owner to trust.
torch.serialization.add_safe_globals([Gaussian, OneBin, Similarity, TwoHot, UniformMix])
