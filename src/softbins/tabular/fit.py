"""How `HistogramRegressor` is fitted to a table.

Folds are drawn, trees grown for each of them, bins and blur chosen by the trees' errors, networks
trained, a sharp head put on them, everything aggregated as held-out rows advise, and at last the
networks see all rows.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from softbins.bins import Bins
from softbins.nn.embedded import EmbeddedMLP
from softbins.nn.head import Head, fit_head
from softbins.nn.objectives import Objective
from softbins.nn.pruning import train_and_prune
from softbins.nn.settings import Progress, Settings
from softbins.nn.trainer import EVALUATION_CHUNK, HistoryRow, MemberData, Trainer
from softbins.tabular.aggregate import Aggregator, Outputs
from softbins.tabular.auto_bins import (
    bias_of_bins,
    bins_for_noise,
    covering_bins,
    equal_bins,
    warn_of_bias,
    with_blurred_head,
)
from softbins.tabular.columns import Columns
from softbins.tabular.data import TrainingData
from softbins.tabular.defaults import NetworkDefaults, TargetDefaults
from softbins.tabular.device import chosen_device
from softbins.tabular.folds import Folds
from softbins.tabular.forest import Forest, GrownTrees, TreeBudget, grow_trees
from softbins.tabular.held_out_scores import held_out_scores
from softbins.tabular.hyperparameters import Hyperparameters
from softbins.tabular.memory import NetworkSize, check_size
from softbins.tabular.objectives import TwoHeadObjective, histogram_objective, learnt_part
from softbins.tabular.scaling import Scaling
from softbins.tabular.targets import check_range, float_targets, predict_constant

# Kinds of columns with inputs of more than yes and no.
EMBEDDED_KINDS = ("number", "date", "time", "duration")


@dataclass(frozen=True)
class FittedTable:
    """What a fit finds out."""

    network: EmbeddedMLP
    objective: Objective
    scaling: Scaling
    aggregator: Aggregator | None
    forest: Forest | None
    history: list[HistoryRow]
    n_epochs: int
    scores: dict[str, float]
    """Errors on the rows that were held out, by name."""


def fit_table(
    data: TrainingData, chosen: Hyperparameters, seed: int, progress: Progress | None = None
) -> FittedTable:
    """Fit networks, and trees if they are wanted, and calibrate them where rows are left out."""
    check_size(network_size(data, chosen, chosen.members), chosen.settings.max_seconds)
    folds = draw_folds(data, chosen, seed) if chosen.early_stopping else None
    scaling = Scaling.fit(data.features, chosen.scaling)
    if data.is_constant:
        return _fit_constant(data, chosen, scaling, seed)
    trees = None if folds is None else grow(data, chosen, folds, seed)
    objective = choose_objective(data, chosen, trees)
    members = _member_data(data, chosen, scaling, folds)
    trainer, folds = _train(members, objective, data.columns, chosen, folds, seed, progress)
    head = _sharp_head(trainer, objective, chosen)
    aggregator, scores = None, dict[str, float]()
    if folds is not None:
        judged = _for_prediction(copy.deepcopy(trainer.network), head, torch.float64)
        aggregator, scores = _aggregate(judged, objective, data, members.x, folds, trees, chosen)
        _refit_on_all_rows(trainer, chosen)
    used = trees is not None and aggregator is not None and aggregator.tree_share > 0
    return FittedTable(
        network=_for_prediction(trainer.network, head, scaling.precision),
        objective=objective,
        scaling=scaling,
        aggregator=aggregator,
        forest=trees.forest if trees is not None and used else None,
        history=trainer.history,
        n_epochs=trainer.epoch,
        scores=scores,
    )


def _fit_constant(
    data: TrainingData, chosen: Hyperparameters, scaling: Scaling, seed: int
) -> FittedTable:
    """A target that never changes needs no training."""
    objective = choose_objective(data, chosen, None)
    network = make_network(data.columns, chosen, objective.outputs, [seed] * chosen.members)
    predict_constant(network, objective, float_targets(data.target[:1]))
    network = _for_prediction(network, None, scaling.precision)
    return FittedTable(network, objective, scaling, None, None, history=[], n_epochs=0, scores={})


# What is chosen before training


def draw_folds(data: TrainingData, chosen: Hyperparameters, seed: int) -> Folds:
    """The rows that members leave out, without those that stand in other folds as well."""
    defaults = chosen.defaults.folds
    folds = Folds.random(data.n_rows, chosen.members, seed, defaults)
    least = defaults.min_rows_without_duplicates
    return folds.without_duplicates(data.features, data.target, least)


def grow(data: TrainingData, chosen: Hyperparameters, folds: Folds, seed: int) -> GrownTrees | None:
    """Boosted trees, if they are wanted."""
    if not chosen.trees:
        return None
    limit = chosen.settings.max_seconds or math.inf
    budget = TreeBudget(chosen.budget.tree_ensembles, chosen.tree_speedup, limit)
    return grow_trees(data, folds, seed=seed, budget=budget, defaults=chosen.defaults.trees)


def choose_objective(
    data: TrainingData, chosen: Hyperparameters, trees: GrownTrees | None
) -> Objective:
    """A sharp histogram and, unless `blur` is None, one of blurred targets beside it."""
    y, bins, sigma = data.target, chosen.bins, chosen.sigma
    if not isinstance(bins, Bins):
        bins = choose_bins(data, chosen, trees, bins, sigma)
    check_range(y, bins.low, bins.high)
    bias = bias_of_bins(histogram_objective(bins, sigma), y)
    warn_of_bias(bias, y)
    sharp = histogram_objective(bins.with_bias(bias), sigma)
    if chosen.blur is None:
        return sharp
    blur = choose_blur(data, chosen, trees)
    count = chosen.defaults.targets.blurred_bins
    return with_blurred_head(y, sharp, blur, count, chosen.defaults.bins)


def choose_bins(
    data: TrainingData,
    chosen: Hyperparameters,
    trees: GrownTrees | None,
    count: int,
    sigma: float,
) -> Bins:
    """So many bins: equal ones, or where they may adapt those that tails and noise ask for."""
    defaults = chosen.defaults.bins
    if not chosen.adaptive_bins:
        return equal_bins(data.target, count, sigma, defaults)
    bins = covering_bins(data.target, count, sigma, defaults)
    if trees is None:
        return bins
    return bins_for_noise(bins, trees.held_out, trees.targets, defaults)


def choose_blur(data: TrainingData, chosen: Hyperparameters, trees: GrownTrees | None) -> float:
    """The standard deviation of blurred targets as a share of their range: as given, or auto."""
    if chosen.blur is not None and chosen.blur != "auto":
        return chosen.blur
    spread = float(data.target.max() - data.target.min())
    return automatic_blur(None if trees is None else trees.error, spread, chosen.defaults.targets)


def automatic_blur(noise: float | None, spread: float, defaults: TargetDefaults) -> float:
    """A blur above the noise, which is the error that the trees are left with."""
    if noise is None or spread == 0:
        return defaults.blur_without_noise_estimate
    blur = defaults.blur_per_noise * noise / spread
    return min(max(blur, defaults.min_blur), defaults.max_blur)


# Networks


def make_network(
    columns: Columns,
    chosen: Hyperparameters,
    outputs: int,
    seeds: Sequence[int],
) -> EmbeddedMLP:
    """Networks for the inputs that columns become, one for each seed."""
    defaults = chosen.defaults.network
    return EmbeddedMLP(
        len(columns.encoded_features),
        embedded_inputs(columns, defaults) if chosen.embeddings else [],
        chosen.hidden,
        outputs,
        seeds,
        activation=chosen.activation,
        frequencies_per_input=defaults.frequencies_per_input,
        embedding_size=defaults.embedding_size,
        initial_frequency_scale=defaults.initial_frequency_scale,
    )


def network_size(data: TrainingData, chosen: Hyperparameters, members: int) -> NetworkSize:
    """How large a stack of so many networks is."""
    defaults, bins = chosen.defaults.network, chosen.bins
    blurred = 0 if chosen.blur is None else chosen.defaults.targets.blurred_bins
    embedded = embedded_inputs(data.columns, defaults) if chosen.embeddings else []
    return NetworkSize(
        members=members,
        inputs=len(data.columns.encoded_features),
        hidden=chosen.hidden,
        outputs=(bins.count if isinstance(bins, Bins) else bins) + blurred,
        rows=data.n_rows,
        batch_size=chosen.settings.batch_size,
        embedding_units=defaults.embedding_size * len(embedded),
        by_muon=chosen.settings.muon is not None,
    )


def embedded_inputs(columns: Columns, defaults: NetworkDefaults) -> list[int]:
    """The inputs of a network that are numbers, with more to them than yes and no.

    None if there are very many: networks would be nine times as large.
    """
    numeric = {i for i, kind in enumerate(columns.kinds) if kind in EMBEDDED_KINDS}
    found = [
        place
        for place, feature in enumerate(columns.encoded_features)
        if feature.column in numeric and feature.content != "is_missing"
    ]
    return found if len(found) <= defaults.max_embedded_inputs else []


def _member_data(
    data: TrainingData, chosen: Hyperparameters, scaling: Scaling, folds: Folds | None
) -> MemberData:
    device = chosen_device(chosen.device)
    y = float_targets(data.target).to(device)
    everything = [torch.arange(data.n_rows)] * chosen.members
    return MemberData(
        x=scaling(data.features).to(device),
        y=y,
        rows=everything if folds is None else folds.training_rows(chosen.settings.batch_size),
        validation=None if folds is None else folds.held_out,
        weight=None if data.weight is None else torch.from_numpy(data.weight).to(y),
    )


def _train(
    members: MemberData,
    objective: Objective,
    columns: Columns,
    chosen: Hyperparameters,
    folds: Folds | None,
    seed: int,
    progress: Progress | None,
) -> tuple[Trainer[EmbeddedMLP], Folds | None]:
    """The trainer that ran to the end, and the folds of the members that are left."""
    seeds, learnt = [seed + member for member in range(chosen.members)], learnt_part(objective)
    network = make_network(columns, chosen, learnt.outputs, seeds).to(members.x.device)
    trainer = Trainer(network, learnt, members, chosen.settings, seeds)
    pair = [] if folds is None else folds.members_of(0)[:2]
    if folds is None or not chosen.prune_members or len(pair) < 2:
        trainer.run(progress)
        return trainer, folds
    # Members that leave out the same fold, so that it judges what will predict.
    pruned = train_and_prune(trainer, chosen.defaults.training.pruning, pair, progress)
    return pruned, folds if pruned is trainer else folds.of_members(pair)


def _sharp_head(
    trainer: Trainer[EmbeddedMLP], objective: Objective, chosen: Hyperparameters
) -> Head | None:
    """The output layer of the sharp histogram, if the networks have learnt from a blurred one."""
    if not isinstance(objective, TwoHeadObjective):
        return None
    return fit_head(
        trainer.network,
        objective.sharp,
        trainer.data,
        trainer.seeds,
        trainer.settings,
        chosen.defaults.training.head,
    )


def _refit_on_all_rows(trainer: Trainer[EmbeddedMLP], chosen: Hyperparameters) -> None:
    """Small steps on all rows: a member that its fold has judged may learn from it, too."""
    settings = refit_settings(trainer, chosen)
    if settings is not None:
        rows = [torch.arange(len(trainer.y))] * trainer.network.members
        data = replace(trainer.data, rows=rows, validation=None)
        network, objective, seeds = trainer.network, trainer.objective, trainer.seeds
        Trainer(network, objective, data, settings, seeds, standardize=False).run()


def refit_settings(trainer: Trainer[EmbeddedMLP], chosen: Hyperparameters) -> Settings | None:
    """A share of the epochs that were best, in the time that is left, or None if none is left."""
    settings, limit = trainer.settings, trainer.settings.max_seconds
    left = None if limit is None else limit - trainer.seconds
    if chosen.budget.refit_epochs == 0 or (left is not None and left <= 0):
        return None
    best = trainer.best_epoch.double().mean().item()
    return replace(
        settings,
        epochs=max(1, math.ceil(chosen.budget.refit_epochs * best)),
        learning_rate=chosen.budget.refit_rate * settings.learning_rate,
        patience=None,
        evaluate=(),
        max_seconds=left,
    )


def _for_prediction(network: EmbeddedMLP, head: Head | None, precision: torch.dtype) -> EmbeddedMLP:
    """The whole network, with its head if it has one, where predictions are made."""
    if head is not None:
        network.add_outputs(*head)
    return network.to("cpu", precision).eval()


# Aggregation


@torch.no_grad()
def _aggregate(
    network: EmbeddedMLP,
    objective: Objective,
    data: TrainingData,
    x: Tensor,
    folds: Folds,
    trees: GrownTrees | None,
    chosen: Hyperparameters,
) -> tuple[Aggregator, dict[str, float]]:
    """An aggregator that has learnt from what members say of the rows they have left out.

    And the errors on these rows.
    """
    index = torch.cat(folds.judges)
    # Where members were pruned, the first fold is left, whose rows trees predicted first.
    predicted = None if trees is None else trees.held_out[: len(index)]
    outputs = Outputs(held_out_outputs(network, x.cpu(), folds), predicted)
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
    )
    return aggregator, held_out_scores(aggregator, outputs, target, weight)


@torch.no_grad()
def held_out_outputs(
    network: EmbeddedMLP, x: Tensor, folds: Folds, chunk: int = EVALUATION_CHUNK
) -> Tensor:
    """Outputs (members for each fold, n, outputs) for the judges of all folds in turn.

    Each row's outputs are those of the members that have left it out. The network computes for
    `chunk` rows of each fold at a time.
    """
    judges = folds.judges
    longest = max(map(len, judges))
    padded = [torch.cat([part, part.new_zeros(longest - len(part))]) for part in judges]
    index = torch.stack([padded[fold] for fold in folds.fold_of_member])
    outputs = torch.cat([network(x[part].double()) for part in index.split(chunk, 1)], 1)
    teams = [outputs[folds.members_of(f), : len(part)] for f, part in enumerate(judges)]
    return torch.cat(teams, 1)
