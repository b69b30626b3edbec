"""How histograms of a table become honest: a map of their cumulative probabilities, then a move.

The map comes from held-out rows. The move to the mean that members and partners agree on comes
after it and changes where targets lie: a first map knows nothing of it, and the next rounds find
both together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softbins._core.atoms import atom_parts
from softbins._core.calibrator import (
    LogOddsMap,
    edge_log_odds,
    histogram_of_log_odds,
    log_odds_at,
    spread,
)
from softbins._core.move_to_mean import moved_to_mean
from softbins.bins import Bins
from softbins.histogram import Histogram

Array = NDArray[np.float64]

POINTS_OF_A_MAP = 200  # that stand for the rows which a map was made of


def calibrated(raw: Histogram, mean: Tensor, calibration: LogOddsMap | None) -> Histogram:
    """The histograms after the map, if there is one, and moved to their means."""
    if calibration is not None:
        raw = histogram_of_log_odds(raw, calibration(edge_log_odds(raw)))
    moved = moved_to_mean(raw.probs, raw.bins, mean, is_exact=False)
    return Histogram(raw.bins, probs=moved)


@dataclass(frozen=True)
class HeldOut:
    """Held-out rows: raw histograms, the means they are moved to, and where their targets lie.

    A target is a point, with `low` = `high`, or the cell that stands for a value of a lattice.
    """

    raw: Histogram
    mean: Tensor
    low: Tensor
    high: Tensor

    @classmethod
    def of(cls, raw: Histogram, mean: Tensor, y: Tensor, error: float, is_lattice: bool) -> HeldOut:
        """Rows whose errors count as `error` times what they are; those at atoms stay there."""
        bins = raw.bins
        half = bins.widths[0] / 2 if is_lattice else 0.0
        ends = (mean + error * (y + side * half - mean) for side in (-1, 1))
        low, high = (end.clamp(bins.low, bins.high) for end in ends)
        at_atom = is_at_atom(bins, y)
        return cls(raw, mean, torch.where(at_atom, y, low), torch.where(at_atom, y, high))

    def points(self, calibration: LogOddsMap | None) -> Array:
        """Log odds (n, m) of where targets lie in the raw histograms.

        They are found in the calibrated ones, if there is a map, and taken back through it.
        """
        is_known = calibration is not None
        predicted = calibrated(self.raw, self.mean, calibration) if is_known else self.raw
        low, high = log_odds_at(predicted, self.low)[0], log_odds_at(predicted, self.high)[1]
        found = torch.from_numpy(spread(low, high))
        return (found if calibration is None else calibration.inverse(found)).numpy()


def is_at_atom(bins: Bins, y: Tensor) -> Tensor:
    """Which targets are the value of an atom."""
    if bins.atoms is None:
        return torch.zeros_like(y, dtype=torch.bool)
    index = bins.locate(y)
    return bins.atoms[index] & (y == bins.edges[index])


def fit_calibration(parts: Sequence[HeldOut], weight: Array, rounds: int) -> LogOddsMap:
    """The map after which, and after the move to the mean, held-out targets lie as they should."""
    found: LogOddsMap | None = None
    for _ in range(rounds):
        points = _joined([part.points(found) for part in parts])
        found = LogOddsMap.fit(points, weight)
    assert found is not None
    return found


def update_calibration(
    parts: Sequence[HeldOut], weight: Array, before: LogOddsMap | None, rows: float
) -> LogOddsMap:
    """A map for new rows and the `rows` earlier ones, which the present map has made honest.

    The mean stays where it is, so that errors in one direction cannot be undone: what counts is
    how far from the median targets lie, on either side.
    """
    points = _joined([part.points(before) for part in parts])
    points = points if before is None else before(torch.from_numpy(points)).numpy()
    level = (np.arange(POINTS_OF_A_MAP) + 0.5) / POINTS_OF_A_MAP
    uniform = np.log(level / (1 - level))[:, None]
    known = np.broadcast_to(uniform, (POINTS_OF_A_MAP, points.shape[1]))
    weights = np.concatenate([np.full(POINTS_OF_A_MAP, rows / POINTS_OF_A_MAP), weight])
    total, every = rows + weight.sum(), np.concatenate([known, points])
    change = LogOddsMap.fit(every, weights, rows=total, two_sided=0.0)
    return change if before is None else before.then(change)


def _joined(parts: Sequence[Array]) -> Array:
    """Points (n, m) of all parts; where a part has only one for each row, it is repeated."""
    most = max(part.shape[1] for part in parts)
    return np.concatenate([np.broadcast_to(part, (len(part), most)) for part in parts])


def on_lattice(cells: Histogram) -> Histogram:
    """All probability of each cell at its center, where the value is that it stands for."""
    bins = _lattice(cells.bins)
    between = torch.zeros_like(cells.probs[..., 1:])
    return Histogram(bins, probs=atom_parts(bins).joined(between, cells.probs))


@lru_cache(maxsize=16)
def _lattice(cells: Bins) -> Bins:
    """An atom at the center of each cell, and bins between them; made once, as no export can."""
    values = cells.centers
    step = (values[-1] - values[0]) / (len(values) - 1)
    # Whole numbers as they are, and not as a sum of steps has them.
    exact = torch.where((values - values.round()).abs() < 1e-6 * step, values.round(), values)
    return Bins(exact.repeat_interleave(2))
