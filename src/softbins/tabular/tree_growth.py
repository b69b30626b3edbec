"""Growing boosted trees, for each held-out fold from the other rows, as tasks of their own."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from softbins._core.warnings import warn_user
from softbins.nn.settings import Progress
from softbins.nn.stopping import Stop
from softbins.tabular.data import TrainingData
from softbins.tabular.defaults import TreeDefaults
from softbins.tabular.folds import Folds
from softbins.tabular.forest import Forest
from softbins.tabular.jobs import number_of_jobs, run_tasks, scattered
from softbins.tabular.tree_bins import Codes

if TYPE_CHECKING:
    from softbins.tabular.binned_boosting import BinnedBoosting

Array = NDArray[np.float64]


@dataclass(frozen=True)
class GrownTrees:
    """A forest, and what its trees predict for rows that are new to them.

    `held_out` are predictions for the judges of all folds in turn, `targets` the true values
    there, and `error` is the root of the mean squared error. `rounds` trees are in each ensemble.
    `gains` is how much the splits of each feature lower the loss.
    """

    forest: Forest
    held_out: Array
    targets: Array
    error: float
    rounds: int
    gains: Array


@dataclass(frozen=True)
class TreeBudget:
    """How much work goes into trees."""

    ensembles: int
    """Boosted ensembles, at least; there is one for each fold in any case."""
    speedup: int
    """How many times as fast trees learn, from as many times fewer rounds."""
    max_seconds: float = math.inf
    """Time after which trees that are not half finished are given up."""
    n_jobs: int | None = None


@dataclass(frozen=True)
class EnsembleTask:
    """One boosted ensemble: the rows that it learns from, those that judge it, how it grows."""

    rows: NDArray[np.int64]
    judges: NDArray[np.int64]
    model: BinnedBoosting
    seconds: float
    min_rounds: int
    """Fewer rounds than these are none."""


class OutOfTimeError(Exception):
    """Trees have stopped growing before their last round."""


def grow_trees(
    data: TrainingData,
    folds: Folds,
    *,
    seed: int,
    budget: TreeBudget,
    defaults: TreeDefaults,
    stop: Stop | None = None,
) -> GrownTrees | None:
    """For each fold one or several ensembles, fitted to all rows but the fold's.

    None, with a warning, if even half of their rounds take longer than they may.

    All ensembles get the number of trees with the least squared error on the judges, so that a
    single row has next to no influence on it.
    """
    import sklearn.ensemble  # noqa: F401 - takes a second, which no tree is to blame for

    stop = Stop() if stop is None else stop
    tasks = _tasks(data, folds, seed, budget, defaults)
    is_hopeless = _least_seconds(tasks, data, budget, defaults) > budget.max_seconds
    done = [] if is_hopeless else _grown(tasks, data, budget, stop)
    if len(done) < len(tasks):
        why = f"max_seconds: trees need more than {budget.max_seconds:.2g} seconds and"
        warn_user(f"{'interrupted: trees' if stop.asked else why} were left out")
        return None
    grown_trees = _chosen_rounds(data, folds, done)
    if folds.training is None:
        return grown_trees
    return replace(grown_trees, forest=_grown_from_all_rows(data, tasks, grown_trees, budget))


def _least_seconds(
    tasks: Sequence[EnsembleTask], data: TrainingData, budget: TreeBudget, defaults: TreeDefaults
) -> float:
    """What half of all rounds take at least, where columns are many: a round is never cut."""
    nodes = sum(task.min_rounds * min(task.model.max_leaf_nodes, len(task.rows)) for task in tasks)
    histograms: float = nodes * data.features.shape[1]
    return defaults.seconds_per_histogram * histograms / number_of_jobs(budget.n_jobs)


def _grown(
    tasks: Sequence[EnsembleTask], data: TrainingData, budget: TreeBudget, stop: Stop
) -> list[tuple[Any, Array]]:
    """The ensembles for which there was time."""
    arrays = data.encoded.codes, data.target, data.weight
    limit = stop.within(budget.max_seconds)
    with scattered(arrays):
        grown = run_tasks(grow_ensemble, arrays, tasks, n_jobs=budget.n_jobs, stop=limit)
    return [part for part in grown if part is not None]


def _grown_from_all_rows(
    data: TrainingData, tasks: Sequence[EnsembleTask], known: GrownTrees, budget: TreeBudget
) -> Forest:
    """A forest of as many rounds, from all rows, where no ensemble has learnt from some of them."""
    codes, y, weight = data.encoded.codes, data.target, data.weight
    assert codes is not None
    models = [task.model for task in tasks[-budget.ensembles :]]
    for model in models:
        model.set_params(loss="squared_error", max_iter=known.rounds)
        model.fit(codes.T, y, None if weight is None else weight / weight.mean())
    return Forest.of(models, known.rounds)


def _tasks(
    data: TrainingData, folds: Folds, seed: int, budget: TreeBudget, defaults: TreeDefaults
) -> list[EnsembleTask]:
    bins = data.encoded.transform.tree_bins
    assert bins is not None
    each = math.ceil(budget.ensembles / len(folds.parts))
    count = each * len(folds.parts)
    rounds_of_jobs = math.ceil(count / number_of_jobs(budget.n_jobs))
    tasks: list[EnsembleTask] = []
    for fold, judges in enumerate(folds.judges):
        rows = folds.rows_for(fold).numpy()
        if data.is_on_disk:  # in random order, so that any of them will do
            rows = rows[:: -(-len(rows) // defaults.max_rows_on_disk)]
        shape = (len(rows), data.features.shape[1])
        for _ in range(each):
            number = len(tasks)
            model = _model(shape, number, seed + number, budget.speedup, defaults)
            model.bins = bins
            seconds = budget.max_seconds / rounds_of_jobs
            half = math.ceil(model.max_iter / 2)
            tasks.append(EnsembleTask(rows, judges.numpy(), model, seconds, half))
    return tasks


def grow_ensemble(
    codes: Codes,
    y: Array,
    weight: Array | None,
    task: EnsembleTask,
    progress: Progress | None,
    stop: Stop,
) -> tuple[Any, Array] | None:
    """An ensemble, and its predictions for the judges after each round: (rounds, n).

    It grows on the numbers of the features' bins, (features, n) in `codes`.
    None if there was too little time for it. All others are asked to stop then.
    """
    if stop.reached:
        return None
    used = task.rows
    weights = None if weight is None else weight[used] / weight[used].mean()
    model = task.model.set_params(loss=stoppable_loss(task, stop.within(task.seconds), weights))
    try:
        model.fit(np.take(codes, used, axis=1).T, y[used], weights)
    except OutOfTimeError:
        del model._in_fit
        if len(model._predictors) < task.min_rounds:
            stop.ask()
            return None
    model.set_params(loss="squared_error")
    model._loss = model._get_loss(weights)  # without the clock, which need not travel
    return model, model.staged_codes(np.take(codes, task.judges, axis=1).T)


def stoppable_loss(task: EnsembleTask, stop: Stop, weight: Array | None) -> Any:
    """Half of the squared error, which raises `OutOfTimeError` in the first round that is too late.

    Or in the eleventh, if so slow ones will not come to half of all.
    """
    from sklearn._loss.loss import HalfSquaredError

    class StoppableSquaredError(HalfSquaredError):
        rounds, start = 0, math.nan

        def gradient(self, *arguments: Any, **options: Any) -> Any:
            self._look_at_the_clock()
            return super().gradient(*arguments, **options)

        def gradient_hessian(self, *arguments: Any, **options: Any) -> Any:
            self._look_at_the_clock()
            return super().gradient_hessian(*arguments, **options)

        def _look_at_the_clock(self) -> None:
            self.start = time.perf_counter() if self.rounds == 0 else self.start
            spent = time.perf_counter() - self.start
            left = task.min_rounds - self.rounds
            hopeless = self.rounds == 10 and spent / 10 * left > stop.seconds_left
            if stop.reached or hopeless:
                raise OutOfTimeError
            self.rounds += 1

    return StoppableSquaredError(sample_weight=weight)


def _chosen_rounds(
    data: TrainingData, folds: Folds, grown: Sequence[tuple[Any, Array]]
) -> GrownTrees:
    """The forest of as many rounds as are best for the judges, of those that all ensembles have."""
    y, weight, each = data.target, data.weight, len(grown) // len(folds.parts)
    fewest = min(len(stages) for _, stages in grown)
    stages = [part[:fewest] for _, part in grown]
    means = [np.mean(stages[i : i + each], axis=0) for i in range(0, len(stages), each)]
    predicted, index = np.concatenate(means, 1), torch.cat(folds.judges).numpy()
    squared = np.square(predicted - y[index])
    errors = np.average(squared, 1, None if weight is None else weight[index])
    best = int(errors.argmin())
    models = [model for model, _ in grown]
    return GrownTrees(
        forest=Forest.of(models, best + 1),
        held_out=predicted[best],
        targets=y[index],
        error=float(np.sqrt(errors[best])),
        rounds=best + 1,
        gains=_gains(models, best + 1),
    )


def _gains(models: Sequence[Any], rounds: int) -> Array:
    """How much the splits of each feature lower the loss in the first `rounds` trees."""
    nodes = np.concatenate([t[0].nodes for model in models for t in model._predictors[:rounds]])
    splits = nodes[nodes["is_leaf"] == 0]
    columns = int(models[0].n_features_in_)
    return np.bincount(splits["feature_idx"], splits["gain"], columns).astype(np.float64)


def _model(
    shape: tuple[int, ...], number: int, seed: int, speedup: int, defaults: TreeDefaults
) -> BinnedBoosting:
    """Ensemble of that number, for a table of that shape."""
    from softbins.tabular.binned_boosting import BinnedBoosting  # which a prediction can do without

    rows, columns = shape
    growth = next(growth for growth in defaults.growth if rows <= growth.max_rows)
    rounds = growth.rounds * defaults.wide_columns // max(columns, defaults.wide_columns)
    return BinnedBoosting(
        learning_rate=growth.learning_rate * speedup,
        max_iter=max(rounds // speedup, 1),
        max_leaf_nodes=growth.max_leaf_nodes,
        min_samples_leaf=growth.min_samples_leaf,
        max_features=defaults.column_share if number % 2 else 1.0,
        early_stopping=False,
        random_state=seed,
    )
