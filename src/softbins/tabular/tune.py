"""Choosing blur, weight decay, bins and sigma for a table: candidates are members of one ensemble.

The paper leaves "meta-parameter optimization strategies" open (Section 6). Here every candidate
changes one setting of a regressor, on the same folds for all, so that their errors compare. The
histograms of different bins and sigmas are output layers for the best candidate's hidden units,
and cost next to nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softbins import scores
from softbins.bins import Bins
from softbins.calibration import Calibrator
from softbins.nn.groups import GroupTask, SharedTable, TrainedEnsemble, joined, some_members
from softbins.nn.head import fit_head
from softbins.nn.objectives import HistogramObjective, Objective
from softbins.nn.settings import Progress, Settings
from softbins.nn.stack import StackedMLP
from softbins.nn.stopping import Stop
from softbins.tabular.auto_bins import blurred_sigma, covering_bins
from softbins.tabular.choose_objective import choose_bins, choose_blur, choose_objective
from softbins.tabular.data import TrainingData
from softbins.tabular.defaults import TuningDefaults
from softbins.tabular.ensemble import Workshop, group_tasks, member_groups
from softbins.tabular.fit import (
    grow,
    learn_from_targets,
)
from softbins.tabular.folds import Folds
from softbins.tabular.hyperparameters import Hyperparameters
from softbins.tabular.jobs import run_tasks, scattered
from softbins.tabular.memory import check_size
from softbins.tabular.networks import choose_embedded, make_network, network_size
from softbins.tabular.objectives import histogram_objective
from softbins.tabular.targets import float_targets
from softbins.tabular.tree_growth import GrownTrees
from softbins.tabular.watch import Watch

Array = NDArray[Any]
Tried = dict[str, float]


@dataclass(frozen=True)
class Candidate:
    """A blur as a share of the targets' range, None for no blurred targets, and a weight decay."""

    blur: float | None
    weight_decay: float


@dataclass(frozen=True)
class Tuned:
    """The chosen parameters, and the held-out error of everything that was tried."""

    parameters: dict[str, Any]
    tried: list[Tried]


def tune_table(data: TrainingData, chosen: Hyperparameters, seed: int, watch: Watch) -> Tuned:
    """Train all candidates, and take the best value of each setting."""
    defaults = chosen.defaults.tuning
    most = 1 + len(defaults.blur_factors) + len(defaults.weight_decays)
    check_size(network_size(data, chosen, most * defaults.folds), chosen.max_seconds)
    folds = _draw_folds(data, chosen, seed)
    data = learn_from_targets(data, chosen, folds, seed, watch.stop)
    trees = grow(data, chosen, folds, seed, watch.stop)
    blur = None if chosen.blur is None else choose_blur(data, chosen, trees)
    tried = candidates(Candidate(blur, chosen.settings.weight_decay), defaults)
    whole, table = _task(data, chosen, trees, folds, tried, seed)
    with scattered(table):
        ensemble = _train(Workshop(table, chosen.n_jobs, watch), whole, chosen)
        errors = ensemble.best_score.view(len(tried), -1).mean(1).tolist()
        best = errors.index(min(errors)) * len(folds.parts)
        network = some_members(ensemble.network, range(best, best + len(folds.parts)))
        histograms = _judge_histograms(network, table, whole, data, chosen, trees, folds)
    parameters = best_settings(tried, errors, defaults.min_gain)
    return Tuned(parameters | _best_histogram(histograms), _report(tried, errors) + histograms)


def candidates(first: Candidate, defaults: TuningDefaults) -> list[Candidate]:
    """The first, and those that differ from it in one setting."""
    decays = [replace(first, weight_decay=decay) for decay in defaults.weight_decays]
    if first.blur is None:
        return list(dict.fromkeys([first, *decays]))
    blurs = [replace(first, blur=first.blur * factor) for factor in defaults.blur_factors]
    return list(dict.fromkeys([first, *blurs, *decays]))


def best_settings(
    tried: Sequence[Candidate], errors: Sequence[float], min_gain: float
) -> dict[str, Any]:
    """For each setting its value in the best of those that differ from the first in it alone.

    What does not save `min_gain` of the first one's error leaves its value.
    """
    first, parameters = tried[0], {}
    for name in ("blur", "weight_decay"):
        own = [i for i, c in enumerate(tried) if getattr(c, name) != getattr(first, name)]
        best = min(own, key=lambda i: errors[i], default=0)
        better = errors[best] < (1 - min_gain) * errors[0]
        parameters[name] = getattr(tried[best] if better else first, name)
    return parameters


# Candidates as members


def _draw_folds(data: TrainingData, chosen: Hyperparameters, seed: int) -> Folds:
    """As many folds as judge each candidate, each for one member."""
    unpaired = replace(chosen.defaults.folds, max_unpaired_rows=data.n_rows)
    folds = Folds.random(data.n_rows, chosen.defaults.tuning.folds, seed, unpaired)
    least = unpaired.min_rows_without_duplicates
    return folds.without_duplicates(data.features, data.target, least)


def _task(
    data: TrainingData,
    chosen: Hyperparameters,
    trees: GrownTrees | None,
    folds: Folds,
    tried: Sequence[Candidate],
    seed: int,
) -> tuple[GroupTask, SharedTable]:
    """All candidates, each as often as there are folds, and the table that they learn from."""
    members = [candidate for candidate in tried for _ in folds.parts]
    objective, settings = _objective(data, chosen, trees, members), _settings(chosen)
    embedded = choose_embedded(data, chosen, trees)
    task = GroupTask(
        members=range(len(members)),
        seeds=[seed + fold for _ in tried for fold in range(len(folds.parts))],
        rows=folds.training_rows(settings.batch_size) * len(tried),
        validation=folds.stopping_rows(chosen.defaults.folds.max_stopping_rows) * len(tried),
        objective=objective,
        settings=settings,
        make_network=partial(make_network, data.columns, chosen, embedded, objective.outputs),
        decays=torch.tensor([candidate.weight_decay for candidate in members]),
    )
    y = float_targets(data.target)
    return task, SharedTable.of(data.features, y, data.weight, objective, settings)


def _train(workshop: Workshop, whole: GroupTask, chosen: Hyperparameters) -> TrainedEnsemble:
    """All candidates; those of a group are trained as one stack."""
    groups = member_groups(len(whole.members), chosen.group_size, None)
    return joined(workshop.run(group_tasks(whole, groups), chosen.defaults.times.networks))


def _settings(chosen: Hyperparameters) -> Settings:
    epochs = max(1, int(chosen.defaults.tuning.epochs_share * chosen.settings.epochs))
    return replace(
        chosen.settings,
        epochs=epochs,
        patience=chosen.patience,
        evaluate=("validation",),
        weight_decay=0.0,  # members have their own
    )


def _objective(
    data: TrainingData,
    chosen: Hyperparameters,
    trees: GrownTrees | None,
    members: Sequence[Candidate],
) -> Objective:
    """What the hidden layers learn from: the members' own blurs, on bins for the widest."""
    blurs = [member.blur for member in members if member.blur is not None]
    if not blurs:
        return choose_objective(data, chosen, trees)
    count, shares = chosen.defaults.targets.blurred_bins, torch.tensor(blurs).unsqueeze(-1)
    widest = shares.max().item()
    sigma = blurred_sigma(widest, count, chosen.defaults.bins)
    bins = covering_bins(data.target, count, sigma, chosen.defaults.bins)
    blurred = histogram_objective(bins, sigma)
    if bins.step is not None and widest > shares.min():
        own = blurred.target.with_sigma(sigma * shares / widest)  # type: ignore[attr-defined]
        return HistogramObjective(bins.low, bins.high, bins, own)
    return blurred


# Histograms


def _judge_histograms(
    network: StackedMLP,
    table: SharedTable,
    whole: GroupTask,
    data: TrainingData,
    chosen: Hyperparameters,
    trees: GrownTrees | None,
    folds: Folds,
) -> list[Tried]:
    """CRPS of each number of bins and sigma on the folds that members left out.

    Empty where bins were given as `Bins`, or where heavy tails or noise ask for unequal ones,
    which a number of bins would take away.
    """
    if isinstance(chosen.bins, Bins) or chosen.support(data.target).step is not None:
        return []
    tried = list(dict.fromkeys([(chosen.bins, chosen.sigma), *chosen.defaults.tuning.histograms]))
    objectives = [
        histogram_objective(*choose_bins(data, chosen, trees, count, sigma))
        for count, sigma in tried
    ]
    if objectives[0].bins.step is None:
        return []
    tasks = [HistogramTask(network, objective, whole, chosen, folds) for objective in objectives]
    forks = whole.device == "cpu"
    errors = run_tasks(head_error, table, tasks, n_jobs=chosen.n_jobs, forks=forks)
    return [
        {"bins": count, "sigma": sigma, "crps": error}
        for (count, sigma), error in zip(tried, errors, strict=True)
    ]


@dataclass(frozen=True)
class HistogramTask:
    """A histogram to be judged as an output layer of a network, whose members leave out folds."""

    network: StackedMLP
    objective: HistogramObjective
    whole: GroupTask
    chosen: Hyperparameters
    folds: Folds


@torch.no_grad()
def head_error(
    x: Array,
    y: Array,
    weight: Array | None,
    targets: Array | None,
    task: HistogramTask,
    progress: Progress | None,
    stop: Stop,
) -> float:
    """The mean CRPS, once calibrated, of a head for a histogram."""
    members, whole = len(task.folds.parts), task.whole
    table = SharedTable(x, y, weight, None)
    data = table.member_data(whole.rows[:members])
    network: Any = task.network
    how = task.chosen.defaults.training.head
    seeds = whole.seeds[:members]
    head = fit_head(network, task.objective, data, seeds, whole.settings, how, stop)
    limit, errors = task.chosen.defaults.calibration.tuning_rows, []
    for member, fold in enumerate(task.folds.parts):
        index = fold[:limit]
        units = network.units(data.x[index].expand(members, -1, -1))[member].double()
        outputs = units @ head.weight[member].double() + head.bias[member].double()
        errors.append(_crps(task.objective, outputs, data.y[index].double()))
    return float(np.mean(errors))


def _crps(objective: HistogramObjective, outputs: Tensor, y: Tensor) -> float:
    predicted = objective.distribution(outputs)
    return scores.crps(Calibrator.fit(predicted, y).apply(predicted), y)


def _best_histogram(histograms: Sequence[Tried]) -> dict[str, Any]:
    if not histograms:
        return {}
    best = min(histograms, key=lambda tried: tried["crps"])
    return {"bins": int(best["bins"]), "sigma": best["sigma"]}


def _report(tried: Sequence[Candidate], errors: Sequence[float]) -> list[Tried]:
    """What was tried as rows of numbers; a candidate without blurred targets has the blur NaN."""
    return [
        {
            "blur": math.nan if candidate.blur is None else candidate.blur,
            "weight_decay": candidate.weight_decay,
            "error": error,
        }
        for candidate, error in zip(tried, errors, strict=True)
    ]
