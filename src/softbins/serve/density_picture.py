"""The picture of one predicted distribution, with its mean, median and interval."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from softbins._core.figures import AREA, INK, PREDICTED, Picture, add_legend
from softbins._core.histogram_picture import as_float64, outlines
from softbins.histogram import Histogram
from softbins.report.page import picture_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def density_picture(
    distribution: Histogram, numbers: dict[str, Any], coverage: float, target: str | None
) -> Picture:
    """Draw the distribution of one row; `numbers` are those of its answer."""
    draw = partial(_draw, distribution, numbers, coverage, target)
    caption = f"Predicted density, with the mean, the median and the {coverage:.0%} interval."
    return picture_of(draw, "density", caption)


def _draw(
    distribution: Histogram,
    numbers: dict[str, Any],
    coverage: float,
    target: str | None,
    axes: Axes,
) -> None:
    edges, heights = outlines(as_float64(distribution))
    axes.stairs(heights[0], edges, fill=True, color=AREA)
    low, high = numbers["interval"]
    axes.axvspan(low, high, color=PREDICTED, alpha=0.25, lw=0, label=f"{coverage:.0%} interval")
    axes.axvline(numbers["mean"], color=INK, linewidth=2, label="mean")
    axes.axvline(numbers["median"], color=INK, linewidth=2, linestyle=":", label="median")
    left, right = min(edges[0], low), max(edges[-1], high)
    margin = 0.02 * (right - left)
    height = "density" if distribution.bins.atoms is None else "probability of a bar"
    axes.set(xlabel=target or "target", ylabel=height, ylim=(0, None))
    axes.set_xlim(left - margin, right + margin)
    add_legend(axes, columns=3)
