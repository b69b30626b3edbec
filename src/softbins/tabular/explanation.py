"""Contributions of columns to predictions, as a table, as text and as a picture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softbins._core.extras import optional_import
from softbins._core.text import aligned, number_text
from softbins.tabular.contribution_picture import Bar, Panel, svg
from softbins.tabular.frames import MAX_SHOWN_CHARACTERS, is_missing

Array = NDArray[np.float64]

# Columns of smaller contributions are shown together.
MAX_SHOWN_COLUMNS = 12
LONGEST_BAR = 30
MAX_ROWS_OF_NOTEBOOK = 3


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """What each column adds to predicted means, and to the widths of intervals.

    `explain` of an estimator makes it. For every row, `base_mean` and the row of `mean` add up to
    the predicted mean; the same holds for the width. The parameters are its attributes as well.

    Parameters
    ----------
    columns : list of str
        The names of the d columns.
    values : array of shape (n, d)
        What the n rows have there.
    coverage : float
        Probability of the intervals.
    base_mean : float
        The mean that is predicted on average over the background.
    mean : array of shape (n, d)
        What each column adds to it.
    base_width : float or None
        The width on average; None for a model that predicts numbers only.
    width : array of shape (n, d) or None
        What each column adds to it.

    Examples
    --------
    >>> import numpy as np
    >>> from softbins import Explanation
    >>> town = Explanation(["size", "town"], np.array([[80, "Ulm"]], dtype=object), 0.9,
    ...     200.0, np.array([[-12.0, 30.0]]), 50.0, np.array([[0.0, -6.0]]))
    >>> print(town.to_text())
    mean 218: 200 on average, plus
    town = Ulm  +30  ++++++++++++++++++++++++++++++
    size = 80   -12  ------------
    width of the 90% interval 44: 50 on average, plus
    town = Ulm  -6  ------------------------------
    size = 80   +0
    """

    columns: list[str]
    values: NDArray[Any]
    coverage: float
    base_mean: float
    mean: Array
    base_width: float | None = None
    width: Array | None = None

    def to_frame(self) -> Any:
        """List all contributions.

        Returns
        -------
        pandas.DataFrame
            A line for each row and column: `row`, `column`, `value`, `mean` and, if there are
            intervals, `width`.
        """
        rows, columns = self.mean.shape
        parts = {
            "row": np.repeat(np.arange(rows), columns),
            "column": np.tile(np.array(self.columns, dtype=object), rows),
            "value": self.values.reshape(-1),
            "mean": self.mean.reshape(-1),
        }
        if self.width is not None:
            parts["width"] = self.width.reshape(-1)
        return optional_import("pandas").DataFrame(parts)

    def to_text(self, row: int = 0) -> str:
        """Explain one row in lines of text, with bars, the largest contributions first.

        Parameters
        ----------
        row : int, default=0
            Which of the rows that were explained.

        Returns
        -------
        str
            Several lines, for a terminal.
        """
        return "\n".join(_text_of(panel) for panel in self._panels(row))

    def to_svg(self, row: int = 0) -> str:
        """Draw one row as bars, the largest contributions first.

        Parameters
        ----------
        row : int, default=0
            Which of the rows that were explained.

        Returns
        -------
        str
            The text of an SVG file, which has the text's color where it stands in a page.
        """
        return svg(list(self._panels(row)))

    def __repr__(self) -> str:
        rows, columns = self.mean.shape
        return f"Explanation({rows} rows, {columns} columns)"

    def _repr_html_(self) -> str:
        shown = [self.to_svg(row) for row in range(min(len(self.mean), MAX_ROWS_OF_NOTEBOOK))]
        left = len(self.mean) - len(shown)
        more = f"<div>... and {left} more</div>" if left else ""
        return f"<div>{''.join(shown)}{more}</div>"

    def _panels(self, row: int) -> Iterator[Panel]:
        if not 0 <= row < len(self.mean):
            raise ValueError(f"row: need a number from 0 to {len(self.mean) - 1}, got {row}")
        yield self._panel("mean", row, self.base_mean, self.mean[row])
        if self.base_width is not None and self.width is not None:
            what = f"width of the {self.coverage:g} interval"
            if float(f"{100 * self.coverage:.6g}").is_integer():
                what = f"width of the {self.coverage:.0%} interval"
            yield self._panel(what, row, self.base_width, self.width[row])

    def _panel(self, what: str, row: int, base: float, values: Array) -> Panel:
        order = np.argsort(-np.abs(values), kind="stable")
        first, others = order[:MAX_SHOWN_COLUMNS], order[MAX_SHOWN_COLUMNS:]
        bars = [Bar(self._cell(row, column), float(values[column])) for column in first]
        if len(others):
            bars.append(Bar(f"{len(others)} others", float(values[others].sum())))
        total = base + float(values.sum())
        return Panel(f"{what} {number_text(total)}: {number_text(base)} on average, plus", bars)

    def _cell(self, row: int, column: int) -> str:
        value = self.values[row, column]
        shown = number_text(float(value)) if isinstance(value, (float, np.floating)) else str(value)
        text = "missing" if is_missing(value) else shown.replace("\n", " ")
        return f"{self.columns[column]} = {text}"[:MAX_SHOWN_CHARACTERS]


def _text_of(panel: Panel) -> str:
    largest = max(abs(bar.value) for bar in panel.bars) or 1.0
    lines = []
    for bar in panel.bars:
        length = round(LONGEST_BAR * abs(bar.value) / largest)
        sign = "+" if bar.value >= 0 else "-"
        lines.append([bar.name, f"{sign}{number_text(abs(bar.value))}", sign * length])
    return f"{panel.title}\n{aligned(lines)}"
