"""Families of nested intervals of a histogram, from its center to all of its bins and beyond.

`calibration.Conformal` finds a target's place in such a family (its depth), and takes from the
family the interval of a depth.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from softbins._core.sorted_search import insertion_index
from softbins.histogram import Histogram

Kind = Literal["shortest", "central"]

# A target lies at the very end of the interval that its own depth asks for; where targets are
# tied, as whole numbers are, rounding must not leave it just outside.
SLACK = 1e-9
EPSILON = torch.finfo(torch.float64).eps


class Arm(NamedTuple):
    """One end of the growing intervals of n histograms: knots (n, m), and straight between them.

    From the center outwards `rest`, the probability that is left outside the interval, falls
    from 1 to 0. `place` is where the interval ends; it does not fall, because low ends are stored
    with their sign turned.
    """

    rest: Tensor
    place: Tensor

    def rest_at(self, place: Tensor) -> Tensor:
        """The probability left outside when the end first comes to a place; both (n,)."""
        place = place.unsqueeze(-1)
        index = insertion_index(self.place, place)
        start, end = _around(self.place, index)
        share = _share(place - start, end - start, otherwise=0.0)
        return torch.lerp(*_around(self.rest, index), share).squeeze(-1)

    def place_at(self, rest: Tensor) -> Tensor:
        """Where the end is when this probability is left outside, rounded outwards; both (n,)."""
        rest = (rest.clamp_min(0) * (1 - SLACK)).unsqueeze(-1)
        index = insertion_index(-self.rest, -rest, right=True)
        before, after = _around(self.rest, index)
        start, end = _around(self.place, index)
        reached = torch.lerp(start, end, _share(before - rest, before - after, otherwise=1.0))
        rounding = 4 * EPSILON * torch.maximum(start.abs(), end.abs())
        return torch.minimum(reached + rounding, end).squeeze(-1)


class NestedIntervals(NamedTuple):
    """The growing intervals of n histograms: where their low and their high ends move."""

    distribution: Histogram
    low: Arm
    high: Arm

    @classmethod
    def of(cls, distribution: Histogram, kind: Kind) -> NestedIntervals:
        """The family of a kind, in float64 because depths reach far into the tails."""
        logits = distribution.logits.detach().double().reshape(-1, distribution.bins.count)
        exact = Histogram(distribution.bins, logits=logits, validate_args=False)
        arms = _central(exact) if kind == "central" else _shortest(exact)
        return cls(distribution, *arms)

    def depth(self, y: Tensor) -> Tensor:
        """The depth of each target, or outside the bins minus its distance; rounded outwards."""
        inside = torch.minimum(self.low.rest_at(-y), self.high.rest_at(y))
        bins = self.distribution.bins
        distance = (y - y.clamp(bins.low, bins.high)).abs()
        rounding = 4 * EPSILON * (distance + y.abs())
        return torch.where(distance > 0, -distance - rounding, inside)

    def interval(self, depth: Tensor) -> tuple[Tensor, Tensor]:
        """The interval that ends at each depth, in the shape of the batch."""
        flat = depth.reshape(-1)
        beyond = (-flat).clamp_min(0)
        low, high = -self.low.place_at(flat) - beyond, self.high.place_at(flat) + beyond
        return low.reshape(depth.shape), high.reshape(depth.shape)


def _central(exact: Histogram) -> tuple[Arm, Arm]:
    """Central intervals, from the median on: what is left outside is twice either tail."""
    middle, edges = exact.median.unsqueeze(-1), exact.bins.edges
    below = 2 * _tails(exact.probs.flip(-1)).flip(-1)
    above = 2 * _tails(exact.probs)
    low = Arm(below.clamp_max(1).flip(-1), -torch.minimum(edges, middle).flip(-1))
    return low, Arm(above.clamp_max(1), torch.maximum(edges, middle))


def _shortest(exact: Histogram) -> tuple[Arm, Arm]:
    """Shortest intervals, which grow from the middle of the densest bin, bin by bin."""
    order, edges = _outwards(_density(exact)), exact.bins.edges
    rest = _tails(exact.probs.gather(-1, order))
    middle = exact.bins.centers[order[:, :1]]
    lows = torch.cat([middle, edges[order.cummin(-1).values]], -1)
    highs = torch.cat([middle, edges[order.cummax(-1).values + 1]], -1)
    return Arm(rest, -lows), Arm(rest, highs)


def _density(exact: Histogram) -> Tensor:
    """The density of each bin; an atom has that of its probability in place of the densest bin."""
    bins, probs = exact.bins, exact.probs
    if bins.atoms is None:
        return probs / bins.widths
    wide = torch.where(bins.atoms, 0.0, probs / torch.where(bins.atoms, 1.0, bins.widths))
    width = bins.widths[wide.argmax(-1, keepdim=True)]
    # An atom as probable comes first, as it does for the mode.
    return torch.where(bins.atoms, probs / width * (1 + 4 * EPSILON), wide)


def _outwards(density: Tensor) -> Tensor:
    """The order in which bins join the hull of what lies above a falling threshold.

    A bin joins as soon as something as dense as the threshold lies on, or beyond, it on both
    sides. Of bins that join together those nearer to the peak come first.
    """
    from_left = density.cummax(-1).values
    from_right = density.flip(-1).cummax(-1).values.flip(-1)
    joins = torch.minimum(from_left, from_right)
    peak = density.argmax(-1, keepdim=True)
    way = (torch.arange(density.shape[-1], device=density.device) - peak).abs()
    nearest = way.argsort(dim=-1, stable=True)
    return nearest.gather(
        -1, joins.gather(-1, nearest).argsort(dim=-1, descending=True, stable=True)
    )


def _tails(probs: Tensor) -> Tensor:
    """The share of each bin and all after it, from exactly 1 to exactly 0; (n, k + 1)."""
    # The sum starts at the far end, so that small shares keep all their digits.
    sums = probs.flip(-1).cumsum(-1).flip(-1)
    return torch.cat([sums / sums[:, :1], torch.zeros_like(sums[:, :1])], -1)


def _around(knots: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """The knots before and at an index; the first and last also stand for what lies beyond."""
    last = knots.shape[-1] - 1
    return knots.gather(-1, (index - 1).clamp(0, last)), knots.gather(-1, index.clamp(0, last))


def _share(part: Tensor, whole: Tensor, otherwise: float) -> Tensor:
    return torch.where(whole > 0, (part / whole).clamp(0, 1), otherwise)
