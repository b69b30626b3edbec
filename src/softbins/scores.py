"""Scores of predicted distributions: how sharp they are, and how honest, given what happened.

What judges distributions takes them first, as in `crps(distribution, y)`; what judges numbers
takes the targets first, as scikit-learn's metrics do. Scores are means over the rows, weighed by
`sample_weight`, and smaller is better. For the score of each row there are `Histogram.crps`,
`Histogram.log_prob` and `pit`. Scorers for scikit-learn's searches and cross-validation begin
with `neg_`, because there larger is better.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import Tensor

from softbins._core.checks import Array, checked_level, checked_levels
from softbins._core.forecast_checks import checked_targets
from softbins._core.interval_scores import (
    Levels,
    coverage,
    interval_score,
    pinball,
    weighted_mean,
    width,
)
from softbins._core.scorers import DistributionScorer
from softbins.histogram import Histogram

__all__ = [
    "DistributionScorer",
    "Reliability",
    "coverage",
    "crps",
    "interval_score",
    "neg_crps",
    "neg_interval_score",
    "neg_nll",
    "neg_pinball",
    "nll",
    "pinball",
    "pit",
    "reliability",
    "width",
]

TWENTIETHS = tuple(i / 20 for i in range(1, 20))


class Reliability(NamedTuple):
    """Points of a reliability diagram, on the diagonal if the forecast is calibrated.

    Attributes
    ----------
    levels : array of shape (m,)
        What was predicted: probabilities of intervals, or levels of quantiles.
    observed : array of shape (m,)
        What happened: the share of targets in those intervals, or below those quantiles.

    Examples
    --------
    >>> import torch
    >>> from softbins import Bins, Histogram, scores
    >>> flat = Histogram(Bins([0.0, 1.0, 2.0]), probs=torch.full((4, 2), 0.5))
    >>> scores.reliability(flat, [0.9, 1.0, 1.2, 1.9], levels=[0.5]).observed
    array([0.75])
    """

    levels: Array
    observed: Array


# Distributions


def crps(distribution: Histogram, y: Any, sample_weight: Any = None) -> float:
    """Continuous ranked probability score, exact.

    The integral of (cdf(t) - 1[t >= y])^2 over t: for a prediction that is sure of one value, the
    absolute error.

    Parameters
    ----------
    distribution : Histogram
        The predictions for n rows.
    y : array of shape (n,)
        The targets.
    sample_weight : array of shape (n,), optional
        Weights of the rows.

    Returns
    -------
    float
        The mean over the rows, in the unit of y; smaller is better.

    Examples
    --------
    >>> import torch
    >>> from softbins import Bins, Histogram, scores
    >>> wide = Histogram(Bins([0.0, 1.0, 2.0]), probs=torch.tensor([[0.5, 0.5]]))
    >>> round(scores.crps(wide, [1.0]), 4)
    0.1667
    """
    target = checked_targets(distribution, y)
    return weighted_mean(_numpy(distribution.crps(target)), sample_weight)


def nll(distribution: Histogram, y: Any, sample_weight: Any = None) -> float:
    """Negative log-likelihood: minus the mean log density at the targets.

    One target that lies outside the bins, or in a bin of probability 0, makes it infinite: no
    density was predicted there. `crps` stays finite.

    Parameters
    ----------
    distribution : Histogram
        The predictions for n rows.
    y : array of shape (n,)
        The targets.
    sample_weight : array of shape (n,), optional
        Weights of the rows.

    Returns
    -------
    float
        The mean over the rows, with densities in the unit of y; smaller is better.

    Examples
    --------
    >>> import torch
    >>> from softbins import Bins, Histogram, scores
    >>> wide = Histogram(Bins([0.0, 1.0, 2.0]), probs=torch.tensor([[0.5, 0.5]]))
    >>> round(scores.nll(wide, [1.0]), 4)  # the density is 1/2
    0.6931
    """
    target = checked_targets(distribution, y)
    return weighted_mean(-_numpy(distribution.log_prob(target)), sample_weight)


def pit(distribution: Histogram, y: Any, integer: bool = False, random_state: Any = None) -> Array:
    """Probability integral transform cdf(y) of each row: uniform on [0, 1] if calibrated.

    Where the cdf jumps, at an atom of the bins, the value is drawn evenly between its two sides.

    Parameters
    ----------
    distribution : Histogram
        The predictions for n rows.
    y : array of shape (n,)
        The targets.
    integer : bool
        Whether the targets are whole numbers that the bins have no atoms for, on which cdf(y)
        cannot be uniform: each value is then drawn evenly between cdf(y - 1/2) and cdf(y + 1/2).
    random_state : int, RandomState or None
        Seed of those draws.

    Returns
    -------
    array of shape (n,)
        Numbers from 0 to 1.

    Examples
    --------
    >>> import torch
    >>> from softbins import Bins, Histogram, scores
    >>> wide = Histogram(Bins([0.0, 1.0, 2.0]), probs=torch.full((2, 2), 0.5))
    >>> scores.pit(wide, [0.5, 1.0])
    array([0.25, 0.5 ])
    """
    start, end = _cdf_ends(distribution, y, integer)
    if (start == end).all():
        return end
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

    Below the diagonal, central intervals are too narrow.

    Parameters
    ----------
    distribution : Histogram
        The predictions for n rows.
    y : array of shape (n,)
        The targets.
    levels : float or sequence of float
        Probabilities strictly between 0 and 1; by default 0.05, 0.1, ..., 0.95.
    kind : {"central", "quantile"}
        Whether to count the targets in the central interval of each probability, or those at
        most the quantile of each level.
    integer : bool
        Whether the targets are whole numbers that the bins have no atoms for; as in `pit`, with
        the expected share in place of draws. So are targets at atoms in any case.
    sample_weight : array of shape (n,), optional
        Weights of the rows.

    Returns
    -------
    Reliability
        The `levels`, and the shares `observed` at each of them.

    Examples
    --------
    >>> import torch
    >>> from softbins import Bins, Histogram, scores
    >>> flat = Histogram(Bins([0.0, 1.0, 2.0]), probs=torch.full((4, 2), 0.5))
    >>> scores.reliability(flat, [0.9, 1.0, 1.2, 1.9], levels=[0.5, 0.95]).observed
    array([0.75, 1.  ])
    """
    nominal = checked_levels("levels", levels)
    start, end = _cdf_ends(distribution, y, integer)
    if kind == "quantile":
        inside = _share_below(start, end, nominal)
    elif kind == "central":
        upper = _share_below(start, end, (1 + nominal) / 2)
        inside = upper - _share_below(start, end, (1 - nominal) / 2)
    else:
        raise ValueError(f"kind: expected 'central' or 'quantile', got {kind!r}")
    observed = [weighted_mean(column, sample_weight) for column in inside.T]
    return Reliability(nominal, np.array(observed))


def _cdf_ends(distribution: Histogram, y: Any, integer: bool) -> tuple[Array, Array]:
    """The cdf on both sides of each target: half a step away, or twice the same but at atoms."""
    target = checked_targets(distribution, y)
    if not integer:
        end = distribution.cdf(target)
        return _numpy((end - distribution.prob(target)).clamp_min(0)), _numpy(end)
    fractional = torch.nonzero(target != target.round())
    if len(fractional):
        i = int(fractional[0])
        raise ValueError(
            f"y: integer=True needs whole numbers, got {target[i].item()!r} at index {i}; "
            "use integer=False"
        )
    return _numpy(distribution.cdf(target - 0.5)), _numpy(distribution.cdf(target + 0.5))


def _share_below(start: Array, end: Array, levels: Array) -> Array:
    """The share of each row's [start, end] that is at most each level: (rows, levels)."""
    start, end = start[:, None], end[:, None]
    width = end - start
    share = (np.clip(levels, start, end) - start) / np.where(width > 0, width, 1.0)
    result: Array = np.where(width > 0, share, levels >= start)
    return result


def _numpy(values: Tensor) -> Array:
    result: Array = values.detach().cpu().double().numpy()
    return result


# Scorers for scikit-learn


def neg_pinball(levels: Levels) -> DistributionScorer:
    """A scorer by the pinball loss of predicted quantiles.

    Parameters
    ----------
    levels : float or sequence of float
        The levels of the quantiles, strictly between 0 and 1.

    Returns
    -------
    DistributionScorer
        For `scoring=` of scikit-learn; larger is better.

    Examples
    --------
    >>> from softbins.scores import neg_pinball
    >>> neg_pinball([0.1, 0.9])
    neg_pinball((0.1, 0.9))
    """
    checked = checked_levels("levels", levels).tolist()
    arguments = (tuple(checked) if np.ndim(levels) else checked[0],)
    return DistributionScorer("neg_pinball", _pinball_of, arguments)


def neg_interval_score(coverage: float) -> DistributionScorer:
    """A scorer by the interval score of predicted central intervals.

    Parameters
    ----------
    coverage : float
        The probability of the intervals, strictly between 0 and 1.

    Returns
    -------
    DistributionScorer
        For `scoring=` of scikit-learn; larger is better.

    Examples
    --------
    >>> from softbins.scores import neg_interval_score
    >>> neg_interval_score(0.9)
    neg_interval_score(0.9)
    """
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
