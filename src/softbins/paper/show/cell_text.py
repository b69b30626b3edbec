"""The words and numbers of a table, which are the same in every format that people read.

A cell shows our mean ± standard error, a mark that says whether the paper's result agrees, and the
paper's result in brackets.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Literal

from softbins.paper.show.published import PrintedNumber
from softbins.paper.show.tables import Cell, Row, Table

# Whether a cell agrees with the paper. It is "expected" that runs with fewer epochs differ.
Agreement = Literal["agrees", "differs", "expected", ""]
AGREEMENT_MARKS: dict[Agreement, str] = {"agrees": "✓", "differs": "✗", "expected": "✗", "": ""}
NOT_RUN = "–"
MAX_DECIMALS = 8
# The paper's tables print results times 10^2, so that two decimals are hidden in the factor.
PAPER_FACTOR = 100
PAPER_FACTOR_DECIMALS = 2


def heading(table: Table) -> str:
    """What a table is about, in one line."""
    choices = [
        f"scale {table.scale}" if table.scale else "",
        f"{table.selection} selection" if table.selection else "",
        f"{table.split} split" if table.split else "",
    ]
    said = ", ".join(words for words in choices if words)
    return f"{table.title} ({said})" if said else table.title


def remarks(table: Table) -> list[str]:
    """The sentences below a table: how to read it, the number of runs, and its notes."""
    cells = table.all_cells()
    said = []
    if table.name != "overview":
        said.append(f"Mean ± standard error{run_count_text(cells)}, errors in the target's unit.")
    if any(cell.published for cell in cells):
        said.append("In brackets what the paper prints.")
    if any(cell.agrees is not None for cell in cells):
        measure = "equal" if table.name == "overview" else "within two combined standard errors"
        said.append(f"✓ {measure}, ✗ not.")
    if any(cell.mean is None and cell.planned for cell in cells):
        said.append(f"{NOT_RUN} no run is finished.")
    return [" ".join(said), *table.notes]


def run_count_text(cells: Sequence[Cell]) -> str:
    """The number of runs for all cells, such as " over 3 of 5 runs".

    If the numbers differ, it refers to the cells, which then have them.
    """
    planned = max(cell.planned for cell in cells)
    counts = {cell.runs for cell in cells if cell.runs}
    if len(counts) > 1:
        return f" over {planned} runs, or n where a cell says so"
    if not counts:
        return ""
    runs = counts.pop()
    share = f"{runs} of {planned}" if runs < planned else f"{runs}"
    return f" over {share} {'run' if planned == 1 else 'runs'}"


def cell_run_count(table: Table, cell: Cell) -> str:
    """The number of finished runs of one cell, if not all are finished and the cells differ."""
    counts = {other.runs for other in table.all_cells() if other.runs}
    is_partial = 0 < cell.runs < cell.planned
    return f" n={cell.runs}" if is_partial and len(counts) > 1 else ""


def agreement(table: Table, cell: Cell) -> Agreement:
    """Whether a cell agrees with the paper, and if not, whether that was to be expected."""
    if cell.agrees is None:
        return ""
    if cell.agrees:
        return "agrees"
    return "expected" if table.is_shortened else "differs"


def marked_text(table: Table, cell: Cell) -> str:
    """Our result with the number of runs, where it differs, and the mark of agreement."""
    mark = AGREEMENT_MARKS[agreement(table, cell)]
    return our_text(cell) + cell_run_count(table, cell) + (f" {mark}" if mark else "")


def note_cells(row: Row) -> list[str]:
    """What stands below the labels of a row: the note below the first, nothing below others."""
    return [row.note, *("" for _ in row.labels[1:])]


def our_text(cell: Cell) -> str:
    """Our mean ± standard error, with two digits of the standard error."""
    if cell.mean is None:
        return NOT_RUN if cell.planned else ""
    if math.isnan(cell.mean):
        return "diverged"
    return _number_text(cell.mean, cell.stderr, _count_decimals(cell.mean, cell.stderr))


def printed_text(number: PrintedNumber | None) -> str:
    """The paper's result in brackets, in its own unit, with no more digits than it prints."""
    if number is None:
        return ""
    digits = -int(Decimal(number.printed.partition(" ")[0]).as_tuple().exponent)
    # Counts are printed without decimals and without the factor.
    decimals = digits + PAPER_FACTOR_DECIMALS if digits else 0
    if number.stderr:
        decimals = min(decimals, _count_decimals(number.mean, number.stderr))
    return f"({_number_text(number.mean, number.stderr, decimals)})"


def split_at_point(text: str) -> tuple[str, str]:
    """A result in two parts, of which the first ends where its decimal point is or would be."""
    found = re.match(r"\(?-?\d+", text)
    return ("", text) if found is None else (text[: found.end()], text[found.end() :])


def width_before_point(table: Table, column: str) -> int:
    """The most characters before the decimal point in a column, ours and the paper's."""
    cells = [row.cells[column] for row in table.rows]
    texts = [text for cell in cells for text in (our_text(cell), printed_text(cell.published))]
    return max(len(split_at_point(text)[0]) for text in texts)


def _number_text(mean: float, stderr: float | None, decimals: int) -> str:
    spread = "" if stderr is None else f" ± {stderr:.{decimals}f}"
    return f"{mean:.{decimals}f}{spread}"


def _count_decimals(mean: float, stderr: float | None) -> int:
    """As many decimals as show two digits of the standard error, or four of the mean without it."""
    if stderr:
        wanted = 1 - math.floor(math.log10(stderr))
    elif float(mean).is_integer():
        wanted = 0
    else:
        wanted = 3 - math.floor(math.log10(abs(mean)))
    return min(max(wanted, 0), MAX_DECIMALS)
