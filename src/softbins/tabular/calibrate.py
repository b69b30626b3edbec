"""How histograms of a table become honest: a move, a map of cumulative probabilities, a move back.

Histograms are moved to the mean that members and partners agree on. The map comes from held-out
rows, and may change the mean, which is restored. That changes a little where targets lie, so that
both are found together, in a few rounds.

A mean that a map has changed by what it did to heavy tails is restored there, by a tilt. One that
it has changed by making histograms narrow about another place is restored by a move. Held-out rows
tell which of the two suits a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import methodcaller
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softbins._core.atoms import atom_parts
from softbins._core.calibrator import (
    MAX_FITTED_LOG_ODDS,
    LogOddsMap,
    edge_log_odds,
    equal_rows,
    histogram_of_log_odds,
    log_odds_at,
    spread,
)
from softbins._core.tilt import tilted_towards_mean
from softbins.bins import Bins
from softbins.histogram import Histogram
from softbins.tabular.defaults import CalibrationDefaults
from softbins.tabular.jobs import run_in_threads

Array = NDArray[np.float64]

POINTS_OF_A_MAP = 200  # that stand for the rows which a map was made of


@dataclass(frozen=True)
class Calibration:
    """The map of a table, and how far a tilt may go before a move restores the mean: 0 is none."""

    map: LogOddsMap
    max_tilt: float = 0.0

    def __call__(self, moved: Histogram, mean: Tensor) -> Histogram:
        """Histograms that were moved to their means after the map, with these means again."""
        honest = histogram_of_log_odds(moved, self.map(edge_log_odds(moved)))
        if self.max_tilt > 0:
            tilted = tilted_towards_mean(honest.probs, honest.bins, mean, self.max_tilt)
            honest = Histogram(honest.bins, probs=tilted)
        return honest.with_mean(mean)

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, for the header of a model file."""
        knots = {"before": list(self.map.before), "after": list(self.map.after)}
        return knots | {"max_tilt": self.max_tilt}

    @classmethod
    def from_json(cls, header: dict[str, Any]) -> Calibration:
        """What `to_json` gave, or an earlier version that knew no tilt."""
        knots = LogOddsMap(tuple(header["before"]), tuple(header["after"]))
        return cls(knots, header.get("max_tilt", 0.0))


def calibrated(raw: Histogram, mean: Tensor, calibration: Calibration | None) -> Histogram:
    """The histograms moved to their means and then, if they can be, calibrated."""
    moved = raw.with_mean(mean)
    return moved if calibration is None else calibration(moved, mean)


@dataclass(frozen=True)
class HeldOut:
    """Held-out rows: histograms moved to their means, these, and where their targets lie.

    A target is a point, with `low` = `high`, or the cell that stands for a value of a lattice.
    """

    moved: Histogram
    mean: Tensor
    low: Tensor
    high: Tensor

    @classmethod
    def of(cls, raw: Histogram, mean: Tensor, y: Tensor, is_lattice: bool) -> HeldOut:
        """Rows with raw histograms, targets, and the means that they are moved to."""
        bins = raw.bins
        half = bins.widths[0] / 2 if is_lattice else 0.0
        low, high = ((y + side * half).clamp(bins.low, bins.high) for side in (-1, 1))
        return cls(raw.with_mean(mean), mean, low, high)

    def points(self, calibration: Calibration | None) -> Array:
        """Log odds (n, m) of where targets lie in the moved histograms.

        They are found in the calibrated ones and taken back through the map.
        """
        predicted = self._calibrated(calibration)
        low, high = log_odds_at(predicted, self.low)[0], log_odds_at(predicted, self.high)[1]
        found = torch.from_numpy(spread(low, high))
        return (found if calibration is None else calibration.map.inverse(found)).numpy()

    def crps(self, calibration: Calibration) -> Array:
        """The score (n,) of the calibrated histograms, at targets or the middles of their cells."""
        found: Array = self._calibrated(calibration).crps((self.low + self.high) / 2).numpy()
        return found

    def _calibrated(self, calibration: Calibration | None) -> Histogram:
        return self.moved if calibration is None else calibration(self.moved, self.mean)


def fit_calibration(
    parts: Sequence[HeldOut],
    weight: Array,
    rows: float,
    error: float,
    defaults: CalibrationDefaults,
    threads: int = 1,
) -> Calibration:
    """The calibration with the better score of held-out rows: with a tilt, or without one.

    They say as much as `rows` independent ones. Errors of new rows will be `error` times theirs.
    """

    def fitted(max_tilt: float) -> Calibration:
        """The map after which, with the mean restored, held-out targets lie as they should."""
        found: Calibration | None = None
        for _ in range(defaults.rounds):
            points = run_in_threads(methodcaller("points", found), parts, threads)
            expected = times_error(_joined(points), error)
            found = Calibration(LogOddsMap.fit(expected, weight, rows), max_tilt)
        assert found is not None
        return found

    def score(found: Calibration) -> float:
        scores = run_in_threads(methodcaller("crps", found), parts, threads)
        return float(np.concatenate(scores) @ weight)

    return min((fitted(limit) for limit in dict.fromkeys((0.0, defaults.max_tilt))), key=score)


def independent_rows(error: Array, weight: Array, groups: Array | None) -> float:
    """How many rows with an error of their own say as much as rows with these errors (n,).

    Rows of one group err alike. By how much is their intraclass correlation, from the variances
    within groups and between them; Kish's design effect is what it makes of the number of rows.
    """
    rows = equal_rows(weight)
    if groups is None:
        return rows
    _, index, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    count, usual_size = len(sizes), np.square(sizes).sum() / len(error)
    if count in (1, len(error)):
        return min(rows, count)
    means = np.bincount(index, error) / sizes
    between = sizes @ np.square(means - error.mean()) / (count - 1)
    within = np.square(error - means[index]).sum() / (len(error) - count)
    size = (len(error) - usual_size) / (count - 1)
    total = between + (size - 1) * within
    correlation = max(between - within, 0.0) / total if total > 0 else 1.0
    return float(rows / (1 + (usual_size - 1) * min(correlation, 1.0)))


def times_error(log_odds: Array, error: float) -> Array:
    """Log odds of targets whose distance from the median were `error` times what it is.

    Distances are those of a normal distribution, whatever the shape of the histograms is: so they
    mean something at atoms and between two peaks as well.
    """
    tail = torch.sigmoid(-torch.from_numpy(log_odds).abs().clamp(max=MAX_FITTED_LOG_ODDS))
    distance = -error * torch.special.ndtri(tail)
    found = torch.special.log_ndtr(distance) - torch.special.log_ndtr(-distance)
    signed: Array = np.sign(log_odds) * found.numpy()
    return signed


def update_calibration(
    parts: Sequence[HeldOut], weight: Array, before: Calibration | None, rows: float
) -> Calibration:
    """A map for new rows and the `rows` earlier ones, which the present map has made honest.

    The mean stays where it is, so that errors in one direction cannot be undone: what counts is
    how far from the median targets lie, on either side.
    """
    points = _joined([part.points(before) for part in parts])
    points = points if before is None else before.map(torch.from_numpy(points)).numpy()
    level = (np.arange(POINTS_OF_A_MAP) + 0.5) / POINTS_OF_A_MAP
    uniform = np.log(level / (1 - level))[:, None]
    known = np.broadcast_to(uniform, (POINTS_OF_A_MAP, points.shape[1]))
    weights = np.concatenate([np.full(POINTS_OF_A_MAP, rows / POINTS_OF_A_MAP), weight])
    total, every = rows + weight.sum(), np.concatenate([known, points])
    change = LogOddsMap.fit(every, weights, rows=total, two_sided=0.0, has_room=True)
    return Calibration(change) if before is None else replace(before, map=before.map.then(change))


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
