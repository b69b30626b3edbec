"""One HTML page of tables, figures and facts, which needs no other file.

Styles, figures, what can be downloaded and the few lines of script that sort tables stand inside of
the page, and it requests nothing. Without the script it is the same page with tables that stay as
they are. The same content gives the same page.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import softbins
from softbins._core.extras import optional_import
from softbins._core.figures import SIZE, Picture, inline, picture, style
from softbins._core.text import shown
from softbins.report.verdict import Finding, overall

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Draw = Callable[["Axes"], object]


@dataclass(frozen=True)
class Table:
    """Heads of columns, and rows of numbers and text, which a reader can sort if `sortable`."""

    head: Sequence[str]
    rows: Sequence[Sequence[Any]]
    caption: str = ""
    sortable: bool = True

    def is_number(self, column: int) -> bool:
        """Whether a column holds numbers, and perhaps gaps."""
        cells = [row[column] for row in self.rows if row[column] is not None]
        return bool(cells) and all(isinstance(cell, (int, float)) for cell in cells)


@dataclass(frozen=True)
class Section:
    """A part of a page under a title of its own: remarks, tables, then figures."""

    name: str
    title: str
    tables: Sequence[Table] = ()
    remarks: Sequence[str] = ()
    pictures: Sequence[Picture] = ()
    lead: str = ""


@dataclass(frozen=True)
class Download:
    """A file inside of a page: its name, its text, and what the link to it says."""

    name: str
    text: str
    label: str

    @property
    def address(self) -> str:
        """The file as an address that holds all of it."""
        return f"data:text/csv;charset=utf-8;base64,{_base64(self.text.encode())}"


@dataclass(frozen=True)
class Page:
    """What a page says, from top to bottom."""

    title: str
    lead: str
    sections: Sequence[Section]
    facts: Mapping[str, Any]
    findings: Sequence[Finding] = ()
    download: Download | None = None

    def html(self) -> str:
        """The text of the HTML file."""
        jinja2 = optional_import("jinja2", "plots")
        environment = jinja2.Environment(
            loader=jinja2.PackageLoader("softbins.report"),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.filters["shown"] = shown
        text: str = environment.get_template("page.html").render(
            **vars(self),
            verdict=overall(self.findings) if self.findings else None,
            style=_file("page.css"),
            script=_file("page.js"),
            # Of all scripts that a page might come to hold, a browser runs only this one.
            script_hash=_base64(hashlib.sha256(_file("page.js").encode()).digest()),
            version=softbins.__version__,
        )
        return text


def picture_of(draw: Draw, name: str, caption: str, height: float = SIZE[1]) -> Picture:
    """Draw a figure of so many inches for a page, in the colors of the page."""
    figure = figure_of(draw, height, background="none")
    svg = picture(figure, "svg").decode()
    return Picture(name, inline(svg, name), caption)


def figure_of(draw: Draw, height: float, background: str) -> Figure:
    """Draw a figure that pyplot does not know of, so that it shows and keeps nothing."""
    with style(**{"axes.facecolor": background, "figure.facecolor": background}):
        new_figure = optional_import("matplotlib.figure", "plots").Figure
        figure: Figure = new_figure((SIZE[0], height), layout="constrained")
        draw(figure.subplots())
    return figure


@cache
def _file(name: str) -> str:
    """A file of the templates, without the end of its last line."""
    return (files("softbins.report") / "templates" / name).read_text("utf-8").rstrip("\n")


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
