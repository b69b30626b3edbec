"""The drawings of an evaluation: predictions beside targets, errors in groups, what matters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from softbins import plots
from softbins._core.figures import ACTUAL, AREA, CALIBRATED, INK, add_legend
from softbins._core.text import shortened, shortened_alike
from softbins.histogram import Histogram
from softbins.report.dependence import Dependence
from softbins.report.sampling_error import mean_range
from softbins.report.table_values import Group

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

# More intervals could not be told apart in a figure of this width.
MAX_ROWS_DRAWN = 200
# How far out the farthest value is, as a multiple of the usual distance from the median, before a
# linear axis shows nothing but it. That of 600 normal values is 5, of exponential ones 12.
HEAVY_TAIL = 15.0
# The share of rows with the smallest and the largest means that no density is drawn of.
DENSITIES_FROM, DENSITIES_TO, DENSITIES = 0.05, 0.95, 8
MAX_LABEL = 18  # characters
MAX_STEPS = 4  # of the axis below bars, between which large numbers have room
# The share of all drawn probability that is out of sight on either side.
HIDDEN_MASS = 0.01


def drawn_rows(mean: Array) -> NDArray[np.int64]:
    """Up to 200 rows, evenly chosen in the order of their predicted means."""
    order = np.argsort(mean, kind="stable")
    places = np.linspace(0, len(order) - 1, min(MAX_ROWS_DRAWN, len(order)))
    chosen: NDArray[np.int64] = order[places.round().astype(int)]
    return chosen


def draw_predictions(y: Array, mean: Array, interval: Array | None, ax: Axes) -> None:
    """Targets over predicted means with their intervals; on the diagonal they are the same."""
    chosen = drawn_rows(mean)
    seen = np.concatenate([y[chosen], mean[chosen]])
    inside = np.ones(len(chosen), dtype=bool)
    if interval is not None:
        low, high = interval[chosen].T
        inside = (low <= y[chosen]) & (y[chosen] <= high)
        ax.vlines(mean[chosen], low, high, color=AREA, linewidth=1.2, alpha=0.5, label="interval")
    ends = [seen.min(), seen.max()]
    ax.plot(ends, ends, "--", color=CALIBRATED, linewidth=1, label="predicted = true")
    words = ("inside", "outside") if interval is not None else ("row", "")
    ax.plot(mean[chosen][inside], y[chosen][inside], ".", color=INK, markersize=4, label=words[0])
    if interval is not None:
        out = ~inside
        ax.plot(mean[chosen][out], y[chosen][out], "x", color=ACTUAL, markersize=5, label=words[1])
    _set_scales(ax, seen)
    ax.set(xlabel="predicted mean", ylabel="true value")
    add_legend(ax)


def draw_densities(predicted: Histogram, y: Array, numbers: Sequence[int], ax: Axes) -> None:
    """Densities of some rows, with the axis where nearly all of what they hold is.

    `numbers` (n,) are what all rows are called.
    """
    order = predicted.mean.argsort(stable=True).numpy()
    places = np.linspace(DENSITIES_FROM, DENSITIES_TO, min(DENSITIES, len(order)))
    rows = order[(places * (len(order) - 1)).round().astype(int)].tolist()
    plots.densities(predicted, y, rows, ax)
    ax.set_yticks(ax.get_yticks(), [str(numbers[row]) for row in rows])
    together = Histogram(predicted.bins, probs=predicted.probs[rows].double().mean(0))
    low, high = together.quantile([HIDDEN_MASS, 1 - HIDDEN_MASS]).tolist()
    room = 0.03 * (high - low)
    ax.set_xlim(low - room, high + room)


def draw_groups(groups: Sequence[Group], errors: Array, name: str, ax: Axes) -> None:
    """The mean absolute error of groups of rows as bars, with its 95% interval."""
    places = np.arange(len(groups))
    means = np.array([np.abs(errors[group.rows]).mean() for group in groups])
    ranges = [mean_range(np.abs(errors[g.rows])) if len(g.rows) > 1 else None for g in groups]
    ax.barh(places, means, 0.7, color=AREA, label="mean absolute error")
    for place, found in zip(places, ranges, strict=True):
        if found is not None:
            ax.plot([max(found.low, 0), found.high], [place] * 2, color=ACTUAL, linewidth=1.5)
    bias = [errors[group.rows].mean() for group in groups]
    ax.plot(bias, places, "D", color=INK, markersize=4, label="mean error")
    ax.axvline(0, color=CALIBRATED, linewidth=0.8)
    labels = [f"{_label(group.label)} ({len(group.rows)})" for group in groups]
    ax.set_yticks(places, labels)
    ax.locator_params(axis="x", nbins=MAX_STEPS)
    ax.set(xlabel="error", ylabel=_label(name, 32))
    add_legend(ax, columns=1)


def draw_importance(names: Sequence[str], repeats: Array, xlabel: str, ax: Axes) -> None:
    """What columns matter as bars, the first on top; lines from the least to the most repeat."""
    places = np.arange(len(names))
    ax.barh(places, repeats.mean(1), 0.7, color=AREA)
    ax.hlines(places, repeats.min(1), repeats.max(1), color=ACTUAL, linewidth=1.5)
    ax.axvline(0, color=CALIBRATED, linewidth=0.8)
    ax.set_yticks(places, [_plain(name) for name in shortened_alike(names, MAX_LABEL)])
    ax.invert_yaxis()
    ax.locator_params(axis="x", nbins=MAX_STEPS)
    ax.set(xlabel=xlabel)


def draw_dependence(found: Dependence, ax: Axes) -> None:
    """The averaged mean over the values of a column, with bands of 50% and 90%."""
    if found.values is None:
        _draw_categories(found, ax)
    else:
        _draw_line(found, found.values, ax)
    if found.values is not None and found.column.text_of is not None:
        ends = [float(found.values[0]), float(found.values[-1])]
        ax.set_xticks(ends, [found.column.text_of(end) for end in ends])
    ax.set(xlabel=_label(found.column.name, 40), ylabel="prediction")
    add_legend(ax, columns=3)


def _draw_line(found: Dependence, values: Array, ax: Axes) -> None:
    if found.bands is not None:
        first, third, low, high = found.bands
        ax.fill_between(values, low, high, color=AREA, alpha=0.3, linewidth=0, label="90%")
        ax.fill_between(values, first, third, color=AREA, alpha=0.6, linewidth=0, label="50%")
    ax.plot(values, found.mean, ".-", color=INK, linewidth=1.8, label="mean")
    # Where the rows are, as far as ten values can say.
    ax.plot(values, np.zeros(len(values)), "|", color=INK, transform=ax.get_xaxis_transform())


def _draw_categories(found: Dependence, ax: Axes) -> None:
    places = np.arange(len(found.labels))
    if found.bands is not None:
        first, third, low, high = found.bands
        ax.vlines(places, low, high, color=AREA, alpha=0.4, linewidth=10, label="90%")
        ax.vlines(places, first, third, color=AREA, linewidth=10, label="50%")
    ax.plot(places, found.mean, "o", color=INK, markersize=5, label="mean")
    ax.set_xlim(-0.6, len(places) - 0.4)
    long = max(map(len, found.labels)) * len(places) > 30
    labels = [_label(label, 14) for label in found.labels]
    ax.set_xticks(places, labels, rotation=35 if long else 0, ha="right" if long else "center")


def _set_scales(ax: Axes, values: Array) -> None:
    """Axes on which values with heavy tails can be told apart."""
    scale = axis_scale(values)
    if scale == "linear":
        return
    smallest = np.quantile(np.abs(values[values != 0]), 0.1)
    more = {"linthresh": 10 ** np.ceil(np.log10(smallest))} if scale == "symlog" else {}
    ax.set_xscale(scale, **more)
    ax.set_yscale(scale, **more)
    if scale == "log":
        ax.set_ylim(bottom=values.min() / 2)


def axis_scale(values: Array) -> str:
    """The scale of an axis for some values: "linear", or for heavy tails "log" or "symlog"."""
    size = values[values != 0]
    distance = np.abs(size - np.median(size)) if len(size) else np.zeros(1)
    if distance.max() <= HEAVY_TAIL * np.median(distance):
        return "linear"
    return "log" if values.min() > 0 else "symlog"


def _label(text: str, limit: int = MAX_LABEL) -> str:
    """A name from a table as matplotlib shows it: short, and without formulas."""
    return _plain(shortened(text, limit))


def _plain(text: str) -> str:
    """Text in which matplotlib sees no formulas."""
    return text.replace("$", r"\$")
