"""Tables for programs: one flat entry for each cell, as CSV or JSON."""

from __future__ import annotations

import csv
import io
import math
from typing import Any

from softbins._core.text import json_text
from softbins.paper.data.datasets import DATASETS, dataset_title
from softbins.paper.show.tables import METRIC_TITLES, Cell, Row, Table

Entry = dict[str, Any]


def flat_entries(table: Table) -> list[Entry]:
    """One entry for each cell, in the target's own unit, with None for what is missing."""
    return [
        {**_describe_cell(table, row, column), **_cell_values(row.cells[column])}
        for row in table.rows
        for column in table.columns
    ]


def csv_text(table: Table) -> str:
    """The entries of a table as CSV: a header, and one line for each cell."""
    entries, text = flat_entries(table), io.StringIO()
    writer = csv.DictWriter(text, entries[0].keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(entries)
    return text.getvalue().rstrip("\n")


def json_entries(table: Table) -> str:
    """The entries of a table as JSON: a list with one object for each cell."""
    return json_text(flat_entries(table))


def _describe_cell(table: Table, row: Row, column: str) -> Entry:
    """What a cell is about: dataset, method, metric and how they were run."""
    description: Entry = {
        "dataset": table.dataset,
        "method": row.method or None,
        "metric": column,
        "scale": table.scale or None,
        "selection": table.selection or None,
        "split": table.split or None,
        "parameters": row.note or None,
    }
    if table.name == "representations":
        metrics = {title: metric for metric, title in METRIC_TITLES.items()}
        return description | {"metric": metrics[row.labels[0]], "variant": column}
    if table.name == "overview":
        names = {dataset_title(name): name for name in DATASETS}
        return description | {"dataset": names[row.labels[0]], "parameters": None}
    return description


def _cell_values(cell: Cell) -> Entry:
    is_diverged = cell.mean is not None and math.isnan(cell.mean)
    printed = cell.published
    return {
        "mean": None if is_diverged else cell.mean,
        "stderr": cell.stderr,
        "runs": cell.runs,
        "planned": cell.planned,
        "published_mean": None if printed is None else printed.mean,
        "published_stderr": None if printed is None else printed.stderr,
        "agrees": cell.agrees,
    }
