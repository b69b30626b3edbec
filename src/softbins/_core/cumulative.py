"""Cumulative probabilities of histograms from both ends, and histograms moved to another mean.

Near an end only the sum that starts there knows small probabilities: 1 minus the other one has
lost them. Everything here keeps both.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from softbins._core.atoms import AtomParts, atom_parts
from softbins._core.sorted_search import insertion_index
from softbins.bins import Bins

# The search for a mean ends where each is this exact, as a share of the mean distance from it.
MEAN_TOLERANCE = 1e-9
MAX_SEARCH_STEPS = 120
STEPS_WITH_STRETCHED_TAILS = 30
STEPS_BEFORE_HALVING = 5
EXPORTED_SEARCH_STEPS = 20
EXPORTED_TOLERANCE = 1e3  # times as far from a mean may be what so few steps have found
LEAST_SLOPE = 1e-3
ROOM = 1.25  # for tails, as a multiple of a shift towards them
TAIL = 0.05  # of a histogram's probability on either side, which may be stretched
TINY = torch.finfo(torch.float64).tiny


class Cumulative(NamedTuple):
    """The probability below and above each edge, both (..., k + 1)."""

    below: Tensor
    above: Tensor

    @classmethod
    def of(cls, probs: Tensor) -> Cumulative:
        """The sums of probabilities (..., k) from either end."""
        zero = torch.zeros_like(probs[..., :1])
        below = torch.cat([zero, probs.cumsum(-1)], -1)
        above = torch.cat([probs.flip(-1).cumsum(-1).flip(-1), zero], -1)
        return cls(below, above)

    def masses(self) -> Tensor:
        """The probability between neighboring edges, from the sums that begin nearer to it."""
        left, right = self.below.diff(dim=-1), -self.above.diff(dim=-1)
        return torch.where(self.below[..., 1:] <= self.above[..., :-1], left, right).clamp_min(0)

    def at(self, edges: Tensor, widths: Tensor, points: Tensor) -> Cumulative:
        """The same at other points (..., m), linear between the edges (k + 1,)."""
        index = insertion_index(edges[1:-1], points, right=True)
        share = ((points - edges[index]) / widths[index]).clamp(0, 1)
        mass = self.masses().gather(-1, index)
        below = self.below.gather(-1, index) + share * mass
        return Cumulative(below, self.above.gather(-1, index + 1) + (1 - share) * mass)


def moved_to_mean(probs: Tensor, bins: Bins, mean: Tensor) -> Tensor:
    """Probabilities (n, k) in float64, moved along the bins until they have the means (n,).

    All that is not in atoms is shifted by one distance, but for its tails: towards the first and
    the last edge, which stay, it is stretched or compressed, so that nothing becomes impossible.
    What atoms have is changed only as far as this leaves the mean short.
    """
    wanted = mean.clamp(*_reachable(bins))
    if bins.atoms is None:
        return _shifted_to(probs, bins.edges, wanted)
    parts = atom_parts(bins)
    wide, atoms = parts.split(probs)
    share = wide.sum(-1, keepdim=True)
    # Where all is in atoms, the rest is anywhere.
    shape = torch.where(share > 0, wide / share.clamp_min(TINY), 1 / wide.shape[-1])
    moved = _moved_beside_atoms(shape, parts, wanted - probs @ bins.centers, wanted)
    places = torch.cat([parts.places.expand(probs.shape[0], -1), _mean(moved, parts.edges)], -1)
    weights = _reweighted(torch.cat([atoms, share], -1), places, wanted)
    return parts.joined(weights[:, -1:] * moved, weights[:, :-1])


def _moved_beside_atoms(shape: Tensor, parts: AtomParts, by: Tensor, wanted: Tensor) -> Tensor:
    """What is not in atoms, shifted by a distance (n,).

    It goes on to the wanted mean where that is left beyond all of it and of the atoms, so that no
    weights of them would have that mean.
    """
    edges, places = parts.edges, parts.places
    cumulative = Cumulative.of(shape)
    moved = _shifted(cumulative, edges, by, _kept_shape(cumulative, edges, by))
    mean = _mean(moved, edges).squeeze(-1)
    lowest, highest = mean.clamp_max(places[0]), mean.clamp_min(places[-1])
    beyond = (wanted < lowest) | (wanted > highest)
    if not torch.compiler.is_exporting() and not beyond.any():
        return moved
    return torch.where(beyond.unsqueeze(-1), _shifted_to(shape, edges, wanted), moved)


def _reachable(bins: Bins) -> tuple[Tensor, Tensor]:
    """The lowest and the highest mean that a distribution on the bins can have."""
    return bins.centers[0], bins.centers[-1]


def _mean(probs: Tensor, edges: Tensor) -> Tensor:
    """The means (n, 1) of probabilities on bins between edges, about their middle."""
    middle = edges[0] / 2 + edges[-1] / 2
    centers = edges[:-1] + edges.diff() / 2 - middle
    return (probs @ centers + middle).unsqueeze(-1)


class Span(NamedTuple):
    """From where to where (n,) each histogram is shifted as it is; tails beyond are stretched."""

    start: Tensor
    end: Tensor

    def of(self, rows: Tensor) -> Span:
        """The same for some of the histograms."""
        return Span(self.start[rows], self.end[rows])


def _kept_shape(cumulative: Cumulative, edges: Tensor, by: Tensor) -> Span:
    """The middle nine tenths, if that leaves room beside it for the shift by a distance (n,)."""
    last = len(edges) - 1
    first = edges[((cumulative.below <= TAIL).sum(-1) - 1).clamp(0, last)]
    final = edges[(cumulative.above > TAIL).sum(-1).clamp(0, last)]
    middle, room = _mean(cumulative.masses(), edges).squeeze(-1), ROOM * by.abs()
    start = torch.minimum(torch.maximum(first, edges[0] + room), middle)
    return Span(start, torch.maximum(torch.minimum(final, edges[-1] - room), middle))


def _origins(edges: Tensor, by: Tensor, span: Span) -> Tensor:
    """Where what comes to lie at the inner edges was before, (n, k - 1)."""
    low, high, inner = edges[0], edges[-1], edges[1:-1]
    start, end, by = (part.unsqueeze(-1) for part in (*span, by))
    left = low + (inner - low) * ((start - low) / (start + by - low).clamp_min(TINY))
    right = high - (high - inner) * ((high - end) / (high - end - by).clamp_min(TINY))
    return torch.where(
        inner < start + by, left, torch.where(inner > end + by, right, inner - by)
    ).clamp(low, high)


def _shifted(cumulative: Cumulative, edges: Tensor, by: Tensor, span: Span) -> Tensor:
    """The probabilities after a span was moved by a distance (n,), and the ends stayed."""
    found = cumulative.at(edges, edges.diff(), _origins(edges, by, span))
    ends = (part[..., :1] for part in (cumulative.below, cumulative.above))
    zero, one = ends
    below = torch.cat([zero, found.below, one], -1)
    return Cumulative(below, torch.cat([one, found.above, zero], -1)).masses()


def _shifted_to(probs: Tensor, edges: Tensor, wanted: Tensor) -> Tensor:
    """The probabilities, shifted by what gives them the wanted means (n,).

    Where a mean is so near to an end that stretched tails leave it out of reach, tails are shifted
    with the rest, and stop at the end.
    """
    centers = edges[:-1] + edges.diff() / 2
    cumulative, by = Cumulative.of(probs), _gap(probs, centers, wanted)
    span = _kept_shape(cumulative, edges, by)
    allowed = MEAN_TOLERANCE * (probs * (centers - wanted.unsqueeze(-1)).abs()).sum(-1)
    if torch.compiler.is_exporting():
        result = _exported_search(cumulative, edges, wanted, by, span)
        is_far = _gap(result, centers, wanted).abs() > EXPORTED_TOLERANCE * allowed
        ends = Span(edges[:1].expand_as(by), edges[-1:].expand_as(by))
        other = _exported_search(cumulative, edges, wanted, by, ends)
        return torch.where(is_far.unsqueeze(-1), other, result)
    steps = STEPS_WITH_STRETCHED_TAILS
    result, far = _search(cumulative, edges, wanted, by, span, allowed, steps)
    if len(far):
        everything = Span(edges[:1].expand(len(far)), edges[-1:].expand(len(far)))
        part = Cumulative(cumulative.below[far], cumulative.above[far])
        known = (wanted[far], by[far], everything, allowed[far])
        result[far] = _search(part, edges, *known)[0]
    return result


def _bracket(edges: Tensor, span: Span) -> tuple[Tensor, Tensor]:
    """The shifts between which tails can be stretched, or any where they move with the rest."""
    reach = edges[-1] - edges[0]
    low, high = edges[0] - span.start, edges[-1] - span.end
    return torch.where(low < 0, low, -reach), torch.where(high > 0, high, reach)


def _exported_search(
    cumulative: Cumulative, edges: Tensor, wanted: Tensor, by: Tensor, span: Span
) -> Tensor:
    """The search with a fixed number of steps, and few operations in each.

    The mean is the last center, less what lies below each edge times the way to the next center.
    """
    inner, widths, masses = edges[1:-1], edges.diff(), cumulative.masses()
    centers = edges[:-1] + widths / 2
    low, high = _bracket(edges, span)
    by = torch.minimum(torch.maximum(by, low), high)
    state: tuple[Tensor, ...] = (by, torch.zeros_like(by), by, low, high)
    for _ in range(EXPORTED_SEARCH_STEPS):
        points = _origins(edges, state[0], span)
        index = insertion_index(inner, points, right=True)
        share = ((points - edges[index]) / widths[index]).clamp(0, 1)
        below = cumulative.below.gather(-1, index) + share * masses.gather(-1, index)
        gap = (wanted - centers[-1]) + below @ centers.diff()
        state = _better_shift(gap, *state)
    return _shifted(cumulative, edges, state[0], span)


def _search(
    cumulative: Cumulative,
    edges: Tensor,
    wanted: Tensor,
    by: Tensor,
    span: Span,
    allowed: Tensor,
    steps: int = MAX_SEARCH_STEPS,
) -> tuple[Tensor, Tensor]:
    """Probabilities with means that are as near as allowed, and the rows of which they are not.

    The mean rises with the shift, at a rate of about 1. The rate of the last two shifts says where
    to go on, within a bracket. Where that leads nowhere, it is halved.
    """
    centers = edges[:-1] + edges.diff() / 2
    low, high = _bracket(edges, span)
    by = torch.minimum(torch.maximum(by, low), high)
    before, gap_before = torch.zeros_like(by), by
    result = _shifted(cumulative, edges, by, span)
    rows = torch.arange(len(by), device=by.device)
    for step in range(steps):
        gap = _gap(result[rows], centers, wanted[rows])
        far = gap.abs() > allowed[rows]
        rows, gap = rows[far], gap[far]
        if not len(rows):
            break
        known = (part[far] for part in (by, before, gap_before, low, high))
        by, before, gap_before, low, high = _better_shift(gap, *known)
        if step > STEPS_BEFORE_HALVING and step % 2:
            by = (low + high) / 2
        part = Cumulative(cumulative.below[rows], cumulative.above[rows])
        result[rows] = _shifted(part, edges, by, span.of(rows))
    return result, rows


def _gap(probs: Tensor, centers: Tensor, wanted: Tensor) -> Tensor:
    """How far means are below the wanted ones (n,), with all digits of a small mean."""
    return (probs * (wanted.unsqueeze(-1) - centers)).sum(-1)


def _better_shift(
    gap: Tensor, by: Tensor, before: Tensor, gap_before: Tensor, low: Tensor, high: Tensor
) -> tuple[Tensor, ...]:
    """The next shift, the last one with the gap that it left, and a narrower bracket."""
    low, high = torch.where(gap > 0, by, low), torch.where(gap < 0, by, high)
    distance, change = by - before, gap_before - gap
    known = (distance != 0) & (change != 0)
    slope = torch.where(known, change / torch.where(known, distance, 1.0), 1.0)
    better = by + gap / slope.clamp_min(LEAST_SLOPE)
    inside = (better > low) & (better < high)
    return torch.where(inside, better, (low + high) / 2), by, gap, low, high


def _reweighted(weights: Tensor, places: Tensor, wanted: Tensor) -> Tensor:
    """Weights w_j exp(t x_j), normalized, of places x (n, m), with the mean asked for."""
    low, high = places.amin(-1), places.amax(-1)
    reach = (high - low).clamp_min(TINY)
    x = (places - low.unsqueeze(-1)) / reach.unsqueeze(-1)
    aim = ((wanted - low) / reach).clamp(1e-9, 1 - 1e-9)
    logits = weights.clamp_min(1e-12).log()
    bound = torch.full_like(aim, 1e12)
    left, right, tilt = -bound, bound, torch.zeros_like(aim)
    for _ in range(MAX_SEARCH_STEPS if not torch.compiler.is_exporting() else 20):
        probs = torch.softmax(logits + tilt.unsqueeze(-1) * x, -1)
        found = (probs * x).sum(-1)
        gap = aim - found
        left, right = torch.where(gap > 0, tilt, left), torch.where(gap < 0, tilt, right)
        variance = (probs * (x - found.unsqueeze(-1)).square()).sum(-1).clamp_min(1e-300)
        # Steps may double: places next to each other, beside one far away, need a large tilt.
        most = tilt.abs() + 10
        newton = tilt + (gap / variance).clamp(-most, most)
        inside = (newton > left) & (newton < right)
        tilt = torch.where(inside, newton, (left + right) / 2)
    return torch.softmax(logits + tilt.unsqueeze(-1) * x, -1)
