"""Cumulative probabilities of histograms from both ends.

Near an end only the sum that starts there knows small probabilities: 1 minus the other one has
lost them. Everything here keeps both, or the log odds, which know as much.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from softbins._core.sorted_search import insertion_index

MAX_LOG_ODDS = 700.0  # beyond which a probability is no float64


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

    @classmethod
    def of_log_odds(cls, inner: Tensor) -> Cumulative:
        """Those with such log odds (..., k - 1) at the edges between the two ends."""
        zero, one = torch.zeros_like(inner[..., :1]), torch.ones_like(inner[..., :1])
        below = torch.cat([zero, torch.sigmoid(inner), one], -1)
        return cls(below, torch.cat([one, torch.sigmoid(-inner), zero], -1))

    def log_odds(self) -> Tensor:
        """The logarithms of below / above."""
        return (self.below.log() - self.above.log()).clamp(-MAX_LOG_ODDS, MAX_LOG_ODDS)

    def masses(self) -> Tensor:
        """The probability between neighboring edges, from the sums that begin nearer to it."""
        left, right = self.below.diff(dim=-1), -self.above.diff(dim=-1)
        return torch.where(self.below[..., 1:] <= self.above[..., :-1], left, right).clamp_min(0)

    def at(self, edges: Tensor, points: Tensor) -> Cumulative:
        """The same at other points (n, m) between the ends of the edges (k + 1,)."""
        index = insertion_index(edges[1:-1], points, right=True)
        everywhere, following = edges.expand(points.shape[0], -1), index + 1
        start = everywhere.gather(-1, index)
        share = (points - start) / (everywhere.gather(-1, following) - start)
        below, above = (
            torch.lerp(part.gather(-1, index), part.gather(-1, following), share) for part in self
        )
        return Cumulative(below, above)
