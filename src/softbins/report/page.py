"""One HTML page with a table, figures and facts, which needs no other file.

Styles and figures stand inside of the page, and it requests nothing. The same content gives the
same page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import softbins
from softbins._core.extras import optional_import
from softbins._core.figures import SIZE, Picture, inline, picture, style
from softbins._core.text import shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Draw = Callable[["Axes"], object]


@dataclass(frozen=True)
class Page:
    """What a page says, from top to bottom."""

    title: str
    lead: str
    head: Sequence[str]
    table: Sequence[Sequence[Any]]
    remarks: Sequence[str]
    pictures: Sequence[Picture]
    facts: Mapping[str, Any]

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
        template = environment.get_template("evaluation.html")
        text: str = template.render(**vars(self), version=softbins.__version__)
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
