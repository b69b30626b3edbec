"""Pictures of predicted distributions, of how honest they are, and of training.

Every function draws on the axes `ax`, or on a new figure of pyplot's, and returns the axes: the
figure is `ax.figure`. Legends stand above the axes, where they cover nothing. The same input gives
the same picture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from softbins import scores
from softbins._core.checks import Array, numeric_array, numeric_column, require_ordered
from softbins._core.figures import ACTUAL, AREA, CALIBRATED, INK, PREDICTED, add_legend, axes_or_new
from softbins._core.forecast_checks import check_histogram, checked_targets
from softbins._core.histogram_picture import as_float64, ridges
from softbins._core.learning_curves import (
    PREFERRED_ERRORS,
    checked_history,
    draw_curves,
    finite_or_nan,
    mark_best_epochs,
    scale_heights,
    shown_error,
    split_members,
)
from softbins._core.text import share_text
from softbins.histogram import Histogram

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["comparison", "densities", "interval_band", "pit", "reliability", "training"]

RIDGES_BY_DEFAULT = 8
# Height of a ridge in `densities`, where the next one begins at 1.
RIDGE_HEIGHT = 0.85
# A normal variable lies within this many standard deviations with probability 95%.
NORMAL_95 = 1.96


# Predictions


def densities(
    distribution: Histogram,
    y: Any = None,
    rows: Sequence[int] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Predicted densities of some rows above each other, with their targets if `y` is given.

    Each density has the same height, so that its width shows how sure the prediction is.

    Parameters
    ----------
    distribution : Histogram
        The predictions for n rows.
    y : array of shape (n,), optional
        The targets.
    rows : sequence of int, optional
        Which rows to draw, from top to bottom. By default up to eight, evenly chosen from the
        lowest predicted mean to the highest.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib Axes
        The axes with the picture.

    Examples
    --------
    >>> import torch
    >>> from softbins import Bins, Histogram, plots
    >>> forecast = Histogram(Bins.uniform(0.0, 1.0, 20), logits=torch.randn(5, 20))
    >>> plots.densities(forecast, y=[0.1, 0.3, 0.5, 0.7, 0.9]).get_xlabel()
    'target'
    """
    chosen = _chosen(distribution, rows)
    target = None if y is None else checked_targets(distribution, y)[chosen].numpy()
    edges, heights = ridges(as_float64(distribution[chosen]))
    axes, bases = axes_or_new(ax), np.arange(len(chosen))[::-1]
    for base, height in zip(bases, RIDGE_HEIGHT * heights, strict=True):
        axes.stairs(base + height, edges, baseline=base, fill=True, color=AREA)
    axes.set_yticks(bases, [str(row) for row in chosen])
    axes.set(xlabel="target", ylabel="row", ylim=(-0.1, len(chosen)))
    if target is not None:
        tops = bases + RIDGE_HEIGHT
        axes.vlines(target, bases, tops, color=ACTUAL, linewidth=2, label="true value")
        add_legend(axes)
    return axes


def interval_band(x: Any, y: Any, intervals: Any, mean: Any = None, ax: Axes | None = None) -> Axes:
    """Intervals as a band over a feature, with the targets as dots.

    Crosses are targets outside their intervals; the legend says how many are inside.

    Parameters
    ----------
    x : array of shape (n,)
        The feature.
    y : array of shape (n,)
        The targets.
    intervals : array of shape (n, 2)
        The low and high ends, such as `predict_interval` gives.
    mean : array of shape (n,), optional
        Predicted means, drawn as a line.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib Axes
        The axes with the picture.

    Examples
    --------
    >>> from softbins import plots
    >>> axes = plots.interval_band([1, 2], y=[0.5, 2.0], intervals=[[0, 1], [0, 1]])
    >>> axes.get_legend().get_texts()[0].get_text()
    'interval: 50.0% of 2 inside'
    """
    place = numeric_column("x", x)
    target, ends = numeric_column("y", y, len(place)), _checked_ends(intervals, len(place))
    order = np.argsort(place, kind="stable")
    place, target, (low, high) = place[order], target[order], ends[order].T
    share = f"interval: {share_text(scores.coverage(target, low, high))} of {len(target)} inside"
    middle = None if mean is None else numeric_column("mean", mean, len(place))[order]
    axes = axes_or_new(ax)
    axes.fill_between(place, low, high, color=AREA, alpha=0.4, label=share)
    if middle is not None:
        axes.plot(place, middle, color=PREDICTED, linewidth=1.8, label="mean")
    inside = (low <= target) & (target <= high)
    axes.plot(place[inside], target[inside], ".", color=INK, markersize=3, label="inside")
    axes.plot(place[~inside], target[~inside], "x", color=ACTUAL, markersize=5, label="outside")
    axes.set(xlabel="x", ylabel="target")
    add_legend(axes, columns=1 + (mean is not None))
    return axes


def comparison(results: Sequence[Mapping[str, Any]], ax: Axes | None = None) -> Axes:
    """The MAE of methods with its standard error as bars, the first on top.

    Parameters
    ----------
    results : sequence of dict
        For each method a dict with the keys "method", "mae" and "mae_stderr". A number that is
        not finite has no bar.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib Axes
        The axes with the picture.

    Examples
    --------
    >>> from softbins import plots
    >>> axes = plots.comparison([{"method": "l2", "mae": 1.5, "mae_stderr": 0.1}])
    >>> axes.get_xlabel()
    'mean absolute error ± standard error'
    """
    if not results:
        raise ValueError("results: need at least one method, got none")
    names = [row["method"] for row in results]
    means, errors = (
        finite_or_nan(f"results, {key}", (row[key] for row in results))
        for key in ("mae", "mae_stderr")
    )
    axes, places = axes_or_new(ax), np.arange(len(names))
    axes.barh(places, means, 0.7, color=AREA)
    axes.locator_params(axis="x", nbins=5)  # numbers of many digits stay apart
    axes.errorbar(means, places, xerr=errors, fmt="none", ecolor=ACTUAL, capsize=3)
    axes.set_yticks(places, names)
    axes.invert_yaxis()
    axes.set(xlabel="mean absolute error ± standard error")
    return axes


# Honesty


def reliability(
    distribution: Histogram, y: Any, ax: Axes | None = None, integer: bool = False
) -> Axes:
    """How many targets lie in central intervals, against the probability predicted for that.

    On the diagonal the distributions are calibrated, below it too narrow. The band holds 95% of
    the points of a calibrated forecast of as many rows.

    Parameters
    ----------
    distribution : Histogram
        The predictions for n rows.
    y : array of shape (n,)
        The targets.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.
    integer : bool
        Whether the targets are whole numbers, as in `scores.reliability`.

    Returns
    -------
    matplotlib Axes
        The axes with the picture.

    Examples
    --------
    >>> import torch
    >>> from softbins import Bins, Histogram, plots
    >>> forecast = Histogram(Bins.uniform(0.0, 1.0, 20), logits=torch.randn(5, 20))
    >>> plots.reliability(forecast, y=[0.1, 0.3, 0.5, 0.7, 0.9]).get_ylabel()
    'share of targets inside'
    """
    levels, observed = scores.reliability(distribution, y, integer=integer)
    low, high = _sampling_band(levels, distribution.batch_shape[0])
    axes, label = axes_or_new(ax), "95% of points if calibrated"
    axes.fill_between(levels, low, high, color=CALIBRATED, alpha=0.3, linewidth=0, label=label)
    axes.plot([0, 1], [0, 1], "--", color=CALIBRATED, linewidth=1)
    axes.plot(levels, observed, "o-", color=PREDICTED, markersize=4, label="observed")
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.set(xlabel="probability of the interval", ylabel="share of targets inside")
    add_legend(axes)
    return axes


def pit(distribution: Histogram, y: Any, ax: Axes | None = None, integer: bool = False) -> Axes:
    """Histogram of the probability integral transform: flat if calibrated.

    A U means that distributions are too narrow, a hill that they are too wide, a slope that they
    lie too low or too high. The band holds 95% of the bars of a calibrated forecast of as many
    rows.

    Parameters
    ----------
    distribution : Histogram
        The predictions for n rows.
    y : array of shape (n,)
        The targets.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.
    integer : bool
        Whether the targets are whole numbers, as in `scores.pit`.

    Returns
    -------
    matplotlib Axes
        The axes with the picture.

    Examples
    --------
    >>> import torch
    >>> from softbins import Bins, Histogram, plots
    >>> forecast = Histogram(Bins.uniform(0.0, 1.0, 20), logits=torch.randn(5, 20))
    >>> plots.pit(forecast, y=[0.1, 0.3, 0.5, 0.7, 0.9]).get_ylabel()
    'density of rows'
    """
    values = scores.pit(distribution, y, integer=integer, random_state=0)
    bars = 20 if len(values) >= 400 else 10  # fewer rows would not fill them
    heights, edges = np.histogram(values.clip(0, 1), bars, range=(0, 1), density=True)
    low, high = bars * _sampling_band(np.array([1 / bars]), len(values))[:, 0]
    axes, label = axes_or_new(ax), "95% of bars if calibrated"
    axes.bar(edges[:-1], heights, 0.92 / bars, align="edge", color=AREA)
    axes.axhspan(low, high, color=CALIBRATED, alpha=0.3, linewidth=0, label=label)
    axes.axhline(1, color=CALIBRATED, linestyle="--", linewidth=1)
    axes.set(xlim=(0, 1), xlabel="predicted probability below the target", ylabel="density of rows")
    add_legend(axes)
    return axes


def _sampling_band(shares: Array, n_rows: int) -> Array:
    """Ends (2, m) between which 95% of observed shares lie if the true ones are `shares`."""
    spread = NORMAL_95 * np.sqrt(shares * (1 - shares) / n_rows)
    result: Array = np.clip([shares - spread, shares + spread], 0, 1)
    return result


# Training


def training(model_or_history: Any, ax: Axes | None = None) -> Axes:
    """Errors on training and validation rows after each epoch, a line for each member.

    Shows the MAE if it is there. Dots mark the best epochs on the validation rows, by what the
    estimator monitors if it is given.

    Parameters
    ----------
    model_or_history : estimator or sequence of dict
        A fitted estimator, or its `history_`.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib Axes
        The axes with the picture.

    Examples
    --------
    >>> from softbins import plots
    >>> history = [{"epoch": 1, "validation_mae": 2.0}, {"epoch": 2, "validation_mae": 1.5}]
    >>> axes = plots.training(history)
    >>> [text.get_text() for text in axes.get_legend().get_texts()]
    ['validation', 'best epoch: 2']
    """
    history = checked_history(model_or_history)
    error, members = shown_error(history), split_members(history)
    axes = axes_or_new(ax)
    draw_curves(axes, members, f"train_{error}", PREDICTED, "--")
    draw_curves(axes, members, f"validation_{error}", ACTUAL, "-")
    monitored, shown = getattr(model_or_history, "monitor", error), f"validation_{error}"
    known = any(epoch.get(f"validation_{monitored}") is not None for epoch in history)
    mark_best_epochs(axes, members, f"validation_{monitored}" if known else shown, shown)
    scale_heights(axes)
    axes.set(xlabel="epoch", ylabel=error.upper() if error in PREFERRED_ERRORS else error)
    add_legend(axes, columns=2)
    return axes


# Parts


def _chosen(distribution: Histogram, rows: Sequence[int] | None) -> list[int]:
    """The rows to draw: those that were asked for, or some from the lowest mean to the highest."""
    check_histogram(distribution)
    shape = tuple(distribution.batch_shape)
    if len(shape) != 1 or shape[0] == 0:
        raise ValueError(f"distribution: need a histogram for each row, got batch shape {shape}")
    if rows is None:
        order = distribution.mean.argsort(stable=True).tolist()
        count = min(RIDGES_BY_DEFAULT, len(order))
        places = np.linspace(0, len(order) - 1, count).round().astype(int)
        return [order[place] for place in places]
    chosen = [int(row) for row in rows]
    wrong = [row for row in chosen if not 0 <= row < shape[0]]
    if wrong or not chosen:
        found = wrong[0] if wrong else "none"
        raise ValueError(f"rows: need indices from 0 to {shape[0] - 1}, got {found}")
    return chosen


def _checked_ends(intervals: Any, n_rows: int) -> Array:
    """Low and high ends (n, 2), with no low end above its high end."""
    result = numeric_array("intervals", intervals)
    if result.shape != (n_rows, 2):
        raise ValueError(f"intervals: need low and high ends, ({n_rows}, 2), got {result.shape}")
    require_ordered("intervals", result[:, 0], result[:, 1])
    return result
