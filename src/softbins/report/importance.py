"""How much each column matters: scikit-learn's permutation importance of columns as they are.

The values of one column are shuffled among the rows, and two things are measured: by how much the
root mean squared error rises, and by how much the width of a row's interval changes, on average
and as a share of the mean width. (The mean width itself may stay the same while every row gets
the width of another.)

A table of many columns is looked through twice: all columns on few rows, then those that mattered
most on more rows and several times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.inspection import permutation_importance

from softbins.report.cells import CellModel, EncodedTable

Array = NDArray[np.float64]
Index = NDArray[np.int64]

MAX_COLUMNS = 16
REPEATS = 4
MAX_ROWS = 500
MIN_ROWS_TO_LOOK_THROUGH, MAX_ROWS_TO_LOOK_THROUGH = 16, 64


@dataclass(frozen=True)
class Importance:
    """How much some columns of a table matter, those that matter most first.

    `error` and `width` have a row for each column with one number for each repeat; `width` is None
    for a model without distributions. `base_error` is the error of the same rows as they are.
    """

    columns: list[int]
    error: Array
    width: Array | None
    base_error: float
    rows: int

    def by_width(self) -> list[int]:
        """Places in `columns` in the order of what matters for the width."""
        assert self.width is not None
        return list(np.argsort(-self.width.mean(1), kind="stable"))


def column_importance(table: EncodedTable, y: Array, coverage: float) -> Importance:
    """The importance of the columns of a table, or of those that seem to matter most."""
    columns = list(range(table.n_columns))
    if len(columns) > MAX_COLUMNS:
        rows = min(MAX_ROWS_TO_LOOK_THROUGH, 2 * table.affordable_predictions // len(columns))
        rows = max(MIN_ROWS_TO_LOOK_THROUGH, rows)
        first = _importance(table, y, columns, rows, repeats=1, coverage=coverage)
        columns = sorted(_most_important(first))
    rows = min(MAX_ROWS, table.affordable_predictions // (len(columns) * REPEATS))
    return _importance(table, y, columns, rows, REPEATS, coverage)


def some_rows(count: int, wanted: int, seed: int = 0) -> Index:
    """At most `wanted` of `count` rows, drawn at random and in their order."""
    return np.sort(np.random.default_rng(seed).permutation(count)[:wanted])


def _most_important(first: Importance) -> list[int]:
    """The columns for a closer look: those that matter for the error, and those for the width."""
    if first.width is None:
        return first.columns[:MAX_COLUMNS]
    by_width = [first.columns[place] for place in first.by_width()]
    turns = [column for pair in zip(first.columns, by_width, strict=True) for column in pair]
    return list(dict.fromkeys(turns))[:MAX_COLUMNS]


def _importance(
    table: EncodedTable,
    y: Array,
    columns: Sequence[int],
    n_rows: int,
    repeats: int,
    coverage: float,
) -> Importance:
    rows = some_rows(len(y), n_rows)
    model = CellModel(table, rows, columns, [coverage])
    base = model.predict(model.cells)
    # What each row is compared with: its target, and the width of its interval as it is.
    known = np.column_stack([y[rows], base[:, -1] - base[:, 1 if table.has_distribution else 0]])
    found = permutation_importance(
        model, model.cells, known, scoring=_scores, n_repeats=repeats, random_state=0
    )
    error = found["error"].importances
    order = np.argsort(-error.mean(1), kind="stable")
    return Importance(
        columns=[columns[place] for place in order],
        error=error[order],
        width=found["width"].importances[order] if table.has_distribution else None,
        base_error=-_scores(model, model.cells, known)["error"],
        rows=len(rows),
    )


def _scores(model: CellModel, cells: Array, known: Array) -> dict[str, float]:
    """Minus the error, and minus the change of the width; larger is better in scikit-learn."""
    outputs, (y, width) = model.predict(cells), known.T
    scores = {"error": -float(np.sqrt(np.square(outputs[:, 0] - y).mean())), "width": 0.0}
    if model.table.has_distribution:
        change = np.abs(outputs[:, -1] - outputs[:, 1] - width).mean()
        scores["width"] = -float(change / max(width.mean(), np.finfo(np.float64).tiny))
    return scores
