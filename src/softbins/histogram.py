"""The predicted distribution: a histogram density on the bins (Section 2.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution, constraints, register_kl
from torch.distributions.utils import lazy_property

from softbins._tensor_checks import is_traced, require
from softbins.bins import Bins

STEPS = 100  # at most, of the search for a mean; eight are usual
CLOSE = 1e-11  # how exact that search is, as a share of the range


class Histogram(Distribution):
    """A batch of densities f_i / w_i on the bins, from `logits` or `probs` of shape (..., k).

    A `torch.distributions.Distribution`: one histogram for each leading index, and values that
    broadcast against that batch shape. Values outside the bins have density zero, not an error.
    """

    arg_constraints: ClassVar = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_rsample = True

    def __init__(
        self,
        bins: Bins,
        logits: Tensor | None = None,
        probs: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if (logits is None) == (probs is None):
            raise ValueError("logits, probs: give exactly one of them")
        if probs is not None:
            given = self.probs = _normalised(_checked_rows("probs", probs, bins))
        else:
            assert logits is not None
            rows = _checked_rows("logits", logits, bins)
            given = self.logits = torch.log_softmax(rows, -1)
            # Not left to torch, which stops validating once anything in the process was compiled.
            if validate_args is not False and not is_traced(given) and torch.isnan(given).any():
                require("logits", rows)
        self.bins = bins.to(given.device)
        super().__init__(given.shape[:-1], torch.Size(), validate_args=False)

    @lazy_property
    def logits(self) -> Tensor:
        """The logarithms of `probs`."""
        return self.probs.log()

    @lazy_property
    def probs(self) -> Tensor:
        """The probability f_i of each bin."""
        # Not exp, which takes up to twenty times as long where nothing is left.
        return torch.softmax(self.logits, -1)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> constraints.Constraint:
        """The bins' range [a, b]."""
        return constraints.interval(self.bins.low, self.bins.high)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Histogram:
        """The same histograms, repeated over a larger batch shape."""
        return self._like(self.logits.expand(*batch_shape, self.bins.count))

    def _like(self, logits: Tensor) -> Histogram:
        return Histogram(self.bins, logits=logits, validate_args=False)

    # Summaries

    @property
    def mean(self) -> Tensor:
        """sum_i f_i c_i with the bins' centres c_i: the paper's prediction."""
        # About the middle of the range, because float32 sums of years lose the months.
        middle = (self.bins.low + self.bins.high) / 2
        return (self.probs * self._cast(self.bins.centers - middle)).sum(-1) + middle

    @property
    def variance(self) -> Tensor:
        """Variance between the bins' centres plus that within the bins, w_i^2 / 12."""
        middle = (self.bins.low + self.bins.high) / 2
        deviation = self._cast(self.bins.centers - middle) - (self.mean - middle).unsqueeze(-1)
        return (self.probs * (deviation**2 + self._cast(self.bins.widths) ** 2 / 12)).sum(-1)

    @property
    def mode(self) -> Tensor:
        """The centre of the bin with the highest density."""
        return self._cast(self.bins.centers)[self._log_density.argmax(-1)]

    @property
    def median(self) -> Tensor:
        """The point with half of the probability on either side."""
        return self.quantile(0.5)

    def entropy(self) -> Tensor:
        """Differential entropy -sum_i f_i log(f_i / w_i)."""
        return -_expected(self.probs, self._log_density)

    # Density and cumulative distribution

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density at `value`; minus infinity outside the bins."""
        y, restore = self._spread(value)
        density = self._log_density.gather(-1, self.bins.locate(y))
        inside = (y >= self.bins.low) & (y <= self.bins.high)
        return restore(torch.where(inside, density, -torch.inf))

    def cdf(self, value: Tensor) -> Tensor:
        """Probability of at most `value`: linear within each bin."""
        y, restore = self._spread(value)
        index = self.bins.locate(y)
        share = ((y - self.bins.edges[index]) / self.bins.widths[index]).clamp(0, 1)
        start, end = self._cumulative.gather(-1, index), self._cumulative.gather(-1, index + 1)
        return restore(torch.lerp(start, end, self._cast(share)))

    def icdf(self, value: Tensor) -> Tensor:
        """The smallest y with cdf(y) >= value; `value` broadcasts against the batch shape."""
        levels, restore = self._spread(_probability("value", value))
        return restore(self._inverse(self._cast(levels)))

    def quantile(self, q: float | Sequence[float] | Tensor) -> Tensor:
        """Quantiles of every histogram: shape (*batch, *q.shape)."""
        levels = _probability("q", q).to(self.probs)
        spread = levels.reshape(-1).expand(*self.batch_shape, levels.numel())
        return self._inverse(spread).reshape(self.batch_shape + levels.shape)

    def interval(
        self, coverage: float, kind: Literal["central", "shortest"] = "central"
    ) -> tuple[Tensor, Tensor]:
        """Ends (low, high) of an interval with probability `coverage`.

        "central" leaves the same probability on either side; "shortest" is the narrowest.
        """
        if not 0 < coverage <= 1:
            raise ValueError(f"coverage: must lie in (0, 1], got {coverage}")
        if kind == "central":
            low, high = self.quantile([(1 - coverage) / 2, (1 + coverage) / 2]).unbind(-1)
            return low, high
        if kind == "shortest":
            return self._shortest(coverage)
        raise ValueError(f"kind: expected 'central' or 'shortest', got {kind!r}")

    def _shortest(self, coverage: float) -> tuple[Tensor, Tensor]:
        """The narrowest of the intervals that start or end at an edge, which is narrowest of all.

        Moving both ends at equal probability changes the width at a rate that is constant
        between edges, so that the width is least where one of them meets an edge.
        """
        levels = self._cumulative
        edges = self._cast(self.bins.edges).expand(levels.shape)
        above, below = levels + coverage, levels - coverage
        lows = torch.cat([edges, self._inverse(below.clamp_min(0), upper=True)], -1)
        highs = torch.cat([self._inverse(above.clamp_max(1)), edges], -1)
        possible = torch.cat([above <= 1, below >= 0], -1)
        widths = torch.where(possible, highs - lows, torch.inf)
        best = widths.argmin(-1, keepdim=True)
        return lows.gather(-1, best).squeeze(-1), highs.gather(-1, best).squeeze(-1)

    def crps(self, value: Tensor) -> Tensor:
        """Continuous ranked probability score, the integral of (cdf(t) - 1[t >= value])^2.

        In closed form as E|Y - value| - E|Y - Y'| / 2, where the second term is the integral of
        cdf (1 - cdf). E|Y - value| over a bin is the distance of `value` to its centre c, but in
        the bin that holds `value` it is (value - c)^2 / w + w / 4.
        """
        y, restore = self._spread(value)
        distance = self._cast((y.unsqueeze(-1) - self.bins.centers).abs())
        far = (self.probs.unsqueeze(-2) * distance).sum(-1)
        return restore(far + self._within(y) - self._spread_term())

    def _within(self, y: Tensor) -> Tensor:
        """What E|Y - y| has in addition in the bin that holds y; both (*batch, m)."""
        place = self.bins.locate(y)
        width, away = self.bins.widths[place], (y - self.bins.centers[place]).abs()
        more = (width / 2 - away).clamp_min(0).square() / width
        return self.probs.gather(-1, place) * self._cast(more)

    def _spread_term(self) -> Tensor:
        """The integral of cdf (1 - cdf): over a bin, by the cdf m in its middle, a polynomial."""
        middle = (self._cumulative[..., :-1] + self._cumulative[..., 1:]) / 2
        widths = self._cast(self.bins.widths)
        inner = (middle - middle.square()) @ widths - self.probs.square() @ (widths / 12)
        return inner.unsqueeze(-1)

    # Sampling

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Samples by inversion, differentiable with respect to the probabilities."""
        shape = torch.Size(sample_shape)
        uniform = torch.rand(
            (*self.batch_shape, shape.numel()), dtype=self.probs.dtype, device=self.probs.device
        )
        # In (0, 1]: level 0 would be the first edge, even where the first bin is empty.
        samples = self._inverse(1 - uniform)
        return samples.movedim(-1, 0).reshape(shape + self.batch_shape)

    # Mixtures

    @classmethod
    def pool(cls, members: Sequence[Histogram]) -> Histogram:
        """The mixture of the members with equal weights, such as a deep ensemble's prediction.

        Members with different bins meet on the union of their edges, where the mixture is exact.
        """
        if len(members) == 0:
            raise ValueError("members: need at least one histogram, got none")
        bins, probs = _on_common_bins(members)
        return cls(bins, probs=torch.stack(torch.broadcast_tensors(*probs)).mean(0))

    def with_mean(self, mean: Tensor) -> Histogram:
        """The distribution closest to this one, by KL(it || this), that has another mean.

        It is f_i exp(t c_i), normalised: for a Gaussian, a shift. The mean must lie between the
        first and the last centre, and is moved there otherwise. It increases with t, which a
        Newton iteration finds for each row, kept within a shrinking bracket.
        """
        centers = self.bins.centers
        start, length = centers[0], centers[-1] - centers[0]
        places = (centers - start) / length
        # Not quite at the end, where t would be infinite; outer bins may be narrow.
        low, high = 1e-9 * places[1], 1 - 1e-9 * (1 - places[-2])
        wanted = ((mean.double() - start) / length).clamp(low, high).expand(self.batch_shape)
        logits = self.logits.detach().double().clamp_min(-1e5)
        tilts = _tilts(logits.reshape(-1, self.bins.count), places, wanted.reshape(-1))
        tilted = logits + tilts.view(*self.batch_shape, 1) * places
        # Normalised before float32 rounds: large tilts would cost the small differences.
        return self._like(torch.log_softmax(tilted, -1).to(self.probs.dtype))

    # Parts

    @lazy_property
    def _log_density(self) -> Tensor:
        return self.logits - self._cast(self.bins.widths.log())

    @lazy_property
    def _cumulative(self) -> Tensor:
        """The cdf at every edge, from exactly 0 to exactly 1."""
        sums = self.probs.cumsum(-1)
        sums = sums / sums[..., -1:]
        return torch.cat([torch.zeros_like(sums[..., :1]), sums], -1)

    def _inverse(self, levels: Tensor, upper: bool = False) -> Tensor:
        """The smallest (or largest, if `upper`) y with cdf(y) = level; levels (*batch, m)."""
        ladder = self._cumulative.detach()
        if upper:
            index = torch.searchsorted(ladder, levels.contiguous(), right=True) - 1
        else:
            index = torch.searchsorted(ladder[..., 1:].contiguous(), levels.contiguous())
        index = index.clamp(0, self.bins.count - 1)
        start, end = self._cumulative.gather(-1, index), self._cumulative.gather(-1, index + 1)
        tiny = torch.finfo(levels.dtype).tiny
        share = ((levels - start) / (end - start).clamp_min(tiny)).clamp(0, 1)
        return self._cast(self.bins.edges)[index] + self._cast(self.bins.widths)[index] * share

    def _spread(self, value: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Values of shape (*sample, *batch) as float64 (*batch, m), and the way back."""
        value = _tensor(value).to(self.probs.device)
        if torch.isnan(value).any():
            require("value", value)
        # Not torch's own function of that name, which takes a second to load what it needs.
        shape = torch.Size(np.broadcast_shapes(value.shape, self.batch_shape))
        sample = shape[: len(shape) - len(self.batch_shape)]
        if shape[len(sample) :] != self.batch_shape:
            raise ValueError(
                f"value: shape {tuple(value.shape)} does not fit batch shape "
                f"{tuple(self.batch_shape)}; use expand() to repeat the histogram"
            )
        flat = value.double().expand(shape).reshape(sample.numel(), *self.batch_shape)

        def restore(result: Tensor) -> Tensor:
            return result.movedim(-1, 0).reshape(shape)

        return flat.movedim(0, -1), restore

    def _cast(self, values: Tensor) -> Tensor:
        return values.to(self.probs.dtype)

    def _probs_on(self, bins: Bins) -> Tensor:
        """The probability of each of other, finer bins that contain all of this one's edges."""
        inner = self.bins.locate(bins.centers)
        outside = (bins.centers < self.bins.low) | (bins.centers > self.bins.high)
        share = torch.where(outside, 0.0, bins.widths / self.bins.widths[inner])
        return self.probs[..., inner] * self._cast(share)

    def __repr__(self) -> str:
        return f"Histogram({self.bins}, batch_shape={tuple(self.batch_shape)})"


def _tilts(logits: Tensor, places: Tensor, wanted: Tensor) -> Tensor:
    """For each row the t for which logits + t places have the wanted mean of places."""
    # Beyond this the bin at one end has everything.
    high = (logits.amax(-1) - logits.amin(-1) + 50) / places.diff().min()
    low, tilts = -high, torch.zeros_like(high)
    searched = torch.arange(len(logits), device=logits.device)
    for _ in range(STEPS):
        tilt = tilts[searched]
        probs = torch.softmax(logits[searched] + tilt.unsqueeze(-1) * places, -1)
        reached = probs @ places
        miss = wanted[searched] - reached
        variance = (probs * (places - reached.unsqueeze(-1)).square()).sum(-1)
        low[searched] = torch.where(miss > 0, tilt, low[searched])
        high[searched] = torch.where(miss < 0, tilt, high[searched])
        newton = tilt + miss / variance.clamp_min(1e-300)
        inside = (newton > low[searched]) & (newton < high[searched])
        better = torch.where(inside, newton, (low[searched] + high[searched]) / 2)
        far = miss.abs() > CLOSE
        tilts[searched] = torch.where(far, better, tilt)
        searched = searched[far]
        if not len(searched):
            break
    return tilts


def _checked_rows(name: str, rows: Tensor, bins: Bins) -> Tensor:
    if rows.ndim == 0 or rows.shape[-1] != bins.count:
        raise ValueError(
            f"{name}: last dimension must be the number of bins, {bins.count}, "
            f"got shape {tuple(rows.shape)}"
        )
    return rows.to(torch.promote_types(rows.dtype, torch.float32))


def _normalised(probs: Tensor) -> Tensor:
    total = require("probs", probs, low=0.0).sum(-1, keepdim=True)
    if not (total > 0).all():
        raise ValueError("probs: every histogram needs some probability, but one sums to 0")
    return probs / total


def _probability(name: str, levels: float | Sequence[float] | Tensor) -> Tensor:
    return require(name, _tensor(levels), 0.0, 1.0, "probabilities lie in [0, 1]")


def _tensor(values: float | Sequence[float] | Tensor) -> Tensor:
    """Numbers as a tensor that keeps all their digits."""
    return values if isinstance(values, Tensor) else torch.tensor(values, dtype=torch.float64)


def _expected(probs: Tensor, values: Tensor) -> Tensor:
    """sum_i f_i v_i, where bins of probability 0 count for nothing even if v_i is infinite."""
    return (probs * values.masked_fill(probs == 0, 0.0)).sum(-1)


def _on_common_bins(members: Sequence[Histogram]) -> tuple[Bins, list[Tensor]]:
    bins = members[0].bins
    if all(member.bins == bins for member in members):
        return bins, [member.probs for member in members]
    union = Bins(torch.unique(torch.cat([member.bins.edges for member in members])))
    return union, [member._probs_on(union) for member in members]


@register_kl(Histogram, Histogram)  # type: ignore[untyped-decorator]
def _kl_histogram_histogram(p: Histogram, q: Histogram) -> Tensor:
    """KL(p || q) = sum_i p_i log(p_i / q_i) on common bins; infinite where q lacks support."""
    if p.bins == q.bins:
        return _expected(*torch.broadcast_tensors(p.probs, p.logits - q.logits))
    _, (ours, theirs) = _on_common_bins([p, q])
    return _expected(*torch.broadcast_tensors(ours, ours.log() - theirs.log()))
