"""What a table consists of: rows of cells, each with our result beside the paper's."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from softbins.paper.run.plan import Run
from softbins.paper.run.store import Store
from softbins.paper.show.published import PrintedNumber, agrees

METRIC_TITLES = {
    "train_objective": "Train objective",
    "train_mae": "Train MAE",
    "train_rmse": "Train RMSE",
    "test_objective": "Test objective",
    "test_mae": "Test MAE",
    "test_rmse": "Test RMSE",
}


@dataclass(frozen=True)
class Cell:
    """One result in the target's own unit: ours over the finished runs, and the paper's.

    `mean` is None without finished runs, and NaN if one of them diverged. `stderr` is None with
    fewer than two runs. `runs` of the `planned` runs are finished.
    """

    mean: float | None
    stderr: float | None
    runs: int
    planned: int
    published: PrintedNumber | None = None

    @property
    def agrees(self) -> bool | None:
        """Whether ours is within two combined standard errors of the paper's.

        None where there is nothing to compare.
        """
        if self.mean is None or self.published is None or math.isnan(self.mean):
            return None
        return agrees(self.mean, self.stderr, self.published)


@dataclass(frozen=True)
class Row:
    """A row of a table: one label for each label column, and one cell for each other column.

    `method` names the method that the row is about, and `note` the parameters that were chosen.
    """

    labels: tuple[str, ...]
    cells: Mapping[str, Cell]
    method: str = ""
    note: str = ""


@dataclass(frozen=True)
class Table:
    """A table of the paper with our results in it.

    `columns` maps the keys of the cells to the titles of their columns, `label_titles` are the
    titles of the label columns. `notes` are sentences to print below the table. `is_shortened` says
    that the runs had fewer epochs than the paper's, so that differences are to be expected.
    """

    name: str
    title: str
    dataset: str
    scale: str
    label_titles: tuple[str, ...]
    columns: Mapping[str, str]
    rows: tuple[Row, ...]
    selection: str = ""
    split: str = ""
    notes: tuple[str, ...] = field(default=())
    is_shortened: bool = False

    def all_cells(self) -> list[Cell]:
        """The cells of all rows and columns, row by row."""
        return [row.cells[column] for row in self.rows for column in self.columns]


def mean_cell(
    runs: Sequence[Run], metric: str, store: Store, published: PrintedNumber | None = None
) -> Cell:
    """The mean and the standard error of a score over those of the runs that are finished."""
    records = [record for record in map(store.read, runs) if record is not None]
    scores = [record["scores"].get(metric) for record in records]
    values = [math.nan if score is None else float(score) for score in scores]
    mean = statistics.fmean(values) if values else None
    return Cell(mean, standard_error(values), len(values), len(runs), published)


def standard_error(values: Sequence[float]) -> float | None:
    """The standard error of the mean; None for a single value and if one is not finite."""
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return None
    return statistics.stdev(values) / math.sqrt(len(values))
