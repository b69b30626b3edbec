"""Scores of predicted distributions: how sharp they are, and how honest, given what happened.

What judges distributions takes them first, as in `crps(distribution, y)`; what judges numbers
takes the targets first, as scikit-learn's metrics do. Scores are means over the rows, weighed by
`sample_weight`, and smaller is better. Row by row there are `Histogram.crps`,
`Histogram.log_prob` and `pit`. Scorers for scikit-learn's searches and cross-validation begin
with `neg_`, because there larger is better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state
from torch import Tensor

from softbins._checks import require
from softbins.histogram import Histogram

Array = NDArray[np.float64]
Levels = float | Sequence[float] | Array

TWENTIETHS = tuple(i / 20 for i in range(1, 20))


class Reliability(NamedTuple):
    """Nominal `levels`, and the share of targets `observed` at each; equal if calibrated."""

    levels: Array
    observed: Array


# Distributions


def crps(distribution: Histogram, y: Any, sample_weight: Any = None) -> float:
    """Continuous ranked probability score, exact, in the unit of y.

    >>> from softbins import Bins
    >>> wide = Histogram(Bins([0.0, 1.0, 2.0]), probs=torch.tensor([[0.5, 0.5]]))
    >>> round(crps(wide, [1.0]), 4)
    0.1667
    """
    target = checked_targets(distribution, y)
    return _mean(_numpy(distribution.crps(target)), sample_weight)


def nll(distribution: Histogram, y: Any, sample_weight: Any = None) -> float:
    """Negative log-likelihood, the log of the density in the unit of y.

    One target that lies outside the bins, or in a bin of probability 0, makes it infinite: no
    density was predicted there. `crps` stays finite.
    """
    target = checked_targets(distribution, y)
    return _mean(-_numpy(distribution.log_prob(target)), sample_weight)


def pit(distribution: Histogram, y: Any, integer: bool = False, random_state: Any = None) -> Array:
    """Probability integral transform cdf(y) of each row: uniform on [0, 1] if calibrated.

    `integer` is for whole-numbered targets, on which cdf(y) cannot be uniform: each value is
    drawn evenly between cdf(y - 1/2) and cdf(y + 1/2), by `random_state`.
    """
    start, end = _cdf_ends(distribution, y, integer)
    if not integer:
        return start
    share: Array = check_random_state(random_state).uniform(size=len(start))
    return start + share * (end - start)


def reliability(
    distribution: Histogram,
    y: Any,
    levels: Levels = TWENTIETHS,
    kind: Literal["central", "quantile"] = "central",
    integer: bool = False,
    sample_weight: Any = None,
) -> Reliability:
    """How often what is predicted with some probability happens: points of a reliability diagram.

    Observed is the share of targets in the central interval of each probability in `levels`
    ("central"), or at most the quantile of each level ("quantile"). Below the diagonal, central
    intervals are too narrow. `integer` is as in `pit`, with the expected share in place of draws.
    """
    nominal = _levels("levels", levels)
    start, end = _cdf_ends(distribution, y, integer)
    if kind == "quantile":
        inside = _share_below(start, end, nominal)
    elif kind == "central":
        upper = _share_below(start, end, (1 + nominal) / 2)
        inside = upper - _share_below(start, end, (1 - nominal) / 2)
    else:
        raise ValueError(f"kind: expected 'central' or 'quantile', got {kind!r}")
    observed = [_mean(column, sample_weight) for column in inside.T]
    return Reliability(nominal, np.array(observed))


def _cdf_ends(distribution: Histogram, y: Any, integer: bool) -> tuple[Array, Array]:
    """The cdf on both sides of each target: half a step away, or twice the same."""
    target = checked_targets(distribution, y)
    if not integer:
        value = _numpy(distribution.cdf(target))
        return value, value
    fractional = torch.nonzero(target != target.round())
    if len(fractional):
        i = int(fractional[0])
        raise ValueError(
            f"y: integer=True needs whole numbers, got {target[i].item()!r} at index {i}; "
            "use integer=False"
        )
    return _numpy(distribution.cdf(target - 0.5)), _numpy(distribution.cdf(target + 0.5))


def _share_below(start: Array, end: Array, levels: Array) -> Array:
    """The share of [start, end] that is at most each level: (rows, levels)."""
    start, end = start[:, None], end[:, None]
    width = end - start
    share = (np.clip(levels, start, end) - start) / np.where(width > 0, width, 1.0)
    result: Array = np.where(width > 0, share, levels >= start)
    return result


# Quantiles and intervals


def pinball(y: Any, quantiles: Any, levels: Levels, sample_weight: Any = None) -> float:
    """Pinball loss of quantiles (n, m) for m levels, or (n,) for one; the mean over all of them.

    >>> pinball([1.0, 4.0], [2.0, 2.0], 0.9)  # 0.1 for each unit above y, 0.9 for each below
    0.95
    """
    target, nominal = _targets("y", y), _levels("levels", levels)
    predicted = checked_numbers("quantiles", quantiles)
    expected = (len(target), *np.shape(levels))
    if predicted.shape != expected:
        raise ValueError(
            f"quantiles: need shape {expected}, a row for each target and a column for each "
            f"level, got {predicted.shape}"
        )
    error = target[:, None] - predicted.reshape(len(target), -1)
    losses = np.maximum(nominal * error, (nominal - 1) * error)
    return _mean(losses.mean(axis=1), sample_weight)


def interval_score(
    y: Any, low: Any, high: Any, coverage: float, sample_weight: Any = None
) -> float:
    """Score of central intervals with probability `coverage` (Gneiting and Raftery, 2007).

    The width, plus 2 / (1 - coverage) times the distance of y from the interval.

    >>> interval_score([0.5, 3.0], low=[0.0, 0.0], high=[1.0, 1.0], coverage=0.5)  # 1 and 1 + 8
    5.0
    """
    target, (lows, highs) = _targets("y", y), _interval(low, high)
    _check_rows("low, high", lows, len(target))
    alpha = 1 - checked_level("coverage", coverage)
    excess = np.maximum(lows - target, 0) + np.maximum(target - highs, 0)
    return _mean(highs - lows + 2 / alpha * excess, sample_weight)


def coverage(y: Any, low: Any, high: Any, sample_weight: Any = None) -> float:
    """The share of targets in their intervals, ends included."""
    target, (lows, highs) = _targets("y", y), _interval(low, high)
    _check_rows("low, high", lows, len(target))
    inside = (lows <= target) & (target <= highs)
    return _mean(inside.astype(np.float64), sample_weight)


def width(low: Any, high: Any, sample_weight: Any = None) -> float:
    """The mean width of intervals."""
    lows, highs = _interval(low, high)
    return _mean(highs - lows, sample_weight)


# Scorers for scikit-learn


@dataclass(frozen=True, repr=False)
class DistributionScorer:
    """A scorer (estimator, X, y) of what the estimator's `predict_distribution` gives.

    Pass one as `scoring` to `GridSearchCV` or `cross_val_score`, also for pipelines and searches
    that end in an estimator with `predict_distribution`.
    """

    name: str
    score: Callable[..., float]
    arguments: tuple[Any, ...] = ()

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The score with its sign turned, so that larger is better."""
        distribution = _predicted(estimator, X)
        return -self.score(distribution, y, *self.arguments, sample_weight=sample_weight)

    def __repr__(self) -> str:
        return self.name + (f"({self.arguments[0]!r})" if self.arguments else "")


def neg_pinball(levels: Levels) -> DistributionScorer:
    """A scorer by the pinball loss of the quantiles of one or more levels."""
    checked = _levels("levels", levels).tolist()
    arguments = (tuple(checked) if np.ndim(levels) else checked[0],)
    return DistributionScorer("neg_pinball", _pinball_of, arguments)


def neg_interval_score(coverage: float) -> DistributionScorer:
    """A scorer by the interval score of central intervals with probability `coverage`."""
    return DistributionScorer(
        "neg_interval_score", _interval_score_of, (checked_level("coverage", coverage),)
    )


neg_crps = DistributionScorer("neg_crps", crps)
# Minus infinity if a held-out target falls outside the bins; for searches, neg_crps is safer.
neg_nll = DistributionScorer("neg_nll", nll)


def _pinball_of(
    distribution: Histogram, y: Any, levels: float | tuple[float, ...], sample_weight: Any
) -> float:
    return pinball(y, distribution.quantile(levels), levels, sample_weight)


def _interval_score_of(
    distribution: Histogram, y: Any, coverage: float, sample_weight: Any
) -> float:
    return interval_score(y, *distribution.interval(coverage), coverage, sample_weight)


def _predicted(estimator: Any, X: Any) -> Histogram:
    """The predicted distributions; scikit-learn's wrappers hide them, so that they are opened."""
    if hasattr(estimator, "best_estimator_"):
        return _predicted(estimator.best_estimator_, X)
    if isinstance(estimator, Pipeline):
        inner = estimator[:-1].transform(X) if len(estimator) > 1 else X
        return _predicted(estimator[-1], inner)
    if not hasattr(estimator, "predict_distribution") or _predicts_numbers(estimator):
        objective = getattr(estimator, "objective", None)
        which = type(estimator).__name__ + (f"({objective!r})" if objective else "")
        raise ValueError(
            f"estimator: {which} predicts numbers, no distributions; use "
            "HistogramRegressor or NeuralRegressor with objective 'hl-gaussian', 'hl-uniform', "
            "'hl-onebin' or 'mdn', or a scoring of numbers, such as 'neg_mean_absolute_error'"
        )
    distribution: Histogram = estimator.predict_distribution(X)
    return distribution


def _predicts_numbers(estimator: Any) -> bool:
    objective = getattr(estimator, "objective_", None)
    return not getattr(objective, "has_distribution", True)


# Checks


def check_histogram(distribution: Any) -> None:
    """Raise unless it is one."""
    if not isinstance(distribution, Histogram):
        raise ValueError(
            "distribution: need a Histogram, such as predict_distribution gives, "
            f"got {type(distribution).__name__}"
        )


def checked_targets(distribution: Histogram, y: Any) -> Tensor:
    """One finite target for each histogram."""
    check_histogram(distribution)
    target = _targets("y", y)
    if distribution.batch_shape != target.shape:
        raise ValueError(
            f"distribution: batch shape {tuple(distribution.batch_shape)} does not match "
            f"{len(target)} targets; one histogram for all is distribution.expand((n,))"
        )
    return torch.from_numpy(target)


def _targets(name: str, values: Any) -> Array:
    """One finite number for each of at least one row."""
    result = checked_numbers(name, values)
    if result.ndim != 1:
        raise ValueError(f"{name}: need one number for each row, got shape {result.shape}")
    if len(result) == 0:
        raise ValueError(f"{name}: need at least one row, got none")
    return result


def checked_numbers(name: str, values: Any) -> Array:
    """Finite numbers as float64; a copy, because torch does not take read-only arrays."""
    if isinstance(values, Tensor):
        values = _numpy(values)
    try:
        result = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: need an array of numbers ({error})") from error
    require(name, torch.from_numpy(result))
    return result


def _interval(low: Any, high: Any) -> tuple[Array, Array]:
    lows, highs = _targets("low", low), _targets("high", high)
    _check_rows("high", highs, len(lows))
    crossed = np.flatnonzero(lows > highs)
    if len(crossed):
        i = int(crossed[0])
        raise ValueError(
            f"low, high: need low <= high, got low={lows[i]:g} and high={highs[i]:g} at index {i} "
            f"({len(crossed)} of {len(lows)} rows); are they swapped?"
        )
    return lows, highs


def _check_rows(name: str, values: Array, rows: int) -> None:
    if len(values) != rows:
        raise ValueError(f"{name}: need one number for each of {rows} rows, got {len(values)}")


def _levels(name: str, levels: Levels) -> Array:
    """One or more probabilities strictly between 0 and 1."""
    result = np.atleast_1d(checked_numbers(name, levels))
    if result.ndim != 1 or len(result) == 0:
        raise ValueError(f"{name}: need a number or a list of them, got shape {result.shape}")
    wrong = np.flatnonzero((result <= 0) | (result >= 1))
    if len(wrong):
        value = result[wrong[0]].item()
        raise ValueError(f"{name}: must lie strictly between 0 and 1, got {value}")
    return result


def checked_level(name: str, level: float) -> float:
    """A probability strictly between 0 and 1."""
    if np.ndim(level):
        raise ValueError(f"{name}: need one number, got {level!r}")
    return float(_levels(name, level)[0])


def _mean(values: Array, sample_weight: Any) -> float:
    if sample_weight is None:
        return float(values.mean())
    weight = _targets("sample_weight", sample_weight)
    _check_rows("sample_weight", weight, len(values))
    require("sample_weight", torch.from_numpy(weight), low=0.0, hint="weights are not negative")
    used = weight > 0  # a row without weight is no row, even if its score is infinite
    if not used.any():
        raise ValueError("sample_weight: all weights are zero, which leaves nothing to judge")
    return float(np.average(values[used], weights=weight[used]))


def _numpy(values: Tensor) -> Array:
    result: Array = values.detach().cpu().double().numpy()
    return result
