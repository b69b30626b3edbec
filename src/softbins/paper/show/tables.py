"""What tables are made of: cells with our figure, its spread, and the paper's."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from softbins.paper.run.plan import Run
from softbins.paper.run.store import Store
from softbins.paper.show.published import PrintedNumber, agrees

METRICS = ("train_objective", "train_mae", "train_rmse", "test_objective", "test_mae", "test_rmse")
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
    """One figure in the target's own unit: ours over the finished runs, and the paper's.

    `mean` is None without finished runs, and NaN if one of them diverged.
    """

    mean: float | None
    stderr: float | None
    runs: int
    planned: int
    published: PrintedNumber | None = None

    @property
    def agrees(self) -> bool | None:
        """Within two combined standard errors; None where there is nothing to compare."""
        if self.mean is None or self.published is None or math.isnan(self.mean):
            return None
        return agrees(self.mean, self.stderr, self.published)


@dataclass(frozen=True)
class Row:
    """A row of a table: its labels, one for each label column, and a cell for each metric.

    `note` says which meta-parameters were chosen.
    """

    labels: tuple[str, ...]
    cells: Mapping[str, Cell]
    method: str = ""
    note: str = ""


@dataclass(frozen=True)
class Table:
    """A table of the paper with our figures in it.

    `columns` are the keys of the cells with their titles; `label_titles` head the labels.
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


def mean_cell(
    runs: Sequence[Run], metric: str, store: Store, published: PrintedNumber | None = None
) -> Cell:
    """The mean and standard error of a score over the runs that are finished."""
    records = [record for record in map(store.read, runs) if record is not None]
    values = [record["scores"].get(metric) for record in records]
    finite = [math.nan if value is None else float(value) for value in values]
    mean = statistics.fmean(finite) if finite else None
    return Cell(mean, _stderr(finite), len(finite), len(runs), published)


def _stderr(values: Sequence[float]) -> float | None:
    if len(values) < 2 or any(math.isnan(value) for value in values):
        return None
    return statistics.stdev(values) / math.sqrt(len(values))
