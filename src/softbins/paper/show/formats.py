"""The formats of a table: terminal, Markdown, LaTeX, CSV and JSON.

LaTeX has a module of its own, and so have CSV and JSON, which are for programs.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from softbins._core.extras import optional_import
from softbins._core.text import aligned
from softbins.paper.show.cell_text import (
    Agreement,
    agreement,
    heading,
    marked_text,
    note_cells,
    printed_text,
    remarks,
)
from softbins.paper.show.entries import csv_text, json_entries
from softbins.paper.show.latex import latex_text
from softbins.paper.show.tables import Cell, Table

AGREEMENT_STYLES: Mapping[Agreement, str] = {
    "agrees": "green",
    "differs": "red",
    "expected": "dim",
    "": "",
}
# Wider than any table, so that its natural width can be measured.
UNLIMITED_WIDTH = 10_000


def render(table: Table, kind: str) -> str:
    """Make a table into text of the given format: terminal, markdown, latex, csv or json."""
    if kind not in FORMATS:
        raise ValueError(f"kind: expected one of {', '.join(FORMATS)}, got {kind!r}")
    return FORMATS[kind](table)


# Terminal


def terminal_text(table: Table) -> str:
    """Colored text as wide as the terminal if stdout is one and rich is installed, else plain."""
    if sys.stdout.isatty():
        with suppress(ImportError):
            return rich_text(table)
    return plain_text(table)


def plain_text(table: Table) -> str:
    """Aligned text, with the chosen parameters and the paper's results below each row."""
    lines = [[*table.label_titles, *table.columns.values()]]
    for row in table.rows:
        cells = [row.cells[column] for column in table.columns]
        lines.append([*row.labels, *(marked_text(table, cell) for cell in cells)])
        below = [*note_cells(row), *(printed_text(cell.published) for cell in cells)]
        if any(below):
            lines.append(below)
    return "\n".join([heading(table), "", aligned(lines), "", *remarks(table)])


def rich_text(table: Table) -> str:
    """Colored text in as many pieces, one below the other, as the width of the terminal needs."""
    text = optional_import("rich.text").Text
    console = optional_import("rich.console").Console(highlight=False)
    with console.capture() as capture:
        console.print(text(heading(table), style="bold"))
        for piece in _cut_to_width(table, console):
            console.print(piece)
        for remark in remarks(table):
            console.print(text(remark, style="dim"))
    return str(capture.get()).rstrip("\n")


def _cut_to_width(table: Table, console: Any) -> list[Any]:
    """The fewest rich tables that fit, each with some of the columns."""
    columns, options = list(table.columns), console.options.update(width=UNLIMITED_WIDTH)
    for n_pieces in range(1, len(columns) + 1):
        size = math.ceil(len(columns) / n_pieces)
        parts = [columns[start : start + size] for start in range(0, len(columns), size)]
        pieces = [_rich_table(table, part) for part in parts]
        widths = [console.measure(piece, options=options).maximum for piece in pieces]
        if max(widths) <= console.width:
            break
    return pieces


def _rich_table(table: Table, columns: Sequence[str]) -> Any:
    text = optional_import("rich.text").Text
    piece = optional_import("rich.table").Table(box=optional_import("rich.box").SIMPLE_HEAD)
    for title in (*table.label_titles, *(table.columns[column] for column in columns)):
        piece.add_column(text(title))
    for row in table.rows:
        notes = zip(row.labels, note_cells(row), strict=True)
        labels = [text.assemble(label, "\n", (note, "dim")) for label, note in notes]
        piece.add_row(*labels, *(_rich_cell(table, row.cells[column]) for column in columns))
    return piece


def _rich_cell(table: Table, cell: Cell) -> Any:
    ours = (marked_text(table, cell), AGREEMENT_STYLES[agreement(table, cell)])
    printed = (printed_text(cell.published), "dim")
    return optional_import("rich.text").Text.assemble(ours, "\n", printed)


# Markdown


def markdown_text(table: Table) -> str:
    """A table in GitHub's Markdown."""
    head = [*table.label_titles, *table.columns.values()]
    title = f"**{_escape_bars(heading(table))}**"
    lines = [title, "", _markdown_line(head), _markdown_line(["---"] * len(head))]
    for row in table.rows:
        notes = zip(row.labels, note_cells(row), strict=True)
        labels = [_two_lines(label, f"({note})" if note else "") for label, note in notes]
        cells = (row.cells[column] for column in table.columns)
        results = [_two_lines(marked_text(table, c), printed_text(c.published)) for c in cells]
        lines.append(_markdown_line([*labels, *results]))
    return "\n".join([*lines, "", *(f"{remark}\n" for remark in remarks(table))]).rstrip("\n")


def _two_lines(top: str, below: str) -> str:
    return "<br>".join(part for part in (top, below) if part)


def _markdown_line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(_escape_bars, cells))} |"


def _escape_bars(text: str) -> str:
    return text.replace("|", r"\|")


FORMATS: Mapping[str, Callable[[Table], str]] = {
    "terminal": terminal_text,
    "markdown": markdown_text,
    "latex": latex_text,
    "csv": csv_text,
    "json": json_entries,
}
