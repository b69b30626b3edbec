"""How the pictures of `plots` look, and how they become files: style, colors and file formats."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from softbins._core.extras import optional_import

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# From Wong's palette, which those who do not see all colors can tell apart; the marks differ too.
PREDICTED, ACTUAL, CALIBRATED = "#0072B2", "#D55E00", "#808080"
# The area of what is predicted, light enough for lines and dots on it.
AREA = "#56B4E9"
INK = "#1b1f24"
# Width and height in inches: about the width of a phone, so that text keeps its size there.
SIZE = (4.2, 3.3)
PLAIN = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "softbins",  # the same names inside for the same picture
}
INKED = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
STYLE = PLAIN | dict.fromkeys(INKED, INK)
# Metadata that would differ from one day or version to the next is left out of files.
NO_METADATA = {
    "svg": dict.fromkeys(("Creator", "Date", "Format", "Type")),
    "pdf": dict.fromkeys(("CreationDate", "Creator", "Producer")),
    "png": {"Software": None},
}


@dataclass(frozen=True)
class Picture:
    """A figure of a page: its SVG element, named `name` in the page, and what it shows."""

    name: str
    svg: str
    caption: str


@contextmanager
def style(**changes: Any) -> Iterator[None]:
    """Give what is created inside the style of the pictures here, with some changes.

    Only the settings of the style are restored at the end. Matplotlib's own `rc_context` restores
    all of them, also those that a notebook makes when its first figure is created inside: then no
    later figure would be shown.
    """
    settings = optional_import("matplotlib", "plots").rcParams
    wanted = STYLE | changes
    before = {name: settings[name] for name in wanted}
    try:
        settings.update(wanted)
        yield
    finally:
        settings.update(before)


def axes_or_new(ax: Axes | None) -> Axes:
    """The axes that the user gave, or those of a new figure of pyplot's."""
    if ax is not None:
        return ax
    with style():
        pyplot = optional_import("matplotlib.pyplot", "plots")
        axes: Axes = pyplot.subplots(figsize=SIZE, layout="constrained")[1]
    return axes


def add_legend(axes: Axes, columns: int = 2) -> None:
    """A legend above the axes, where it covers nothing."""
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=columns,
        frameon=False,
        fontsize=9,
        columnspacing=1.2,
        borderaxespad=0.2,
    )


def picture(figure: Figure, kind: str) -> bytes:
    """A figure as the content of an "svg", "pdf" or "png" file, the same for the same figure."""
    buffer = io.BytesIO()
    with style(), warnings.catch_warnings():
        if kind == "svg":
            # Text stays text in it, and whoever shows it has other fonts.
            warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        figure.savefig(buffer, format=kind, metadata=NO_METADATA[kind])
    return buffer.getvalue()


def inline(svg: str, name: str) -> str:
    """An SVG file as a part of a page: as wide as its place, in the color of the text around it.

    All ids inside begin with `name`, so that several pictures can stand on one page. The page
    says what is to be seen in an element with the id `name`-caption.
    """
    body = svg[svg.index("<svg") :].replace(INK, "currentColor")
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", body)
    # Its style sheet would hold for the whole page.
    body = body.replace("*{stroke", f"#{name} *{{stroke")
    opening = f'<svg id="{name}" role="img" aria-labelledby="{name}-caption"'
    return re.sub(r'<svg(.*?) width="[^"]*" height="[^"]*"', rf"{opening}\1", body, count=1)
