"""Tables as LaTeX, in the layout of the paper's: results times 10^2, and no packages needed."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from softbins.paper.data.datasets import original_name
from softbins.paper.show.cell_text import (
    PAPER_FACTOR,
    cell_run_count,
    heading,
    note_cells,
    our_text,
    run_count_text,
)
from softbins.paper.show.published import PrintedNumber
from softbins.paper.show.tables import Cell, Row, Table

ESCAPES = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    # After a line break, a bare bracket would begin the height of the break.
    "[": "{[}",
    "±": r"$\pm$",
    "–": "--",
    **{special: f"\\{special}" for special in "&%$#_{}"},
}


def latex_text(table: Table) -> str:
    """A table as a `table*` environment with caption and label."""
    n_columns = len(table.label_titles) + len(table.columns)
    head = [_escape(title) for title in (*table.label_titles, *table.columns.values())]
    lines = [_join(head), r"\hline"]
    for row in table.rows:
        lines += _row_lines(table, row)
    parts = [
        r"\begin{table*}[t]",
        r"\centering\footnotesize",
        r"\setlength\tabcolsep{.7pt}",
        rf"\begin{{tabular}}{{{'l' * n_columns}}}",
        r"\hline",
        *lines,
        r"\hline",
        r"\end{tabular}",
        rf"\caption{{{_caption(table)}}}",
        rf"\label{{{_label(table)}}}",
        r"\end{table*}",
    ]
    return "\n".join(parts)


def _row_lines(table: Table, row: Row) -> list[str]:
    """A line with our results, and one with the chosen parameters and the paper's, if any."""
    cells = [row.cells[column] for column in table.columns]
    ours = [*map(_escape, row.labels), *(_our_cell(table, cell) for cell in cells)]
    below = [_small(_escape(note)) for note in note_cells(row)]
    below += [_small(_printed_cell(cell.published)) for cell in cells]
    return [_join(ours), _join(below)] if any(below) else [_join(ours)]


def _join(cells: Sequence[str]) -> str:
    return f"{' & '.join(cells)} \\\\"


def _our_cell(table: Table, cell: Cell) -> str:
    if cell.mean is None or math.isnan(cell.mean):
        return _escape(our_text(cell))
    factor, decimals = _factor_and_decimals(table)
    spread = "" if cell.stderr is None else rf"(\pm {factor * cell.stderr:.{decimals}f})"
    star = r"^{*}" if cell.agrees is False else ""
    beside = (f"${spread}$" if spread else "") + cell_run_count(table, cell)
    return f"${factor * cell.mean:.{decimals}f}{star}$ {_small(beside.strip())}".strip()


def _factor_and_decimals(table: Table) -> tuple[int, int]:
    """The factor and the number of decimals that the paper uses for this table."""
    if table.name == "overview":
        return 1, 0
    return PAPER_FACTOR, 2 if original_name(table.dataset) == "bike" else 3


def _printed_cell(number: PrintedNumber | None) -> str:
    """The paper's result, digit for digit as it is printed."""
    return "" if number is None else "$[" + number.printed.replace("±", r"\pm") + "]$"


def _small(text: str) -> str:
    return rf"{{\scriptsize {text}}}" if text else ""


def _caption(table: Table) -> str:
    cells = table.all_cells()
    said = [f"{_escape(heading(table))}."]
    if table.name != "overview":
        runs = run_count_text(cells)
        said.append(rf"All numbers are multiplied by $10^2$; means ($\pm$ standard errors){runs}.")
    if any(cell.published for cell in cells):
        said.append("In brackets what the paper prints.")
    if any(cell.agrees is False for cell in cells):
        measure = "not equal" if table.name == "overview" else "apart by over two standard errors"
        said.append(f"$^{{*}}$ {measure}.")
    return " ".join([*said, *map(_escape, table.notes)])


def _label(table: Table) -> str:
    parts = (table.name, table.dataset, table.scale, table.selection, table.split)
    return ":".join(["tab", "-".join(part for part in parts if part)])


def _escape(text: str) -> str:
    """Plain text as LaTeX, with l1 and l2 as the paper writes them."""
    safe = "".join(ESCAPES.get(character, character) for character in text)
    return re.sub(r"\bl([12])\b", r"$\\ell_\1$", safe)
