"""A map of cumulative probabilities, learnt from held-out rows, that makes forecasts honest.

`calibration` offers it as `Calibrator`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softbins._core.checks import json_entry, weight_column
from softbins._core.cumulative import MAX_LOG_ODDS, Cumulative
from softbins._core.forecast_checks import check_histogram, checked_labels, checked_targets
from softbins._core.sorted_search import insertion_index
from softbins.histogram import Histogram

Array = NDArray[np.float64]

MAX_FITTED_LOG_ODDS = 40.0  # rows that are further out count as if they were there
POINTS_OF_A_JUMP = 16  # over which a target at an atom is spread
MAX_KNOTS = 49
ROWS_FOR_TWO_SIDES = 300  # about as many as tell how the two sides of forecasts differ
MIN_ROWS = 10
MAX_TAIL_STRETCH, ROWS_FOR_A_TAIL = 2, 50  # how much wilder than the middle tails may be
MORE_ROUNDS = 2


@dataclass(frozen=True)
class LogOddsMap:
    """An increasing map of log odds: straight lines between knots, and slope 1 beyond them."""

    before: tuple[float, ...]
    after: tuple[float, ...]

    def __post_init__(self) -> None:
        for name in ("before", "after"):
            values = np.asarray(getattr(self, name), dtype=np.float64)
            if values.ndim != 1 or len(values) != len(self.before) or len(values) < 2:
                raise ValueError(f"{name}: need as many knots as in the other, at least two")
            if not np.isfinite(values).all() or (np.diff(values) <= 0).any():
                raise ValueError(f"{name}: need finite knots that increase; use Calibrator.fit")

    def __call__(self, log_odds: Tensor) -> Tensor:
        return _interpolated(log_odds, self.before, self.after)

    def inverse(self, log_odds: Tensor) -> Tensor:
        """The log odds that are mapped to these."""
        return _interpolated(log_odds, self.after, self.before)

    def then(self, other: LogOddsMap) -> LogOddsMap:
        """The two maps, this one first, as one, at the knots of the other."""
        after = np.linspace(other.after[0], other.after[-1], MAX_KNOTS)
        before = self.inverse(other.inverse(torch.from_numpy(after))).numpy()
        return LogOddsMap(tuple(_increasing(before).tolist()), tuple(after.tolist()))

    @classmethod
    def fit(
        cls,
        points: Array,
        weight: Array,
        rows: float | None = None,
        two_sided: float | None = None,
        has_room: bool = False,
    ) -> LogOddsMap:
        """The map that makes the log odds of rows those of the uniform distribution.

        Each row has a weight (n,), and is spread over several points (n, m). The i-th smallest of
        n probabilities becomes i / (n + 1), as it would for a new row that is exchangeable with
        them. The fewer rows, the more the map is that of the distance from the median, on both
        sides alike, unless it is said by how much the sides are to differ, from 0 to 1. `rows` is
        how many they count as, if not as many as their weights say. If the points come from a map
        that has room for a new row already, there is no more of it: maps that are made of maps
        would widen without end.
        """
        new = 0 if has_room else 1
        rows = equal_rows(weight) if rows is None else rows
        if two_sided is None:
            two_sided = rows / (rows + ROWS_FOR_TWO_SIDES)
        each = np.repeat(weight, points.shape[1]) / (points.shape[1] * weight.sum())
        flat = points.ravel().clip(-MAX_FITTED_LOG_ODDS, MAX_FITTED_LOG_ODDS)
        both = np.concatenate([flat, -flat])
        weights = np.concatenate([each * (1 + two_sided), each * (1 - two_sided)]) / 2
        order = np.argsort(both, kind="stable")
        both, weights = both[order], weights[order]
        level = (rows * (np.cumsum(weights) - weights / 2) + new / 2) / (rows + new)
        end = math.log(max(rows, 2))
        after = np.linspace(-end, end, _knots(rows))
        before = np.interp(after, np.log(level / (1 - level)), both)
        before = _without_wild_tails(_increasing(before), after, rows)
        return cls(tuple(before.tolist()), tuple(after.tolist()))


@dataclass(frozen=True)
class Calibrator:
    """Predicted distributions made honest: quantiles hold as many targets as they say.

    A forecast's cumulative probability u at the target is uniform if the forecast is honest. From
    held-out rows `fit` learns how it is distributed, and `apply` maps all cumulative probabilities
    by that distribution, in log odds. Mean, quantiles, intervals and scores of what it returns
    belong to one distribution.

    Parameters
    ----------
    overall : LogOddsMap
        The map that all rows together ask for; made by `fit`.
    groups : dict of str to LogOddsMap
        The map of each group with rows enough.

    Examples
    --------
    >>> import torch
    >>> from softbins import Bins, Histogram
    >>> from softbins.calibration import Calibrator
    >>> torch.manual_seed(0)  # doctest: +ELLIPSIS
    <torch...>
    >>> vague = Histogram(Bins.uniform(-8.0, 8.0, 64), logits=torch.zeros(1000, 64))
    >>> honest = Calibrator.fit(vague, torch.randn(1000)).apply(vague[0])
    >>> low, high = honest.interval(0.9)
    >>> round(low.item(), 1), round(high.item(), 1)
    (-1.6, 1.7)
    """

    overall: LogOddsMap
    groups: dict[str, LogOddsMap] = field(default_factory=dict)

    @classmethod
    def fit(
        cls, distribution: Histogram, y: Any, sample_weight: Any = None, groups: Any = None
    ) -> Calibrator:
        """Learn from held-out rows.

        Parameters
        ----------
        distribution : Histogram
            The predictions for n rows that the network was not trained on.
        y : array of shape (n,)
            Their targets.
        sample_weight : array of shape (n,), optional
            Weights of the rows; smaller ones for older rows let the calibration forget.
        groups : array of shape (n,), optional
            A label, text or a whole number, for each row: each group then has a map of its own,
            if it has at least ten rows.

        Returns
        -------
        Calibrator
            For predictions of the same network.
        """
        check_histogram(distribution)
        target = checked_targets(distribution, y).to(distribution.probs.device)
        weight = _weights(sample_weight, len(target))
        overall = _fitted(distribution, target, weight)
        if groups is None:
            return cls(overall)
        labels = checked_labels(groups, tuple(target.shape))
        chosen = {label: labels == label for label in np.unique(labels)}
        enough = {label: rows for label, rows in chosen.items() if rows.sum() >= MIN_ROWS}
        return cls(
            overall,
            {
                str(name): _fitted(distribution[rows], target[rows], weight[rows])
                for name, rows in enough.items()
            },
        )

    def apply(self, distribution: Histogram, groups: Any = None) -> Histogram:
        """The calibrated predictions.

        Parameters
        ----------
        distribution : Histogram
            Predictions of any batch shape.
        groups : array, optional
            A label for each row, in the batch shape, if `fit` had labels. One that it did not
            know, or had too few rows of, gets the map of all rows.

        Returns
        -------
        Histogram
            As many predictions on the same bins, in float64.
        """
        check_histogram(distribution)
        odds = edge_log_odds(distribution)
        mapped = self.overall(odds)
        if groups is not None:
            labels = checked_labels(groups, tuple(distribution.batch_shape))
            for label, own in self.groups.items():
                rows = torch.from_numpy(labels == label).to(odds.device)
                mapped = torch.where(rows.unsqueeze(-1), own(odds), mapped)
        return histogram_of_log_odds(distribution, mapped)

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON, from which `from_json` makes an equal object.

        Returns
        -------
        dict
            Names and plain values.
        """
        groups = {label: _knots_json(own) for label, own in self.groups.items()}
        return {"overall": _knots_json(self.overall), "groups": groups}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Calibrator:
        """The object from which `to_json` has made the data.

        Parameters
        ----------
        data : dict
            What `to_json` has given, also after a way through JSON.

        Returns
        -------
        Calibrator
            An equal object.

        Raises
        ------
        ValueError
            If something is missing or wrong in the data.
        """
        overall, groups = (json_entry(data, name) for name in ("overall", "groups"))
        try:
            maps = {str(label): _map_of_json(own) for label, own in groups.items()}
            return cls(_map_of_json(overall), maps)
        except (AttributeError, TypeError) as error:
            raise ValueError(f"data: not as to_json gives it ({error})") from error


def _fitted(distribution: Histogram, target: Tensor, weight: Array) -> LogOddsMap:
    """The map after which targets lie as they should.

    A map moves what lies below edges, and within a bin all stays as even as it was. So where
    targets lie is found in what it makes of the histograms, taken back, and the map fitted again.
    """
    odds = edge_log_odds(distribution)
    found = LogOddsMap.fit(spread(*log_odds_at(distribution, target)), weight)
    for _ in range(MORE_ROUNDS):
        calibrated = histogram_of_log_odds(distribution, found(odds))
        points = torch.from_numpy(spread(*log_odds_at(calibrated, target)))
        found = LogOddsMap.fit(found.inverse(points).numpy(), weight)
    return found


def equal_rows(weight: Array) -> float:
    """How many rows of equal weight say as much as rows with these weights (n,)."""
    return float(weight.sum() ** 2 / np.square(weight).sum())


def edge_log_odds(distribution: Histogram) -> Tensor:
    """The log odds of the cumulative probability at the edges between the ends, (..., k - 1)."""
    return Cumulative.of(distribution.probs.double()).log_odds()[..., 1:-1]


def histogram_of_log_odds(like: Histogram, odds: Tensor) -> Histogram:
    """The histograms on the same bins with these log odds at the edges between the ends."""
    return Histogram(like.bins, probs=Cumulative.of_log_odds(odds).masses())


def log_odds_at(distribution: Histogram, y: Tensor) -> tuple[Tensor, Tensor]:
    """The log odds just below targets (n,), and at them: the same but at atoms."""
    bins = distribution.bins
    cumulative = Cumulative.of(distribution.probs.double())
    index = bins.locate(y.double()).unsqueeze(-1)
    width = bins.widths[index]
    away = y.unsqueeze(-1) - bins.edges[index]
    inside = torch.where(width > 0, (away / width).clamp(0, 1), (away >= 0).double())
    mass = cumulative.masses().gather(-1, index)
    start, end = cumulative.below.gather(-1, index), cumulative.above.gather(-1, index + 1)
    is_atom = (width == 0) & (away == 0)
    ends = [(torch.where(is_atom, 0.0, inside)), inside]
    odds = [torch.log(start + s * mass) - torch.log(end + (1 - s) * mass) for s in ends]
    low, high = (part.squeeze(-1).clamp(-MAX_LOG_ODDS, MAX_LOG_ODDS) for part in odds)
    return low, high


def spread(low: Tensor, high: Tensor) -> Array:
    """Log odds (n, m) of points evenly spread between two probabilities, given by log odds.

    Where a cdf jumps, the probability at a target is anything between its two sides.
    """
    if bool((low == high).all()):
        return low.unsqueeze(-1).cpu().numpy()
    share = (torch.arange(POINTS_OF_A_JUMP).to(low) + 0.5) / POINTS_OF_A_JUMP
    below = torch.lerp(torch.sigmoid(low)[:, None], torch.sigmoid(high)[:, None], share)
    above = torch.lerp(torch.sigmoid(-low)[:, None], torch.sigmoid(-high)[:, None], share)
    odds = torch.log(below) - torch.log(above)
    same = (low == high).unsqueeze(-1)
    return torch.where(same, low.unsqueeze(-1), odds).clamp(-MAX_LOG_ODDS, MAX_LOG_ODDS).numpy()


def _interpolated(x: Tensor, starts: tuple[float, ...], ends: tuple[float, ...]) -> Tensor:
    knots, values = (torch.tensor(part, dtype=x.dtype, device=x.device) for part in (starts, ends))
    right = insertion_index(knots[1:-1], x) + 1
    left = right - 1
    slope = (values.diff() / knots.diff())[left]
    inner = values[left] + slope * (x - knots[left])
    outside = x - x.clamp(knots[0], knots[-1])
    edge = torch.where(outside < 0, values[0], values[-1])
    return torch.where(outside == 0, inner, edge + outside)


def _knots(rows: float) -> int:
    """How many knots so many rows can tell the places of: an odd number."""
    return int(min(2 * round(rows ** (1 / 3)) + 3, MAX_KNOTS))


def _increasing(values: Array) -> Array:
    """The values, with those that do not exceed the one before them moved up by very little."""
    steps = 1e-9 * np.arange(len(values))
    result: Array = np.maximum.accumulate(values) + steps
    return result


def _without_wild_tails(before: Array, after: Array, rows: float) -> Array:
    """The knots, none much farther from the next than the middle ones are, if rows are few.

    A single row that lies far out would otherwise have all forecasts reach out as far.
    """
    middle = np.interp([0.25, 0.75], 1 / (1 + np.exp(-after)), before)
    usual = (middle[1] - middle[0]) * (after[1] - after[0]) / (2 * math.log(3))
    most = MAX_TAIL_STRETCH * (1 + rows / ROWS_FOR_A_TAIL) * usual
    half = len(before) // 2
    steps = np.minimum(np.diff(before), max(most, 1e-9))
    low, high = np.cumsum(steps[:half][::-1])[::-1], np.cumsum(steps[half:])
    return np.concatenate([before[half] - low, before[half : half + 1], before[half] + high])


def _weights(sample_weight: Any, rows: int) -> Array:
    if sample_weight is None:
        return np.ones(rows)
    return np.asarray(weight_column("sample_weight", sample_weight, rows), dtype=np.float64)


def _knots_json(own: LogOddsMap) -> dict[str, list[float]]:
    return {"before": list(own.before), "after": list(own.after)}


def _map_of_json(data: dict[str, Any]) -> LogOddsMap:
    before, after = (json_entry(data, name) for name in ("before", "after"))
    return LogOddsMap(tuple(map(float, before)), tuple(map(float, after)))
