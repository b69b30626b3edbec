"""How `HistogramRegressor` is fitted to a table.

Folds are drawn, trees grown for each of them, bins and blur chosen by the trees' errors, a Gaussian
process fitted if rows are few, networks trained, a sharp head put on them, everything aggregated as
held-out rows advise, and at last the networks see all rows.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softbins._core.memory import release_freed_memory
from softbins.nn.batches import EVALUATION_CHUNK
from softbins.nn.embedded import EmbeddedMLP
from softbins.nn.groups import GroupTask, HeadTask, SharedTable, TrainedEnsemble
from softbins.nn.head import Head
from softbins.nn.objectives import Objective
from softbins.nn.settings import Settings
from softbins.nn.stack import StackedMLP
from softbins.nn.stopping import Stop
from softbins.nn.trainer import HistoryRow
from softbins.tabular.aggregate import Aggregator, Outputs
from softbins.tabular.choose_objective import choose_objective
from softbins.tabular.columns import Columns
from softbins.tabular.data import TrainingData
from softbins.tabular.device import chosen_device
from softbins.tabular.ensemble import (
    Workshop,
    group_tasks,
    member_groups,
    train_further,
    train_members,
    warn_of_cut,
)
from softbins.tabular.folds import Folds
from softbins.tabular.forest import Forest
from softbins.tabular.gaussian_process import GaussianProcess
from softbins.tabular.gaussian_process_fit import FittedGaussianProcess, fit_gaussian_process
from softbins.tabular.held_out_scores import held_out_scores
from softbins.tabular.hyperparameters import Hyperparameters
from softbins.tabular.jobs import run_in_threads, scattered, threads_for
from softbins.tabular.memory import check_size
from softbins.tabular.networks import choose_embedded, make_network, network_size
from softbins.tabular.objectives import TwoHeadObjective, learnt_part
from softbins.tabular.scaling import Scaling
from softbins.tabular.target_statistics import add_target_statistics
from softbins.tabular.targets import float_targets, predict_constant
from softbins.tabular.tree_growth import GrownTrees, TreeBudget, grow_trees
from softbins.tabular.watch import Watch


@dataclass(frozen=True)
class FittedTable:
    """What a fit finds out."""

    network: EmbeddedMLP
    objective: Objective
    columns: Columns
    """Those of the table, and what targets say of their categories."""
    scaling: Scaling
    aggregator: Aggregator | None
    forest: Forest | None
    gaussian_process: GaussianProcess | None
    history: list[HistoryRow]
    n_epochs: int
    scores: dict[str, float]
    """Errors on the rows that were held out, by name."""


def fit_table(
    data: TrainingData, chosen: Hyperparameters, seed: int, watch: Watch | None = None
) -> FittedTable:
    """Fit networks, and partners that are wanted, and calibrate them where rows are left out."""
    check_size(network_size(data, chosen, chosen.members), chosen.max_seconds)
    watch = Watch() if watch is None else watch
    folds = draw_folds(data, chosen, seed) if chosen.early_stopping else None
    if data.is_constant:
        return _fit_constant(data, chosen, seed)
    if folds is not None:
        data = learn_from_targets(data, chosen, folds, seed, watch.stop)
    trees = None if folds is None else grow(data, chosen, folds, seed, watch.stop)
    release_freed_memory(data.features.nbytes)
    objective = choose_objective(data, chosen, trees)
    table = _table(data, chosen, objective)
    process = None if folds is None else fit_process(data, chosen, table.x, folds, watch.stop)
    workshop = Workshop(table, chosen.n_jobs, watch)
    with scattered(table):
        embedded = choose_embedded(data, chosen, trees)
        ensemble, folds, task = _train(workshop, data, objective, chosen, embedded, folds, seed)
        release_freed_memory(data.features.nbytes)
        network, aggregator, scores = ensemble.network, None, dict[str, float]()
        if folds is not None:
            judged = _for_prediction(copy.deepcopy(network), ensemble.head, torch.float64)
            x = torch.from_numpy(table.x)
            partners = held_out_means(trees, process)
            aggregator, scores = _aggregate(judged, objective, data, x, folds, partners, chosen)
            network = _refit_on_all_rows(workshop, ensemble, task, folds, chosen)
    warn_of_cut(ensemble, chosen.settings.epochs, watch.stop)
    used = {} if aggregator is None else aggregator.shares
    return FittedTable(
        network=_for_prediction(network, ensemble.head, data.scaling.precision),
        objective=objective,
        columns=data.columns,
        scaling=data.scaling,
        aggregator=aggregator,
        forest=trees.forest if trees is not None and "trees" in used else None,
        gaussian_process=process.process if process and "gaussian_process" in used else None,
        history=ensemble.history,
        n_epochs=ensemble.epoch,
        scores=scores,
    )


def _fit_constant(data: TrainingData, chosen: Hyperparameters, seed: int) -> FittedTable:
    """A target that never changes needs no training."""
    objective = choose_objective(data, chosen, None)
    embedded, seeds = choose_embedded(data, chosen, None), [seed] * chosen.members
    network = make_network(data.columns, chosen, embedded, objective.outputs, seeds)
    predict_constant(network, objective, float_targets(data.target[:1]))
    network = _for_prediction(network, None, data.scaling.precision)
    return FittedTable(
        network=network,
        objective=objective,
        columns=data.columns,
        scaling=data.scaling,
        aggregator=None,
        forest=None,
        gaussian_process=None,
        history=[],
        n_epochs=0,
        scores={},
    )


# What is chosen before training


def draw_folds(data: TrainingData, chosen: Hyperparameters, seed: int) -> Folds:
    """The rows that members leave out."""
    return Folds.draw(data, chosen.members, seed, chosen.defaults.folds)


def learn_from_targets(
    data: TrainingData, chosen: Hyperparameters, folds: Folds, seed: int, stop: Stop
) -> TrainingData:
    """The table with what targets say of categories, if columns have many."""
    return add_target_statistics(
        data,
        folds,
        seed=seed,
        defaults=chosen.defaults.statistics,
        scaling=chosen.scaling,
        n_jobs=chosen.n_jobs,
        stop=stop,
    )


def grow(
    data: TrainingData, chosen: Hyperparameters, folds: Folds, seed: int, stop: Stop
) -> GrownTrees | None:
    """Boosted trees, if they are wanted."""
    if not chosen.trees:
        return None
    budget = TreeBudget(
        chosen.budget.tree_ensembles,
        chosen.tree_speedup,
        chosen.defaults.times.trees * stop.seconds_left,
        chosen.n_jobs,
    )
    how = chosen.defaults.trees
    return grow_trees(data, folds, seed=seed, budget=budget, defaults=how, stop=stop)


def fit_process(
    data: TrainingData,
    chosen: Hyperparameters,
    x: NDArray[np.generic],
    folds: Folds,
    stop: Stop,
) -> FittedGaussianProcess | None:
    """A Gaussian process for scaled features, if it is wanted and the table is not too large."""
    defaults = chosen.defaults.gaussian_process
    is_small = data.n_rows <= defaults.max_rows and x.shape[1] <= defaults.max_inputs
    if not chosen.gaussian_process or not is_small:
        return None
    part = stop.within(chosen.defaults.times.gaussian_process * stop.seconds_left)
    return fit_gaussian_process(x.astype(np.float64), data, folds, defaults, part)


def held_out_means(
    trees: GrownTrees | None, process: FittedGaussianProcess | None
) -> dict[str, NDArray[np.float64]]:
    """What partners predict for the judges of all folds in turn, by their names."""
    found = {"trees": trees, "gaussian_process": process}
    return {name: partner.held_out for name, partner in found.items() if partner is not None}


# Networks


def _table(data: TrainingData, chosen: Hyperparameters, objective: Objective) -> SharedTable:
    """What all networks learn from."""
    y = float_targets(data.target)
    return SharedTable.of(data.features, y, data.weight, learnt_part(objective), chosen.settings)


def _train(
    workshop: Workshop,
    data: TrainingData,
    objective: Objective,
    chosen: Hyperparameters,
    embedded: Sequence[int],
    folds: Folds | None,
    seed: int,
) -> tuple[TrainedEnsemble, Folds | None, GroupTask]:
    """The networks and their heads, the folds of those that are left, and what they had to do."""
    learnt, stopping_rows = learnt_part(objective), chosen.defaults.folds.max_stopping_rows
    head = None
    if isinstance(objective, TwoHeadObjective):
        head = HeadTask(objective.sharp, chosen.defaults.training.head)
    task = GroupTask(
        members=range(chosen.members),
        seeds=[seed + member for member in range(chosen.members)],
        rows=_training_rows(data, chosen, folds),
        validation=None if folds is None else folds.stopping_rows(stopping_rows),
        objective=learnt,
        settings=chosen.settings,
        make_network=partial(make_network, data.columns, chosen, embedded, learnt.outputs),
        device=str(chosen_device(chosen.device)),
        head=head,
    )
    tasks = group_tasks(task, member_groups(chosen.members, chosen.group_size, folds))
    # Pruning keeps a single fold, which says little of the others unless rows are in random order.
    prune = chosen.prune_members and data.order.is_random
    rule = chosen.defaults.training.pruning if prune else None
    share = chosen.defaults.times.networks
    return *train_members(workshop, tasks, folds, rule, share), task


def _training_rows(
    data: TrainingData, chosen: Hyperparameters, folds: Folds | None
) -> list[Tensor]:
    """The rows that each member learns from."""
    if folds is not None:
        return folds.training_rows(chosen.settings.batch_size)
    return [torch.arange(data.n_rows)] * chosen.members


def _refit_on_all_rows(
    workshop: Workshop,
    ensemble: TrainedEnsemble,
    task: GroupTask,
    folds: Folds,
    chosen: Hyperparameters,
) -> StackedMLP:
    """Small steps on all rows: a member that its fold has judged may learn from it, too."""
    settings = refit_settings(ensemble, chosen)
    if settings is None or workshop.watch.stop.reached:
        return ensemble.network
    groups = member_groups(ensemble.network.members, chosen.group_size, folds)
    return train_further(workshop, ensemble, task, groups, settings)


def refit_settings(ensemble: TrainedEnsemble, chosen: Hyperparameters) -> Settings | None:
    """A share of the epochs that were best, or None if that is nothing."""
    if chosen.refit.epochs == 0:
        return None
    best = ensemble.best_epoch.double().mean().item()
    return replace(
        chosen.settings,
        epochs=max(1, math.ceil(chosen.refit.epochs * best)),
        learning_rate=chosen.refit.rate * chosen.settings.learning_rate,
        cycles=None,
        patience=None,
        evaluate=(),
    )


def _for_prediction(network: StackedMLP, head: Head | None, precision: torch.dtype) -> EmbeddedMLP:
    """The whole network, with its head if it has one, where predictions are made."""
    if head is not None:
        network.add_outputs(*head)
    assert isinstance(network, EmbeddedMLP)
    return network.to("cpu", precision).eval()


# Aggregation


def _aggregate(
    network: EmbeddedMLP,
    objective: Objective,
    data: TrainingData,
    x: Tensor,
    folds: Folds,
    partners: dict[str, NDArray[np.float64]],
    chosen: Hyperparameters,
) -> tuple[Aggregator, dict[str, float]]:
    """An aggregator that has learnt from what members say of the rows they have left out.

    And the errors on these rows.
    """
    index = torch.cat(folds.judges)
    # Where members were pruned, the first fold is left, whose rows partners predicted first.
    predicted = {name: means[: len(index)] for name, means in partners.items()}
    threads = threads_for(chosen.n_jobs)
    outputs = Outputs(held_out_outputs(network, x.cpu(), folds, threads=threads), predicted)
    target = torch.from_numpy(data.target)[index]
    weight = None if data.weight is None else torch.from_numpy(data.weight)[index]
    aggregator = Aggregator.fit(
        objective,
        outputs,
        target,
        weight,
        defaults=chosen.defaults,
        max_bin_splits=chosen.max_bin_splits,
        ensemble_size=network.members,
        rows_per_fold=sum(map(len, folds.parts)) / len(folds.parts),
        is_lattice=chosen.support(data.target).step is not None,
        groups=None if data.order.groups is None else data.order.groups[index.numpy()],
        threads=threads,
    )
    return aggregator, held_out_scores(aggregator, outputs, target, weight, threads)


def held_out_outputs(
    network: EmbeddedMLP,
    x: Tensor,
    folds: Folds,
    chunk: int = EVALUATION_CHUNK,
    threads: int = 1,
) -> Tensor:
    """Outputs (members for each fold, n, outputs) for the judges of all folds in turn.

    Each row's outputs are those of the members that have left it out. The network computes for
    `chunk` rows of each fold at a time.
    """
    judges = folds.judges
    longest = max(map(len, judges))
    padded = [torch.cat([part, part.new_zeros(longest - len(part))]) for part in judges]
    index = torch.stack([padded[fold] for fold in folds.fold_of_member])

    @torch.no_grad()
    def outputs_of(part: Tensor) -> Tensor:
        found: Tensor = network(x[part].double())
        return found

    outputs = torch.cat(run_in_threads(outputs_of, index.split(chunk, 1), threads), 1)
    teams = [outputs[folds.members_of(f), : len(part)] for f, part in enumerate(judges)]
    return torch.cat(teams, 1)
