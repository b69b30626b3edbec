"""Histograms as pictures: what there is to see of them, and a small SVG for notebooks.

The SVG is made of text alone, so that the core needs no library for it. It stands inside of the
notebook's page and takes the color of the text there, so that it can be read on dark pages too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from softbins._core.figures import AREA
from softbins._core.text import number_text

if TYPE_CHECKING:
    from softbins.histogram import Histogram

Array = NDArray[np.float64]

# Probability at either end that is left out.
HIDDEN_TAIL = 1e-3
MAX_BINS_OF_RIDGE = 250
BARS_IN_A_PICTURE = 120  # half of the width of a bar, as a part of the width of the picture
MAX_ROWS = 5
COVERAGE = 0.9
# Width and heights in pixels: a row is a line of text above a density.
WIDTH, TEXT, DENSITY, AXIS, MARGIN = 480, 18, 42, 20, 8
STEPS = (1, 2, 5, 10)


def ridges(histograms: Histogram) -> tuple[Array, Array]:
    """The edges (m + 1,) where there is something to see, and outlines (n, m) of height 1."""
    edges, heights = outlines(histograms)
    return edges, heights / heights.max(axis=1, keepdims=True)


def outlines(histograms: Histogram) -> tuple[Array, Array]:
    """The edges (m + 1,) where there is something to see, and the densities (n, m) there.

    An atom is a narrow bar, as high as its probability. Beside one, the density is drawn so that
    its peak is as high as the probability of all that is in no atom.
    """
    first, last = _shown(histograms)
    edges = histograms.bins.edges.numpy()[first : last + 2]
    probs = histograms.probs.numpy()[:, first : last + 1]
    wide = np.diff(edges) > 0
    distinct, density = _merged(np.unique(edges), probs[:, wide])
    if wide.all():
        return distinct, density
    return _with_bars(distinct, density, edges[:-1][~wide], probs[:, ~wide])


def _shown(histograms: Histogram) -> tuple[int, int]:
    """The first and the last bin to draw; an atom alone gets its neighbors."""
    bins, ends = histograms.bins, histograms.quantile([HIDDEN_TAIL, 1 - HIDDEN_TAIL])
    first, last = (int(bins.locate(end)) for end in (ends.min(), ends.max()))
    if first == last and bins.widths[first] == 0:
        return max(first - 1, 0), min(last + 1, bins.count - 1)
    return first, last


def _merged(edges: Array, probs: Array) -> tuple[Array, Array]:
    """Densities of neighbors drawn together, because a picture shows no thousand bins."""
    starts = np.arange(0, len(edges) - 1, 1 + (len(edges) - 2) // MAX_BINS_OF_RIDGE)
    some = edges[[*starts, len(edges) - 1]]
    return some, np.add.reduceat(probs, starts, axis=1) / np.diff(some)


def _with_bars(edges: Array, density: Array, places: Array, masses: Array) -> tuple[Array, Array]:
    """The same with bars (n, a) at places (a,)."""
    share, top = density @ np.diff(edges), density.max(axis=1)
    heights = density * (share / np.where(top > 0, top, 1.0))[:, None]
    narrow = (edges[-1] - edges[0]) / BARS_IN_A_PICTURE if share.max() > 0 else np.inf
    half = min(narrow, 0.35 * np.diff(places).min(initial=edges[-1] - edges[0]))
    finer = np.unique(np.concatenate([edges, places - half, places + half]))
    middles = (finer[:-1] + finer[1:]) / 2
    nearest = np.abs(middles[:, None] - places).argmin(axis=1)
    in_bar = np.abs(middles - places[nearest]) < half
    own = np.clip(np.searchsorted(edges, middles, side="right") - 1, 0, len(edges) - 2)
    return finer, np.where(in_bar, masses[:, nearest], heights[:, own])


def picture(histograms: Histogram) -> str | None:
    """An HTML element with the first histograms, or None if there is none that can be drawn."""
    count = math.prod(histograms.batch_shape)
    if count == 0:
        return None
    shape = tuple(histograms.batch_shape)
    rows = [np.unravel_index(row, shape) for row in range(min(count, MAX_ROWS))]
    some = histograms[tuple(np.array(rows).T)] if shape else histograms[None]
    if not bool(some.probs.isfinite().all()):
        return None
    names = [f"[{', '.join(map(str, row))}] " if shape else "" for row in rows]
    more = f"... and {count - MAX_ROWS} more" if count > MAX_ROWS else ""
    return f'<div style="font-size: 12px">{_svg(as_float64(some), names)}<div>{more}</div></div>'


def as_float64(histograms: Histogram) -> Histogram:
    """Histograms whose numbers NumPy can read."""
    return type(histograms)(histograms.bins, probs=histograms.probs.detach().cpu().double())


def _svg(some: Histogram, names: Sequence[str]) -> str:
    edges, heights = ridges(some)
    scale = (WIDTH - 2 * MARGIN) / (edges[-1] - edges[0])
    places = MARGIN + (edges - edges[0]) * scale
    low, high = (end.numpy() for end in some.interval(COVERAGE))
    numbers = np.stack([some.mean.numpy(), some.median.numpy(), low, high], axis=1)
    moved = np.clip(MARGIN + (numbers - edges[0]) * scale, MARGIN, WIDTH - MARGIN)
    rows = [
        _row(row, places, heights[row], moved[row]) + _text(row, name, numbers[row])
        for row, name in enumerate(names)
    ]
    bottom = len(names) * (TEXT + DENSITY)
    ticks = [_tick(value, MARGIN + (value - edges[0]) * scale, bottom) for value in _ticks(edges)]
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{WIDTH}" '
        f'height="{bottom + AXIS}" viewBox="0 0 {WIDTH} {bottom + AXIS}" fill="currentColor" '
        'font-family="sans-serif" font-size="12" style="max-width: 100%">'
        "<title>Predicted densities, with mean, median and 90% interval</title>"
    )
    return "".join([opening, *rows, *ticks, "</svg>"])


def _row(row: int, places: Array, heights: Array, numbers: Array) -> str:
    """The density, darker in the interval, with a line at the mean and a dashed one at the median.

    All in pixels but the heights, which are shares of the largest.
    """
    base, (mean, median, low, high) = (row + 1) * (TEXT + DENSITY), numbers
    inside = np.clip(places, low, high)
    top = base - DENSITY
    return (
        f'<path d="{_stairs(places, heights, base)}" fill="{AREA}" fill-opacity="0.4"/>'
        f'<path d="{_stairs(inside, heights, base)}" fill="{AREA}"/>'
        f'<path d="M{MARGIN} {base}H{WIDTH - MARGIN}" stroke="currentColor" stroke-opacity="0.4"/>'
        f'<path d="M{mean:.1f} {base}V{top}" stroke="currentColor" stroke-width="2"/>'
        f'<path d="M{median:.1f} {base}V{top}" stroke="currentColor" stroke-dasharray="3 3"/>'
    )


def _stairs(places: Array, heights: Array, base: int) -> str:
    """The outline of a histogram; bins without a width are left out."""
    drawn = np.diff(places) > 0
    steps = zip(places[1:][drawn], base - DENSITY * heights[drawn], strict=True)
    start = places[:-1][drawn][:1].sum()  # no bin, no place: then nothing is drawn
    return f"M{start:.1f} {base}" + "".join(f"V{y:.1f}H{x:.1f}" for x, y in steps) + f"V{base}Z"


def _text(row: int, name: str, numbers: Array) -> str:
    mean, median, low, high = map(number_text, numbers)
    said = f"{name}mean {mean}, median {median} (dashed), {COVERAGE:.0%} from {low} to {high}"
    return f'<text x="{MARGIN}" y="{row * (TEXT + DENSITY) + 13}">{said}</text>'


def _tick(value: float, x: float, bottom: int) -> str:
    return (
        f'<path d="M{x:.1f} {bottom}v4" stroke="currentColor"/>'
        f'<text x="{x:.1f}" y="{bottom + 16}" font-size="11" text-anchor="middle">{value:g}</text>'
    )


def _ticks(edges: Array) -> list[float]:
    """Three to seven round numbers, none at the very ends, where their text would be cut."""
    span = float(edges[-1] - edges[0])
    low, high = edges[0] + 0.04 * span, edges[-1] - 0.04 * span
    power = 10.0 ** math.floor(math.log10(span / 3))
    step = power * max(each for each in STEPS if power * each <= span / 3)
    return [step * i for i in range(math.ceil(low / step), math.floor(high / step) + 1)]
