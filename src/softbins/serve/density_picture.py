"""The picture of one predicted distribution, with its mean, median and interval."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from softbins._core.figures import AREA, INK, PREDICTED, Picture, add_legend
from softbins.histogram import Histogram
from softbins.report.page import picture_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Probability at either end that is not drawn.
HIDDEN_TAIL = 1e-3


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
    edges = distribution.bins.edges.double()
    heights = distribution.probs[0].double() / edges.diff()
    axes.stairs(heights.numpy(), edges.numpy(), fill=True, color=AREA)
    low, high = numbers["interval"]
    axes.axvspan(low, high, color=PREDICTED, alpha=0.25, lw=0, label=f"{coverage:.0%} interval")
    axes.axvline(numbers["mean"], color=INK, linewidth=2, label="mean")
    axes.axvline(numbers["median"], color=INK, linewidth=2, linestyle=":", label="median")
    ends = distribution.quantile([HIDDEN_TAIL, 1 - HIDDEN_TAIL])[0].tolist()
    left, right = min(ends[0], low), max(ends[1], high)
    margin = 0.02 * (right - left) or 1.0
    axes.set(xlabel=target or "target", ylabel="density", ylim=(0, None))
    axes.set_xlim(left - margin, right + margin)
    add_legend(axes, columns=3)
