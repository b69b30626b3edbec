"""Pictures of predicted distributions, of how honest they are, and of training.

Every function draws on the axes `ax`, or on a new figure of pyplot's, and returns the axes: the
figure is `ax.figure`. Legends stand above the axes, where they cover nothing. The same input gives
the same picture.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from softbins import scores
from softbins._extras import optional_import
from softbins.histogram import Histogram

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Row = Mapping[str, Any]

# Of Wong's palette, which those who do not see all colours can tell apart; the marks differ too.
PREDICTED, ACTUAL, CALIBRATED = "#0072B2", "#D55E00", "#808080"
AREA = "#56B4E9"  # of what is predicted, light enough for lines and dots on it
INK = "#1b1f24"
SIZE = (4.2, 3.3)  # inches: about the width of a phone, so that text keeps its size there
PLAIN = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "softbins",  # the same names inside for the same picture
}
INKED = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
STYLE = PLAIN | dict.fromkeys(INKED, INK)
# What would differ from one day or version to the next.
NO_METADATA = {
    "svg": dict.fromkeys(("Creator", "Date", "Format", "Type")),
    "pdf": dict.fromkeys(("CreationDate", "Creator", "Producer")),
    "png": {"Software": None},
}
RIDGES = 8  # rows that `densities` draws unless it is told which
RIDGE = 0.85  # height of a ridge, where the next one begins at 1
TAIL = 1e-3  # probability at either end that `densities` leaves out
FINEST = 250  # bins in a ridge, at most
NORMAL_95 = 1.96  # standard errors on either side of 95%
ERRORS = ("mae", "rmse")  # which error `training` shows if there are several


# Predictions


def densities(
    distribution: Histogram,
    y: Any = None,
    rows: Sequence[int] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Predicted densities of some rows above each other, with their targets if `y` is given.

    Without `rows` there are up to eight, evenly chosen from the lowest mean to the highest. Each
    density has the same height, so that its width shows how sure the prediction is.
    """
    chosen = _chosen(distribution, rows)
    target = None if y is None else scores.checked_targets(distribution, y)[chosen].numpy()
    edges, ridges = _ridges(distribution, chosen)
    axes, bases = _axes(ax), np.arange(len(chosen))[::-1]
    for base, ridge in zip(bases, ridges, strict=True):
        axes.stairs(base + ridge, edges, baseline=base, fill=True, color=AREA)
    axes.set_yticks(bases, [str(row) for row in chosen])
    axes.set(xlabel="target", ylabel="row", ylim=(-0.1, len(chosen)))
    if target is not None:
        axes.vlines(target, bases, bases + RIDGE, color=ACTUAL, linewidth=2, label="true value")
        _legend(axes)
    return axes


def interval_band(x: Any, y: Any, intervals: Any, mean: Any = None, ax: Axes | None = None) -> Axes:
    """Intervals (n, 2) as a band over a feature x (n,), with the targets y (n,) as dots.

    Crosses are targets outside; the legend says how many are inside. `mean` (n,) adds a line.
    """
    place = checked_column("x", x)
    target, ends = checked_column("y", y, len(place)), _ends(intervals, len(place))
    order = np.argsort(place, kind="stable")
    place, target, (low, high) = place[order], target[order], ends[order].T
    share = f"interval: {scores.coverage(target, low, high):.1%} of {len(target)} inside"
    middle = None if mean is None else checked_column("mean", mean, len(place))[order]
    axes = _axes(ax)
    axes.fill_between(place, low, high, color=AREA, alpha=0.4, label=share)
    if middle is not None:
        axes.plot(place, middle, color=PREDICTED, linewidth=1.8, label="mean")
    inside = (low <= target) & (target <= high)
    axes.plot(place[inside], target[inside], ".", color=INK, markersize=3, label="inside")
    axes.plot(place[~inside], target[~inside], "x", color=ACTUAL, markersize=5, label="outside")
    axes.set(xlabel="x", ylabel="target")
    _legend(axes, columns=1 + (mean is not None))
    return axes


def comparison(results: Sequence[Row], ax: Axes | None = None) -> Axes:
    """The MAE of methods with its standard error as bars, the first on top.

    A result has the keys method, mae and mae_stderr. One that is not finite has no bar.
    """
    if not results:
        raise ValueError("results: need at least one method, got none")
    names = [row["method"] for row in results]
    means, errors = (_floats(row[key] for row in results) for key in ("mae", "mae_stderr"))
    axes, places = _axes(ax), np.arange(len(names))
    axes.barh(places, means, 0.7, color=AREA)
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
    the points of a calibrated forecast of as many rows. `integer` is as in `scores.reliability`.
    """
    levels, observed = scores.reliability(distribution, y, integer=integer)
    low, high = _sampling_band(levels, distribution.batch_shape[0])
    axes, label = _axes(ax), "95% of points if calibrated"
    axes.fill_between(levels, low, high, color=CALIBRATED, alpha=0.3, linewidth=0, label=label)
    axes.plot([0, 1], [0, 1], "--", color=CALIBRATED, linewidth=1)
    axes.plot(levels, observed, "o-", color=PREDICTED, markersize=4, label="observed")
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.set(xlabel="probability of the interval", ylabel="share of targets inside")
    _legend(axes)
    return axes


def pit(distribution: Histogram, y: Any, ax: Axes | None = None, integer: bool = False) -> Axes:
    """Histogram of the probability integral transform: flat if calibrated.

    A U means that distributions are too narrow, a hill that they are too wide, a slope that they
    lie too low or too high. The band holds 95% of the bars of a calibrated forecast of as many
    rows. `integer` is as in `scores.pit`.
    """
    values = scores.pit(distribution, y, integer=integer, random_state=0)
    bars = 20 if len(values) >= 400 else 10  # fewer rows would not fill them
    heights, edges = np.histogram(values.clip(0, 1), bars, range=(0, 1), density=True)
    low, high = bars * _sampling_band(np.array([1 / bars]), len(values))[:, 0]
    axes, label = _axes(ax), "95% of bars if calibrated"
    axes.bar(edges[:-1], heights, 0.92 / bars, align="edge", color=AREA)
    axes.axhspan(low, high, color=CALIBRATED, alpha=0.3, linewidth=0, label=label)
    axes.axhline(1, color=CALIBRATED, linestyle="--", linewidth=1)
    axes.set(xlim=(0, 1), xlabel="predicted probability below the target", ylabel="density of rows")
    _legend(axes)
    return axes


def _sampling_band(shares: Array, rows: int) -> Array:
    """Between what 95% of observed shares lie if the true ones are `shares`: (2, m)."""
    spread = NORMAL_95 * np.sqrt(shares * (1 - shares) / rows)
    result: Array = np.clip([shares - spread, shares + spread], 0, 1)
    return result


# Training


def training(model_or_history: Any, ax: Axes | None = None) -> Axes:
    """Errors on training and validation rows after each epoch, a line for each member.

    Takes a fitted estimator or its `history_`. Shows the MAE if it is there. Dots mark the best
    epochs on the validation rows, by what the estimator monitors if it is given.
    """
    history = checked_history(model_or_history)
    error, members = _shown_error(history), _by_member(history)
    axes = _axes(ax)
    for part, colour, style in (("train", PREDICTED, "--"), ("validation", ACTUAL, "-")):
        _curves(axes, members, f"{part}_{error}", colour, style)
    monitored = f"validation_{getattr(model_or_history, 'monitor', error)}"
    known = any(row.get(monitored) is not None for row in history)
    _mark_best(axes, members, monitored if known else f"validation_{error}", f"validation_{error}")
    _scale_heights(axes)
    axes.set(xlabel="epoch", ylabel=error.upper() if error in ERRORS else error)
    _legend(axes, columns=2)
    return axes


def checked_history(model_or_history: Any) -> list[Row]:
    """The rows of a history, of which there must be some."""
    history = getattr(model_or_history, "history_", model_or_history)
    if not isinstance(history, Sequence) or not all(isinstance(row, Mapping) for row in history):
        kind = type(model_or_history).__name__
        raise ValueError(f"model_or_history: need a fitted estimator or its history_, got {kind}")
    if not history:
        raise ValueError("model_or_history: no epochs, which a constant target does not need")
    return list(history)


def _shown_error(history: Sequence[Row]) -> str:
    """Which of the errors that have a number somewhere."""
    found = {
        name.partition("_")[2]
        for row in history
        for name, value in row.items()
        if name.startswith(("train_", "validation_")) and math.isfinite(_floats([value])[0])
    }
    if not found:
        raise ValueError(
            f"model_or_history: no finite train_ or validation_ error in {len(history)} rows, "
            f"which have {', '.join(history[0]) or 'nothing'}"
        )
    return next((name for name in ERRORS if name in found), min(found))


def _by_member(history: Sequence[Row]) -> list[list[Row]]:
    members: dict[Any, list[Row]] = {}
    for row in history:
        members.setdefault(row.get("member", 0), []).append(row)
    return list(members.values())


def _epochs(rows: Sequence[Row]) -> Array:
    return _floats(row.get("epoch", count) for count, row in enumerate(rows, start=1))


def _curves(
    axes: Axes, members: Sequence[Sequence[Row]], name: str, colour: str, style: str
) -> None:
    label: str | None = name.partition("_")[0]
    for rows in members:
        values = _floats(row.get(name) for row in rows)
        if not np.isnan(values).all():
            # One point alone is no line.
            dot = "." if len(rows) == 1 else ""
            axes.plot(_epochs(rows), values, dot + style, color=colour, linewidth=1.2, label=label)
            label = None  # the legend names each part once


def _mark_best(axes: Axes, members: Sequence[Sequence[Row]], score: str, shown: str) -> None:
    places = []
    for rows in members:
        values = _floats(row.get(score) for row in rows)
        if not np.isnan(values).all():
            best = int(np.nanargmin(values))
            places.append((_epochs(rows)[best], _floats([rows[best].get(shown)])[0]))
    if places:
        label = f"best epoch: {places[0][0]:g}" if len(members) == 1 else "best epochs"
        axes.plot(*zip(*places, strict=True), "o", color=ACTUAL, markersize=6, label=label)


def _scale_heights(axes: Axes) -> None:
    """A logarithmic axis with plain numbers, if the errors fall by more than a factor of three."""
    heights = np.concatenate([line.get_ydata() for line in axes.get_lines()])
    if np.nanmin(heights) > 0 and np.nanmax(heights) > 3 * np.nanmin(heights):
        ticker = optional_import("matplotlib.ticker", "plots")
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 3.0, 5.0)))
        axes.yaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
        axes.yaxis.set_minor_locator(ticker.NullLocator())


# Files


@contextmanager
def style(**changes: Any) -> Iterator[None]:
    """Whatever is created inside looks as the figures here do."""
    with optional_import("matplotlib", "plots").rc_context(STYLE | changes):
        yield


def picture(figure: Figure, kind: str) -> bytes:
    """A figure as the content of an "svg", "pdf" or "png" file, the same for the same figure."""
    buffer = io.BytesIO()
    with style():
        figure.savefig(buffer, format=kind, metadata=NO_METADATA[kind])
    return buffer.getvalue()


def inline(svg: str, name: str) -> str:
    """An SVG file as a part of a page: as wide as its place, in the colour of the text around it.

    `name` makes the names inside its own; the page says in `name`-caption what is to be seen.
    """
    body = svg[svg.index("<svg") :].replace(INK, "currentColor")
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", body)
    # Its style sheet would hold for the whole page.
    body = body.replace("*{stroke", f"#{name} *{{stroke")
    opening = f'<svg id="{name}" role="img" aria-labelledby="{name}-caption"'
    return re.sub(r'<svg(.*?) width="[^"]*" height="[^"]*"', rf"{opening}\1", body, count=1)


# Parts and checks


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    with style():
        pyplot = optional_import("matplotlib.pyplot", "plots")
        axes: Axes = pyplot.subplots(figsize=SIZE, layout="constrained")[1]
    return axes


def _legend(axes: Axes, columns: int = 2) -> None:
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=columns,
        frameon=False,
        fontsize=9,
        columnspacing=1.2,
        borderaxespad=0.2,
    )


def _chosen(distribution: Histogram, rows: Sequence[int] | None) -> list[int]:
    scores.check_histogram(distribution)
    shape = tuple(distribution.batch_shape)
    if len(shape) != 1 or shape[0] == 0:
        raise ValueError(f"distribution: need a histogram for each row, got batch shape {shape}")
    if rows is None:
        order = distribution.mean.argsort(stable=True).tolist()
        places = np.linspace(0, len(order) - 1, min(RIDGES, len(order))).round().astype(int)
        return [order[place] for place in places]
    chosen = [int(row) for row in rows]
    wrong = [row for row in chosen if not 0 <= row < shape[0]]
    if wrong or not chosen:
        found = wrong[0] if wrong else "none"
        raise ValueError(f"rows: need indices from 0 to {shape[0] - 1}, got {found}")
    return chosen


def _ridges(distribution: Histogram, chosen: Sequence[int]) -> tuple[Array, Array]:
    """The edges where there is something to see, and densities with the same largest height."""
    some = Histogram(distribution.bins, probs=distribution.probs[chosen].detach().cpu().double())
    ends = some.quantile([TAIL, 1 - TAIL])
    first, last = (int(some.bins.locate(end)) for end in (ends.min(), ends.max()))
    # Neighbours together, because a picture shows no thousand bins.
    starts = np.arange(first, last + 1, 1 + (last - first) // FINEST)
    edges = some.bins.edges.numpy()[[*starts, last + 1]]
    density = np.add.reduceat(some.probs.numpy()[:, : last + 1], starts, axis=1) / np.diff(edges)
    return edges, RIDGE * density / density.max(axis=1, keepdims=True)


def checked_column(name: str, values: Any, rows: int | None = None) -> Array:
    """One finite number for each row, and for as many rows as there are."""
    result = scores.checked_numbers(name, values)
    if result.ndim != 1 or len(result) == 0:
        raise ValueError(f"{name}: need one number for each row, got shape {result.shape}")
    if rows is not None and len(result) != rows:
        raise ValueError(f"{name}: need one number for each of {rows} rows, got {len(result)}")
    return result


def _ends(intervals: Any, rows: int) -> Array:
    result = scores.checked_numbers("intervals", intervals)
    if result.shape != (rows, 2):
        raise ValueError(f"intervals: need low and high ends, ({rows}, 2), got {result.shape}")
    crossed = np.flatnonzero(result[:, 0] > result[:, 1])
    if len(crossed):
        i = int(crossed[0])
        low, high = result[i]
        raise ValueError(f"intervals: low {low:g} is above high {high:g} at index {i}; swap them")
    return result


def _floats(values: Any) -> Array:
    """Numbers of a history, with NaN for what is not there or not finite."""
    result = np.array(list(values), dtype=np.float64)
    return np.where(np.isfinite(result), result, np.nan)
