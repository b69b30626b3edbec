"""A predicted density drawn with characters, for a terminal or a text file."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softbins._core.text import number_text

Array = NDArray[np.float64]

WIDTH, HEIGHT = 72, 8
# A cell filled from below in steps: in eighths, or as far as ASCII goes.
BLOCKS = " ▁▂▃▄▅▆▇█"
ASCII_BLOCKS = " .:#"


def density_lines(
    edges: ArrayLike, probs: ArrayLike, encoding: str | None, width: int = WIDTH
) -> list[str]:
    """Lines that show the density of a histogram with these edges (k + 1,) and probs (k,).

    A column of characters is as high as the mean density there; what is drawn covers all but a
    thousandth of the probability at each end. Below is an axis with the ends and the middle. A bin
    without width is a column as high as its probability, and the peak of all other columns then as
    high as the probability that these have together.
    """
    edges, probs = np.asarray(edges, float), np.asarray(probs, float)
    low, high = _drawn_range(edges, np.append(0.0, np.cumsum(probs)))
    wide, places = np.diff(edges) > 0, np.linspace(low, high, width + 1)
    cumulative = np.append(0.0, np.cumsum(probs[wide]))
    heights = np.diff(np.interp(places, np.unique(edges), cumulative))
    if not wide.all():
        heights *= cumulative[-1] / max(heights.max(), np.finfo(float).tiny)
        shown = ~wide & (edges[:-1] >= low) & (edges[:-1] <= high)
        column = np.searchsorted(places[1:-1], edges[:-1][shown], side="right")
        np.maximum.at(heights, column, probs[shown])
    return [*_bars(heights, _blocks(encoding)), *_axis(low, high, width, encoding)]


def _drawn_range(edges: Array, cumulative: Array) -> tuple[float, float]:
    total = cumulative[-1]
    inside = np.flatnonzero((cumulative[1:] > 0.001 * total) & (cumulative[:-1] < 0.999 * total))
    low, high = float(edges[inside[0]]), float(edges[inside[-1] + 1])
    if low == high:  # one value alone, between its neighbors
        return float(edges[max(inside[0] - 1, 0)]), float(
            edges[min(inside[-1] + 2, len(edges) - 1)]
        )
    return low, high


def _blocks(encoding: str | None) -> str:
    """The blocks that can be written in that encoding."""
    try:
        BLOCKS.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII_BLOCKS
    return BLOCKS


def _bars(heights: Array, blocks: str) -> list[str]:
    steps = len(blocks) - 1
    filled = np.ceil(heights / heights.max() * HEIGHT * steps - 1e-9).astype(int)
    rows = (np.clip(filled - level * steps, 0, steps) for level in reversed(range(HEIGHT)))
    return ["".join(blocks[step] for step in row).rstrip() for row in rows]


def _axis(low: float, high: float, width: int, encoding: str | None) -> list[str]:
    line = "─" if _blocks(encoding) == BLOCKS else "-"
    left, middle, right = (number_text(value) for value in (low, (low + high) / 2, high))
    labels = left + middle.center(width - len(left) - len(right)) + right
    return [line * width, labels]
