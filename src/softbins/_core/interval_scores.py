"""Scores of quantiles and of intervals, which `scores` offers: they need no distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from softbins._core.checks import (
    Array,
    checked_level,
    checked_levels,
    numeric_array,
    numeric_column,
    require_ordered,
    weight_column,
)

Levels = float | Sequence[float] | Array


def pinball(y: Any, quantiles: Any, levels: Levels, sample_weight: Any = None) -> float:
    """Pinball loss of predicted quantiles: the mean over rows and levels.

    A quantile of level q costs q for each unit that it lies below y, and 1 - q for each above.

    Parameters
    ----------
    y : array of shape (n,)
        The targets.
    quantiles : array of shape (n, m) or (n,)
        The predicted quantiles: a column for each level, or no columns if there is one level.
    levels : float or sequence of float
        The m levels of the quantiles, strictly between 0 and 1.
    sample_weight : array of shape (n,), optional
        Weights of the rows.

    Returns
    -------
    float
        The loss in the unit of y; smaller is better.

    Examples
    --------
    >>> from softbins.scores import pinball
    >>> pinball([1.0, 4.0], [2.0, 2.0], 0.9)  # 0.1 for one unit above y, 1.8 for two below
    0.95
    """
    target, nominal = numeric_column("y", y), checked_levels("levels", levels)
    predicted = numeric_array("quantiles", quantiles)
    expected = (len(target), *np.shape(levels))
    if predicted.shape != expected:
        raise ValueError(
            f"quantiles: need shape {expected}, a row for each target and a column for each "
            f"level, got {predicted.shape}"
        )
    error = target[:, None] - predicted.reshape(len(target), -1)
    losses = np.maximum(nominal * error, (nominal - 1) * error)
    return weighted_mean(losses.mean(axis=1), sample_weight)


def interval_score(
    y: Any, low: Any, high: Any, coverage: float, sample_weight: Any = None
) -> float:
    """Score of central intervals with probability `coverage` (Gneiting and Raftery, 2007).

    The width, plus 2 / (1 - coverage) times the distance of y from the interval.

    Parameters
    ----------
    y : array of shape (n,)
        The targets.
    low, high : array of shape (n,)
        The ends of the intervals.
    coverage : float
        The probability that the intervals were made for, strictly between 0 and 1.
    sample_weight : array of shape (n,), optional
        Weights of the rows.

    Returns
    -------
    float
        The mean over the rows, in the unit of y; smaller is better.

    Examples
    --------
    >>> from softbins.scores import interval_score
    >>> interval_score([0.5, 3.0], low=[0.0, 0.0], high=[1.0, 1.0], coverage=0.5)  # 1 and 1 + 8
    5.0
    """
    target, (lows, highs) = numeric_column("y", y), _interval(low, high)
    _check_length("low, high", lows, len(target))
    alpha = 1 - checked_level("coverage", coverage)
    excess = np.maximum(lows - target, 0) + np.maximum(target - highs, 0)
    return weighted_mean(highs - lows + 2 / alpha * excess, sample_weight)


def coverage(y: Any, low: Any, high: Any, sample_weight: Any = None) -> float:
    """The share of targets in their intervals, ends included.

    Parameters
    ----------
    y : array of shape (n,)
        The targets.
    low, high : array of shape (n,)
        The ends of the intervals.
    sample_weight : array of shape (n,), optional
        Weights of the rows.

    Returns
    -------
    float
        From 0 to 1; best if it is the probability that the intervals were made for.

    Examples
    --------
    >>> from softbins.scores import coverage
    >>> coverage([0.5, 3.0], low=[0.0, 0.0], high=[1.0, 1.0])
    0.5
    """
    target, (lows, highs) = numeric_column("y", y), _interval(low, high)
    _check_length("low, high", lows, len(target))
    inside = (lows <= target) & (target <= highs)
    return weighted_mean(inside.astype(np.float64), sample_weight)


def width(low: Any, high: Any, sample_weight: Any = None) -> float:
    """The mean width of intervals.

    Parameters
    ----------
    low, high : array of shape (n,)
        The ends of the intervals.
    sample_weight : array of shape (n,), optional
        Weights of the rows.

    Returns
    -------
    float
        In the unit of the ends; of intervals with the same coverage, narrower ones are better.

    Examples
    --------
    >>> from softbins.scores import width
    >>> width(low=[0.0, 0.0], high=[1.0, 2.0])
    1.5
    """
    lows, highs = _interval(low, high)
    return weighted_mean(highs - lows, sample_weight)


def weighted_mean(values: Array, sample_weight: Any) -> float:
    """The mean over the rows; a row without weight is no row, even if its score is infinite."""
    if sample_weight is None:
        return float(values.mean())
    weight = weight_column("sample_weight", sample_weight, len(values))
    used = weight > 0
    return float(np.average(values[used], weights=weight[used]))


def _interval(low: Any, high: Any) -> tuple[Array, Array]:
    lows = numeric_column("low", low)
    highs = numeric_column("high", high, len(lows))
    require_ordered("low, high", lows, highs)
    return lows, highs


def _check_length(name: str, values: Array, length: int) -> None:
    if len(values) != length:
        raise ValueError(f"{name}: need one number for each of {length} rows, got {len(values)}")
