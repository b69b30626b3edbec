"""Contributions as bars to the left and right of a line: a small SVG, made of text alone."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from softbins._core.figures import ACTUAL, PREDICTED
from softbins._core.text import shortened

# In pixels. Bars go from the middle of their part to either side, with room for a number.
WIDTH, NAMES, LINE, MARGIN, NUMBER = 560, 200, 20, 8, 56
MAX_NAME_CHARACTERS = 28
MIDDLE = NAMES + (WIDTH - NAMES) / 2
LONGEST = (WIDTH - NAMES) / 2 - NUMBER


class Bar(NamedTuple):
    """One contribution, with what it comes from."""

    name: str
    value: float


class Panel(NamedTuple):
    """Contributions that belong together, below a title."""

    title: str
    bars: list[Bar]


def svg(panels: Sequence[Panel]) -> str:
    """All panels below each other, as an SVG element that is a file as well."""
    parts, top = [], MARGIN
    for panel in panels:
        parts.append(_panel(panel, top))
        top += (len(panel.bars) + 2) * LINE
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{WIDTH}" height="{top}" '
        f'viewBox="0 0 {WIDTH} {top}" fill="currentColor" font-family="sans-serif" '
        f'font-size="12" style="max-width: 100%">{"".join(parts)}</svg>'
    )


def _panel(panel: Panel, top: int) -> str:
    largest = max(abs(bar.value) for bar in panel.bars) or 1.0
    title = f'<text x="{MARGIN}" y="{top + 14}" font-weight="bold">{escape(panel.title)}</text>'
    first, bottom = top + LINE, top + (len(panel.bars) + 1) * LINE
    bars = [_bar(bar, first + i * LINE, largest) for i, bar in enumerate(panel.bars)]
    line = f'<path d="M{MIDDLE} {first}V{bottom}" stroke="currentColor" stroke-opacity="0.5"/>'
    return "".join([title, *bars, line])


def _bar(bar: Bar, top: int, largest: float) -> str:
    length = LONGEST * abs(bar.value) / largest
    positive = bar.value >= 0
    start, end = (MIDDLE, MIDDLE + length) if positive else (MIDDLE - length, MIDDLE - length)
    name = shortened(bar.name, MAX_NAME_CHARACTERS)
    return (
        f'<text x="{NAMES - MARGIN}" y="{top + 14}" text-anchor="end">{escape(name)}'
        f"<title>{escape(bar.name)}</title></text>"
        f'<rect x="{start:.1f}" y="{top + 3}" width="{length:.1f}" height="{LINE - 6}" '
        f'fill="{PREDICTED if positive else ACTUAL}"/>'
        f'<text x="{end + (4 if positive else -4):.1f}" y="{top + 14}" '
        f'text-anchor="{"start" if positive else "end"}">{bar.value:+.3g}</text>'
    )
