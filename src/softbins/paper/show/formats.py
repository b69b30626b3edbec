"""A table for a terminal, Markdown, LaTeX, CSV or JSON.

Where people read, a cell has our mean ± standard error, whether the paper's figure agrees, and
that figure in brackets below.
"""

from __future__ import annotations

import csv
import io
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

from softbins._extras import optional_import
from softbins._text import aligned, json_text
from softbins.paper.data.datasets import original_name
from softbins.paper.show.paper_tables import flat_entries
from softbins.paper.show.published import PrintedNumber
from softbins.paper.show.tables import Cell, Row, Table

MARKS = {True: "✓", False: "✗", None: ""}
STYLES = {True: "green", False: "red", None: ""}
MISSING = "–"
FACTOR = 100  # of the paper's tables
MOST_DECIMALS = 8


def render(table: Table, kind: str) -> str:
    """A table as text: terminal, markdown, latex, csv or json."""
    if kind not in FORMATS:
        raise ValueError(f"kind: expected one of {', '.join(FORMATS)}, got {kind!r}")
    return FORMATS[kind](table)


def heading(table: Table) -> str:
    """What the table is about, in one line."""
    named = {"scale": f"scale {table.scale}", "selection": f"{table.selection} selection"}
    named["split"] = f"{table.split} split"
    said = [words for field, words in named.items() if getattr(table, field)]
    return f"{table.title} ({', '.join(said)})" if said else table.title


def remarks(table: Table) -> list[str]:
    """How to read the table, the number of runs, and what else there is to say."""
    cells = _cells(table)
    said = []
    if table.name != "overview":
        said.append(f"Mean ± standard error{_runs(cells)}, errors in the target's unit.")
    if any(cell.published for cell in cells):
        said.append("In brackets what the paper prints.")
    if any(cell.agrees is not None for cell in cells):
        measure = "equal" if table.name == "overview" else "within two combined standard errors"
        said.append(f"✓ {measure}, ✗ not.")
    if any(cell.mean is None and cell.planned for cell in cells):
        said.append(f"{MISSING} no run is finished.")
    return [" ".join(said), *table.notes]


def _cells(table: Table) -> list[Cell]:
    return [row.cells[column] for row in table.rows for column in table.columns]


def _runs(cells: Sequence[Cell]) -> str:
    """The number of runs once, where all cells have the same; else the cells say it."""
    planned = max(cell.planned for cell in cells)
    counts = {cell.runs for cell in cells if cell.runs}
    if len(counts) > 1:
        return f" over {planned} runs, or n where a cell says so"
    if not counts:
        return ""
    runs = counts.pop()
    share = f"{runs} of {planned}" if runs < planned else f"{runs}"
    return f" over {share} {'run' if planned == 1 else 'runs'}"


def _has_unequal_runs(table: Table) -> bool:
    return len({cell.runs for cell in _cells(table) if cell.runs}) > 1


# Numbers


def our_text(cell: Cell) -> str:
    """Our mean ± standard error."""
    if cell.mean is None:
        return MISSING if cell.planned else ""
    if math.isnan(cell.mean):
        return "diverged"
    return _shown(cell.mean, cell.stderr, _decimals(cell.mean, cell.stderr))


def printed_text(figure: PrintedNumber | None) -> str:
    """The paper's figure in brackets, with no more digits than it prints."""
    if figure is None:
        return ""
    digits = -int(Decimal(figure.printed.partition(" ")[0]).as_tuple().exponent)
    decimals = digits + 2 if digits else 0  # without the factor; counts have none
    if figure.stderr:
        decimals = min(decimals, _decimals(figure.mean, figure.stderr))
    return f"({_shown(figure.mean, figure.stderr, decimals)})"


def _shown(mean: float, stderr: float | None, decimals: int) -> str:
    spread = "" if stderr is None else f" ± {stderr:.{decimals}f}"
    return f"{mean:.{decimals}f}{spread}"


def _decimals(mean: float, stderr: float | None) -> int:
    """Two digits of the standard error, or four of the mean if there is none."""
    if stderr:
        wanted = 1 - math.floor(math.log10(stderr))
    elif float(mean).is_integer():
        wanted = 0
    else:
        wanted = 3 - math.floor(math.log10(abs(mean)))
    return min(max(wanted, 0), MOST_DECIMALS)


def _count(table: Table, cell: Cell) -> str:
    """The number of runs, where the cells have to say it."""
    partial = 0 < cell.runs < cell.planned
    return f" n={cell.runs}" if partial and _has_unequal_runs(table) else ""


def _top(table: Table, cell: Cell) -> str:
    mark = MARKS[cell.agrees]
    return our_text(cell) + _count(table, cell) + (f" {mark}" if mark else "")


# Text


def terminal_text(table: Table) -> str:
    """Coloured and as wide as the terminal, if stdout is one and rich is installed."""
    if sys.stdout.isatty():
        with suppress(ImportError):
            return rich_text(table)
    return plain_text(table)


def plain_text(table: Table) -> str:
    """Aligned text; below each row the chosen parameters and what the paper prints."""
    lines = [[*table.label_titles, *table.columns.values()]]
    for row in table.rows:
        lines.append([*row.labels, *(_top(table, row.cells[c]) for c in table.columns)])
        below = [*_note_cells(row), *(printed_text(row.cells[c].published) for c in table.columns)]
        if any(below):
            lines.append(below)
    return "\n".join([heading(table), "", aligned(lines), "", *remarks(table)])


def _note_cells(row: Row) -> list[str]:
    """The note below the first label."""
    return [row.note, *("" for _ in row.labels[1:])]


def rich_text(table: Table) -> str:
    """With rich: in as many pieces, one below the other, as the width needs."""
    text = optional_import("rich.text").Text
    console = optional_import("rich.console").Console(highlight=False)
    with console.capture() as capture:
        console.print(text(heading(table), style="bold"))
        for piece in _pieces(table, console):
            console.print(piece)
        for remark in remarks(table):
            console.print(text(remark, style="dim"))
    return str(capture.get()).rstrip("\n")


def _pieces(table: Table, console: Any) -> list[Any]:
    columns, endless = list(table.columns), console.options.update(width=10_000)
    for count in range(1, len(columns) + 1):
        size = math.ceil(len(columns) / count)
        parts = [columns[i : i + size] for i in range(0, len(columns), size)]
        pieces = [_piece(table, part) for part in parts]
        if all(
            console.measure(piece, options=endless).maximum <= console.width for piece in pieces
        ):
            break
    return pieces


def _piece(table: Table, columns: Sequence[str]) -> Any:
    """Some of the columns."""
    text = optional_import("rich.text").Text
    piece = optional_import("rich.table").Table(box=optional_import("rich.box").SIMPLE_HEAD)
    for title in (*table.label_titles, *(table.columns[c] for c in columns)):
        piece.add_column(text(title))
    for row in table.rows:
        notes = zip(row.labels, _note_cells(row), strict=True)
        labels = [text.assemble(label, "\n", (note, "dim")) for label, note in notes]
        piece.add_row(*labels, *(_coloured(table, row.cells[c]) for c in columns))
    return piece


def _coloured(table: Table, cell: Cell) -> Any:
    top = (_top(table, cell), STYLES[cell.agrees])
    return optional_import("rich.text").Text.assemble(
        top, "\n", (printed_text(cell.published), "dim")
    )


def markdown_text(table: Table) -> str:
    """A table as GitHub shows it."""
    head = [*table.label_titles, *table.columns.values()]
    lines = [f"**{_piped(heading(table))}**", "", _line(head), _line(["---"] * len(head))]
    for row in table.rows:
        notes = zip(row.labels, _note_cells(row), strict=True)
        labels = [_stacked(label, f"({note})" if note else "") for label, note in notes]
        found = (row.cells[column] for column in table.columns)
        cells = [_stacked(_top(table, cell), printed_text(cell.published)) for cell in found]
        lines.append(_line([*labels, *cells]))
    return "\n".join([*lines, "", *(f"{remark}\n" for remark in remarks(table))]).rstrip("\n")


def _stacked(top: str, below: str) -> str:
    return "<br>".join(part for part in (top, below) if part)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(_piped, cells))} |"


def _piped(text: str) -> str:
    return text.replace("|", r"\|")


# LaTeX

ESCAPES = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "[": "{[}",  # which after a line break would begin its height
    "±": r"$\pm$",
    "–": "--",
    **{special: f"\\{special}" for special in "&%$#_{}"},
}


def latex_text(table: Table) -> str:
    """A `table*` like the paper's, its numbers multiplied by 10^2; it needs no packages."""
    columns = len(table.label_titles) + len(table.columns)
    head = [_escaped(title) for title in (*table.label_titles, *table.columns.values())]
    lines = [_latex_line(head), r"\hline"]
    for row in table.rows:
        lines += _latex_row(table, row)
    parts = [
        r"\begin{table*}[t]",
        r"\centering\footnotesize",
        r"\setlength\tabcolsep{.7pt}",
        rf"\begin{{tabular}}{{{'l' * columns}}}",
        r"\hline",
        *lines,
        r"\hline",
        r"\end{tabular}",
        rf"\caption{{{_caption(table)}}}",
        rf"\label{{{_label(table)}}}",
        r"\end{table*}",
    ]
    return "\n".join(parts)


def _latex_row(table: Table, row: Row) -> list[str]:
    """Our figures, and a line for the chosen parameters and the paper's if there are any."""
    found = [row.cells[column] for column in table.columns]
    lines = [_latex_line([*map(_escaped, row.labels), *(_latex_ours(table, c) for c in found)])]
    below = [_small(_escaped(note)) for note in _note_cells(row)]
    below += [_small(_latex_printed(cell.published)) for cell in found]
    return [*lines, _latex_line(below)] if any(below) else lines


def _latex_line(cells: Sequence[str]) -> str:
    return f"{' & '.join(cells)} \\\\"


def _latex_ours(table: Table, cell: Cell) -> str:
    if cell.mean is None or math.isnan(cell.mean):
        return _escaped(our_text(cell))
    factor, decimals = _latex_numbers(table)
    spread = "" if cell.stderr is None else rf"(\pm {factor * cell.stderr:.{decimals}f})"
    star = r"^{*}" if cell.agrees is False else ""
    beside = (f"${spread}$" if spread else "") + _count(table, cell)
    return f"${factor * cell.mean:.{decimals}f}{star}$ {_small(beside.strip())}".strip()


def _latex_numbers(table: Table) -> tuple[int, int]:
    """The factor and the number of decimals, which are the paper's."""
    if table.name == "overview":
        return 1, 0
    return FACTOR, 2 if original_name(table.dataset) == "bike" else 3


def _latex_printed(figure: PrintedNumber | None) -> str:
    """Digit for digit."""
    return "" if figure is None else "$[" + figure.printed.replace("±", r"\pm") + "]$"


def _small(text: str) -> str:
    return rf"{{\scriptsize {text}}}" if text else ""


def _caption(table: Table) -> str:
    cells = _cells(table)
    said = [f"{_escaped(heading(table))}."]
    if table.name != "overview":
        said.append(
            rf"All numbers are multiplied by $10^2$; means ($\pm$ standard errors){_runs(cells)}."
        )
    if any(cell.published for cell in cells):
        said.append("In brackets what the paper prints.")
    if any(cell.agrees is False for cell in cells):
        measure = "not equal" if table.name == "overview" else "apart by over two standard errors"
        said.append(f"$^{{*}}$ {measure}.")
    return " ".join([*said, *map(_escaped, table.notes)])


def _label(table: Table) -> str:
    parts = (table.name, table.dataset, table.scale, table.selection, table.split)
    return ":".join(["tab", "-".join(part for part in parts if part)])


def _escaped(text: str) -> str:
    """Plain text as LaTeX, with l1 and l2 as the paper writes them."""
    safe = "".join(ESCAPES.get(character, character) for character in text)
    return re.sub(r"\bl([12])\b", r"$\\ell_\1$", safe)


# For programs


def csv_text(table: Table) -> str:
    """One line for each cell."""
    rows, text = flat_entries(table), io.StringIO()
    writer = csv.DictWriter(text, rows[0].keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().rstrip("\n")


def json_entries(table: Table) -> str:
    """One object for each cell."""
    return json_text(flat_entries(table))


FORMATS: Mapping[str, Callable[[Table], str]] = {
    "terminal": terminal_text,
    "markdown": markdown_text,
    "latex": latex_text,
    "csv": csv_text,
    "json": json_entries,
}
