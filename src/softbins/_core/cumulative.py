"""Cumulative probabilities of histograms from both ends, and histograms moved to another mean.

Near an end only the sum that starts there knows small probabilities: 1 minus the other one has
lost them. Everything here keeps both.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from softbins._core.sorted_search import insertion_index
from softbins.bins import Bins

# The search for a mean ends where each is this exact, as a share of the range of the bins.
MEAN_TOLERANCE = 1e-10
MAX_SEARCH_STEPS = 60
EXPORTED_SEARCH_STEPS = 6
LEAST_SLOPE = 1e-3
TINY = torch.finfo(torch.float64).tiny
MAX_FAR = 1e-3  # probability that may be carried far where atoms are multiplied


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

    They are shifted by one distance, and stop at the first or last edge. Atoms cannot move. Where
    there are some, all but them is shifted and their weight made to fit; half of the result is
    what multiplying all probabilities by exp(t y) gives, unless that carries some of them far.
    """
    wanted = mean.clamp(*_reachable(bins))
    if bins.atoms is None:
        return _shifted_to(probs, bins.edges, wanted)
    tilted = _reweighted(probs, bins.centers.expand(probs.shape), wanted)
    shifted = _shifted_around_atoms(probs, bins, wanted)
    both = (tilted + shifted) / 2
    far = _carries_far(probs, both, bins, (wanted - probs @ bins.centers).abs())
    return torch.where(far.unsqueeze(-1), shifted, both)


def _carries_far(probs: Tensor, moved: Tensor, bins: Bins, distance: Tensor) -> Tensor:
    """Whether more than a thousandth went farther than the distance and a quartile range."""
    before, after = Cumulative.of(probs).below, Cumulative.of(moved).below
    low, high = (_first_edge(before, bins.edges, level) for level in (0.25, 0.75))
    reach = (distance + high - low).unsqueeze(-1)
    ends = [_below_at(after, bins, bins.edges + sign * reach) for sign in (-1, 1)]
    return ((ends[0] > before + MAX_FAR) | (ends[1] < before - MAX_FAR)).any(-1)


def _first_edge(below: Tensor, edges: Tensor, level: float) -> Tensor:
    """The first edge (n,) with at least so much probability below it."""
    return edges[(below < level).sum(-1).clamp_max(len(edges) - 1)]


def _below_at(below: Tensor, bins: Bins, points: Tensor) -> Tensor:
    """The probability below points (n, m), counted up to the last edge that they reach."""
    index = insertion_index(bins.edges, points, right=True) - 1
    inside = below.gather(-1, index.clamp_min(0))
    return torch.where(index < 0, 0.0, inside)


def _shifted_around_atoms(probs: Tensor, bins: Bins, wanted: Tensor) -> Tensor:
    """All but the atoms shifted by the distance of the means, and the rest made up by weights."""
    assert bins.atoms is not None
    wide, atoms = probs[:, ~bins.atoms], probs[:, bins.atoms]
    edges = torch.unique_consecutive(bins.edges)
    share = wide.sum(-1, keepdim=True)
    by = wanted - probs @ bins.centers
    moved = _shifted(Cumulative.of(wide / share.clamp_min(TINY)), edges, by)
    places = torch.cat([bins.centers[bins.atoms].expand(len(probs), -1), _mean(moved, edges)], -1)
    weights = _reweighted(torch.cat([atoms, share], -1), places, wanted)
    result = torch.empty_like(probs)
    result[:, bins.atoms], result[:, ~bins.atoms] = weights[:, :-1], weights[:, -1:] * moved
    return result


def _reachable(bins: Bins) -> tuple[Tensor, Tensor]:
    """Means that a distribution on the bins can have, without all of it at one end."""
    low, high = bins.centers[0], bins.centers[-1]
    margin = 1e-9 * (high - low)
    return low + margin, high - margin


def _mean(probs: Tensor, edges: Tensor) -> Tensor:
    """The means (n, 1) of probabilities on bins between edges, about their middle."""
    middle = edges[0] / 2 + edges[-1] / 2
    centers = edges[:-1] + edges.diff() / 2 - middle
    return (probs @ centers + middle).unsqueeze(-1)


def _shifted(cumulative: Cumulative, edges: Tensor, by: Tensor) -> Tensor:
    """The probabilities after all was moved by a distance (n,), but not over either end."""
    inner = edges[1:-1] - by.unsqueeze(-1)
    found = cumulative.at(edges, edges.diff(), inner)
    ends = (part[..., :1] for part in (cumulative.below, cumulative.above))
    zero, one = ends
    below = torch.cat([zero, found.below, one], -1)
    return Cumulative(below, torch.cat([one, found.above, zero], -1)).masses()


def _shifted_to(probs: Tensor, edges: Tensor, wanted: Tensor) -> Tensor:
    """The probabilities, shifted by what gives them the wanted means (n,).

    The mean rises with the shift, at a rate of 1 where nothing meets an end. The rate of the last
    two shifts says where to go on, within a bracket.
    """
    reach = edges[-1] - edges[0]
    by = wanted - _mean(probs, edges).squeeze(-1)
    cumulative = Cumulative.of(probs)
    if torch.compiler.is_exporting():
        return _exported_search(cumulative, edges, wanted, by)
    result = _shifted(cumulative, edges, by)
    rows = torch.arange(len(probs), device=probs.device)
    low, high = -reach.expand(len(probs)), reach.expand(len(probs))
    before, gap_before = torch.zeros_like(by), by
    for _ in range(MAX_SEARCH_STEPS):
        gap = wanted[rows] - _mean(result[rows], edges).squeeze(-1)
        far = gap.abs() > MEAN_TOLERANCE * reach
        if not far.any():
            break
        rows, gap = rows[far], gap[far]
        state = (part[far] for part in (by, before, gap_before, low, high))
        by, before, gap_before, low, high = _better_shift(gap, *state)
        part = Cumulative(cumulative.below[rows], cumulative.above[rows])
        result[rows] = _shifted(part, edges, by)
    return result


def _better_shift(
    gap: Tensor, by: Tensor, before: Tensor, gap_before: Tensor, low: Tensor, high: Tensor
) -> tuple[Tensor, ...]:
    """The next shift, the last one with the gap that it left, and a narrower bracket."""
    low, high = torch.where(gap > 0, by, low), torch.where(gap < 0, by, high)
    slope = ((gap_before - gap) / (by - before)).nan_to_num(1.0).clamp(LEAST_SLOPE, 2.0)
    better = by + gap / slope
    inside = (better > low) & (better < high)
    return torch.where(inside, better, (low + high) / 2), by, gap, low, high


def _exported_search(cumulative: Cumulative, edges: Tensor, wanted: Tensor, by: Tensor) -> Tensor:
    """The search with a fixed number of steps, each of them at the rate 1."""
    for _ in range(EXPORTED_SEARCH_STEPS):
        by = by + wanted - _mean(_shifted(cumulative, edges, by), edges).squeeze(-1)
    return _shifted(cumulative, edges, by)


def _reweighted(weights: Tensor, places: Tensor, wanted: Tensor) -> Tensor:
    """Weights w_j exp(t x_j), normalized, of places x (n, m), with the mean asked for."""
    low, high = places.amin(-1), places.amax(-1)
    reach = (high - low).clamp_min(TINY)
    x = (places - low.unsqueeze(-1)) / reach.unsqueeze(-1)
    aim = ((wanted - low) / reach).clamp(1e-9, 1 - 1e-9)
    logits = weights.clamp_min(TINY).log()
    bound = torch.full_like(aim, 1e12)
    left, right, tilt = -bound, bound, torch.zeros_like(aim)
    for _ in range(MAX_SEARCH_STEPS if not torch.compiler.is_exporting() else 20):
        probs = torch.softmax(logits + tilt.unsqueeze(-1) * x, -1)
        found = (probs * x).sum(-1)
        gap = aim - found
        left, right = torch.where(gap > 0, tilt, left), torch.where(gap < 0, tilt, right)
        variance = (probs * (x - found.unsqueeze(-1)).square()).sum(-1).clamp_min(1e-300)
        newton = tilt + (gap / variance).clamp(-10, 10)
        inside = (newton > left) & (newton < right)
        tilt = torch.where(inside, newton, (left + right) / 2)
    return torch.softmax(logits + tilt.unsqueeze(-1) * x, -1)
