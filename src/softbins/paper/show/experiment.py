"""One experiment: a dataset at a scale, with the store that has its records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from softbins.paper.run.plan import Run, Scale, curve_runs, method_runs
from softbins.paper.run.store import Store
from softbins.paper.show.tables import Cell, mean_cell

# Lists of values after every epoch, by name: the epochs, errors, and norms of the gradient.
History = Mapping[str, Any]


@dataclass(frozen=True)
class Experiment:
    """A dataset, a scale and a store, which belong together wherever results are shown."""

    dataset: str
    scale: Scale
    store: Store

    def method_runs(self, method: str) -> list[Run]:
        """The runs of a method as the paper trains it."""
        return method_runs(self.dataset, method, self.scale)

    def mean_error(self, runs: Sequence[Run], metric: str = "test_mae") -> Cell:
        """The mean and standard error of a score over those of the runs that are finished."""
        return mean_cell(runs, metric, self.store)

    def histories(self, method: str) -> list[History]:
        """The errors and gradient norms of a method after every epoch, for each finished run."""
        runs = curve_runs(self.dataset, method, self.scale)
        records = map(self.store.read, runs)
        return [record["history"] for record in records if record is not None]
