"""Histograms moved along their bins until they have another mean.

The odds of lying below a point are divided by one number, the same for all points of a row. That
keeps tails as heavy as they are, and changes the weights of peaks. But where the two means lie far
apart, only a shift keeps the shape: so quantiles may move about as far as the mean, and no farther.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from softbins._core.atoms import atom_parts
from softbins._core.cumulative import Cumulative
from softbins._core.histogram_numerics import inverse_cdf
from softbins.bins import Bins

FREEDOM = 0.5  # of the interquartile range, by which a quantile may move farther or less far
FREE_SHARE = 1e-4  # of the probability, which may move any distance: nothing becomes impossible
# The search for a mean ends where each is this exact, as a share of the mean distance from it.
MEAN_TOLERANCE = 1e-9
MAX_STEPS = 120
STEPS_BEFORE_HALVING = 12
EXPORTED_STEPS = 54
MAX_FIRST_STEP = 4.0  # in log odds; each step may be larger by as much as there was before it
FARTHEST = 709.0  # in log odds, beyond which exp overflows
LEAST_PROBABILITY = 1e-290
ROUNDING = 1e-15
TINY = torch.finfo(torch.float64).tiny


def moved_to_mean(probs: Tensor, bins: Bins, mean: Tensor) -> Tensor:
    """Probabilities (n, k) in float64, moved along the bins until they have the means (n,).

    Atoms stay where they are, and have what the new odds leave them.
    """
    wanted = mean.clamp(bins.centers[0], bins.centers[-1])
    if bins.atoms is None:
        return _moved(probs, bins.edges, wanted)
    parts = atom_parts(bins)
    inner = _inner(Cumulative.of(probs))
    by = _Search.of(inner, bins.centers, wanted).run()
    wide, atoms = parts.split(_masses(_divided(inner, by)))
    aim = (_normalized(wide) * _centers(parts.edges)).sum(-1)
    moved = _moved(_normalized(parts.split(probs)[0]), parts.edges, aim)
    return parts.joined(wide.sum(-1, keepdim=True) * moved, atoms)


def _moved(probs: Tensor, edges: Tensor, wanted: Tensor) -> Tensor:
    """The probabilities on bins with width, of which quantiles move about as far as the mean.

    Where an end of the bins is in the way, so that the mean would fall short, they move farther.
    """
    cumulative = Cumulative.of(probs)
    inner = _inner(cumulative)
    search = _Search.of(inner, _centers(edges), wanted)
    limits = _Limits.of(cumulative, edges, search.gap(inner.below))
    limits = limits.without(search.within(limits).start != 0)
    return _masses(limits.applied(_divided(inner, search.within(limits).run())))


def _inner(cumulative: Cumulative) -> Cumulative:
    """The probabilities below and above the edges between the ends, (n, k - 1), none of them 0."""
    return Cumulative(*(part[:, 1:-1].clamp_min(LEAST_PROBABILITY) for part in cumulative))


def _divided(inner: Cumulative, by: Tensor) -> Cumulative:
    """Odds divided by exp(by), for each row."""
    above = inner.above * by.exp().unsqueeze(-1)
    total = inner.below + above
    return Cumulative(inner.below / total, above / total)


def _masses(inner: Cumulative) -> Tensor:
    zero, one = torch.zeros_like(inner.below[:, :1]), torch.ones_like(inner.below[:, :1])
    below = torch.cat([zero, inner.below, one], -1)
    return Cumulative(below, torch.cat([one, inner.above, zero], -1)).masses()


def _centers(edges: Tensor) -> Tensor:
    return edges[:-1] + edges.diff() / 2


def _normalized(probs: Tensor) -> Tensor:
    """Probabilities (n, k) that sum to 1; where there are none, all bins have the same."""
    total = probs.sum(-1, keepdim=True)
    return torch.where(total > TINY, probs / total.clamp_min(TINY), 1 / probs.shape[-1])


class _Limits(NamedTuple):
    """How far moves may lead at the inner edges: what is moved far to the right, and less far."""

    far: Cumulative
    near: Cumulative

    @classmethod
    def of(cls, cumulative: Cumulative, edges: Tensor, gap: Tensor) -> _Limits:
        """For moves of the mean by a distance (n,): histograms shifted farther, and less far.

        The farther the mean has to go, the less the two differ: a histogram that is wrong about
        the place may be right about the shape.
        """
        levels = torch.tensor([0.25, 0.75]).to(gap).expand(gap.shape[0], 2)
        first, third = inverse_cdf(cumulative.below, edges, edges.diff(), levels).unbind(-1)
        spread = (third - first).clamp_min(TINY)
        freedom = FREEDOM * spread / (1 + (gap / spread).square())
        far, near = (
            cumulative.at(edges, (edges[1:-1] - by.unsqueeze(-1)).clamp(edges[0], edges[-1]))
            for by in (gap + freedom, gap - freedom)
        )
        kept, free = 1 - FREE_SHARE, FREE_SHARE
        far = Cumulative(kept * far.below, free + kept * far.above)
        return cls(far, Cumulative(free + kept * near.below, kept * near.above))

    def without(self, rows: Tensor) -> _Limits:
        """No limits for some rows."""
        which = rows.unsqueeze(-1)
        far, near = (
            Cumulative(part.below.masked_fill(which, low), part.above.masked_fill(which, 1 - low))
            for part, low in zip(self, (0.0, 1.0), strict=True)
        )
        return _Limits(far, near)

    def applied(self, inner: Cumulative) -> Cumulative:
        """What a move leads to, within the limits."""
        below = inner.below.clamp(self.far.below, self.near.below)
        return Cumulative(below, inner.above.clamp(self.near.above, self.far.above))


class _Search(NamedTuple):
    """The search for the number that odds at the inner edges are divided by, as its logarithm."""

    steps: Tensor
    """From center to center: a mean is the last center, less what lies below each edge times it."""
    odds: Tensor
    """Of lying above each inner edge, (n, k - 1)."""
    least: Tensor
    """Limits of what lies below them, least and most."""
    most: Tensor
    wanted: Tensor
    """What is to lie below the edges, summed over the steps (n,)."""
    start: Tensor
    allowed: Tensor

    @classmethod
    def of(cls, inner: Cumulative, centers: Tensor, wanted: Tensor) -> _Search:
        """For the means of histograms, with odds that may become anything."""
        steps, total = centers.diff(), centers[-1] - wanted
        zero = torch.zeros_like(inner.below[:, :1])
        away = torch.minimum(inner.below, inner.above) @ steps
        # Sums over a range that is much larger have no more digits.
        allowed = torch.maximum(MEAN_TOLERANCE * away, ROUNDING * (centers[-1] - centers[0]))
        odds = inner.above / inner.below
        return cls(steps, odds, zero, zero + 1, total, torch.zeros_like(total), allowed)

    def within(self, limits: _Limits) -> _Search:
        """With limits. Where the wanted mean is beyond them, they are all that is to be found."""
        least, most = limits.far.below, limits.near.below
        short, over = self.gap(least) > 0, self.gap(most) < 0
        start = FARTHEST * (short.to(least) - over.to(least))
        allowed = self.allowed.masked_fill(short | over, torch.inf)
        return self._replace(least=least, most=most, start=start, allowed=allowed)

    def gap(self, below: Tensor) -> Tensor:
        """How far means (n,) are below the wanted ones."""
        return below @ self.steps - self.wanted

    def run(self) -> Tensor:
        """The logarithms (n,)."""
        if torch.compiler.is_exporting():
            return self._exported()
        search, by, result = self, self.start, self.start.clone()
        rows = torch.arange(len(by), device=by.device)
        low, high = torch.full_like(by, -FARTHEST), torch.full_like(by, FARTHEST)
        for step in range(MAX_STEPS):
            gap, slope = search._gap_and_slope(by)
            result[rows] = by
            far = gap.abs() > search.allowed
            if not far.any():
                break
            halve = step > STEPS_BEFORE_HALVING and step % 2 == 1
            better, low, high = _better(by, gap, slope, low, high, halve)
            by = torch.where(far, better, by)
            if 2 * int(far.sum()) <= len(rows):  # with fewer gone, going on with all is quicker
                search = _Search(search.steps, *(part[far] for part in search[1:]))
                rows, by, low, high = (part[far] for part in (rows, by, low, high))
        return result

    def _exported(self) -> Tensor:
        """As many steps for all rows."""
        by, low, high = self.start, self.start * 0 - FARTHEST, self.start * 0 + FARTHEST
        for step in range(EXPORTED_STEPS):
            by, low, high = _better(by, *self._gap_and_slope(by), low, high, _halves(step))
        return by

    def _gap_and_slope(self, by: Tensor) -> tuple[Tensor, Tensor]:
        """How far means are below the wanted ones after a move, and how fast they rise with it."""
        free = (self.odds * by.exp().unsqueeze(-1)).add_(1).reciprocal_()
        below = free.clamp(self.least, self.most)
        slope = torch.where(below == free, below * (1 - below), 0.0) @ self.steps
        return self.gap(below), slope


def _halves(step: int) -> bool:
    """Whether to halve the bracket, as every other step does once there were enough others."""
    return step > STEPS_BEFORE_HALVING and step % 2 == 1


def _better(
    by: Tensor, gap: Tensor, slope: Tensor, low: Tensor, high: Tensor, halve: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Newton's step within a narrower bracket, or its middle where that leads out of it."""
    low, high = torch.where(gap > 0, by, low), torch.where(gap < 0, by, high)
    most = MAX_FIRST_STEP + by.abs()
    newton = by + (gap / slope.clamp_min(TINY)).clamp(-most, most)
    inside = (newton > low) & (newton < high)
    if halve:
        inside = torch.zeros_like(inside)
    return torch.where(inside, newton, (low + high) / 2), low, high
