"""How predictions depend on one column: scikit-learn's partial dependence, with bands.

Every row is given the same value of the column, and the predictions of all rows are averaged: their
means, and the ends of their 50% and 90% intervals. So a band says how unsure the model is of a row
on average, and not how much rows differ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.inspection import partial_dependence

from softbins.report.cells import CellModel, EncodedTable
from softbins.report.importance import some_rows
from softbins.report.table_values import TableColumn

Array = NDArray[np.float64]

MAX_ROWS, MIN_ROWS = 200, 20
# Of what is affordable, the share for one point of one column.
SHARE_OF_POINT = 1 / 150
MAX_POINTS = 10
MAX_CATEGORIES = 8
COVERAGES = (0.5, 0.9)


@dataclass(frozen=True)
class Dependence:
    """Averaged predictions for values of a column.

    `values` are numbers (m,), or None for categories, which `labels` names. `mean` is (m,), and
    `bands` (4, m) has the averaged low and high ends of 50% intervals, then of 90% intervals; None
    for a model without distributions.
    """

    column: TableColumn
    values: Array | None
    labels: list[str]
    mean: Array
    bands: Array | None
    rows: int


def column_dependence(table: EncodedTable, column: TableColumn) -> Dependence | None:
    """How predictions depend on a column; None if it has only one value, or none."""
    points = column.places(MAX_POINTS, MAX_CATEGORIES)
    if len(points) < 2:
        return None
    wanted = min(MAX_ROWS, int(SHARE_OF_POINT * table.affordable_predictions))
    rows = some_rows(len(table.features), max(MIN_ROWS, wanted))
    model = CellModel(table, rows, [column.index], COVERAGES)
    # scikit-learn takes the values that occur in the column for its grid: here the points.
    cells = np.resize(np.sort(points), len(rows)).astype(np.float64)[:, None]
    found = partial_dependence(model, cells, [0], categorical_features=[0], kind="average")
    places = found["grid_values"][0].astype(int)
    order = np.argsort([points.index(place) for place in places])
    average = found["average"][:, order]
    return Dependence(
        column=column,
        values=None if column.numbers is None else column.numbers[points],
        labels=[column.labels[place] for place in points],
        mean=average[0],
        bands=average[1:] if table.has_distribution else None,
        rows=len(rows),
    )
