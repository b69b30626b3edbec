"""How `HistogramRegressor` is fitted: folds, trees, bins, networks, and what held-out rows say."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from torch import Tensor

from softbins.bins import Bins
from softbins.nn import pruning as thinning
from softbins.nn.embedded import EmbeddedMLP
from softbins.nn.head import fit_head
from softbins.nn.objectives import HistogramObjective, Objective
from softbins.nn.progress import progress_callback
from softbins.nn.trainer import Settings, Trainer
from softbins.tabular import tune as tuning
from softbins.tabular.aggregate import FINEST, JUDGES, Finish
from softbins.tabular.auto_bins import (
    automatic_bins,
    bias,
    bins_for_noise,
    blurred_objective,
    equal_bins,
    histogram_objective,
    learnt_part,
    sharp_part,
    warn_of_bias,
)
from softbins.tabular.columns import Columns
from softbins.tabular.defaults import (
    BLURRED_COUNT,
    Recipe,
    automatic_blur,
    different,
    embedded_inputs,
    folds_for,
    held_out,
    kept,
    recipe_for,
    without_copies,
)
from softbins.tabular.forest import Grown, grow
from softbins.tabular.neural_regressor import (
    chosen_device,
    predict_constant,
    range_of,
    target_tensor,
)
from softbins.tabular.scaling import Scaling
from softbins.tabular.tune import Candidate, Problem, Tuned

Array = NDArray[np.float64]
Head = tuple[Tensor, Tensor]  # weights and biases of further outputs


@dataclass(frozen=True)
class Fitting:
    """A table, and how a regressor with these parameters is fitted to it."""

    regressor: Any  # a HistogramRegressor, of which only the parameters count
    columns: Columns
    features: Array
    target: Array
    weight: Array | None
    recipe: Recipe
    seed: int

    @classmethod
    def of(
        cls,
        regressor: Any,
        columns: Columns,
        features: Array,
        target: Array,
        weight: Array | None,
    ) -> Self:
        """With what is left to choose chosen, and randomness drawn."""
        recipe = recipe_for(regressor, len(target))
        seed = int(check_random_state(regressor.random_state).randint(2**31 - 1))
        return cls(regressor, columns, features, target, weight, recipe, seed)

    def run(self) -> dict[str, Any]:
        """The attributes of the fitted regressor."""
        settings, folds = self._settings(), self._folds()
        constant = self.target.min() == self.target.max()
        grown = None if constant or folds is None else self._grown(folds)
        objective = self._objective(grown)
        scaling = Scaling.fit(self.features, self.regressor.scaling)
        x = scaling(self.features)
        learnt = objective if constant else learnt_part(objective)
        network = self._network(x.shape[1], learnt)
        trainer = self._trainer(network, learnt, x, folds, settings)
        if constant:
            predict_constant(network, objective, trainer.y[:1])
        else:
            trainer = self._trained(trainer)
        head = None if learnt is objective else self._head(network, sharp_part(objective), trainer)
        finish = None
        if folds is not None and not constant:
            judged = _for_prediction(copy.deepcopy(network), head)
            finish = self._finish(judged, objective, trainer, folds, grown)
            self._see_all(network, trainer)
        network = _for_prediction(network, head)
        return {
            "network_": network,
            "objective_": objective,
            "bins_": sharp_part(objective).bins,
            "scaling_": scaling,
            "finish_": finish,
            "forest_": grown.forest if grown is not None and finish and finish.share else None,
            "history_": trainer.history,
            "n_epochs_": trainer.epoch,
        }

    def tuned(self) -> Tuned:
        """The parameters that are best on folds, by networks trained for half as long."""
        recipe = self.recipe
        settings = replace(self._settings(), epochs=max(1, recipe.epochs // 2))
        settings = replace(settings, patience=recipe.patience, weight_decay=0.0)
        folds = different(held_out(len(self.target), 2 * tuning.FOLDS, self.seed))[: tuning.FOLDS]
        folds = without_copies(folds, self.features, self.target)
        grown = self._grown(folds)
        start = Candidate(self._blur(grown), recipe.dropout, self.regressor.weight_decay)
        problem = Problem(
            Scaling.fit(self.features, self.regressor.scaling)(self.features),
            target_tensor(self.target),
            None if self.weight is None else torch.from_numpy(self.weight).float(),
            self._embedded(),
            folds,
            kept(len(self.target), folds, settings.batch_size),
            partial(self._bins, grown),
        )
        shown = progress_callback(self.regressor.progress)
        network = (recipe.hidden, self.regressor.activation)
        return tuning.tune(problem, start, *network, settings, BLURRED_COUNT, self.seed, shown)

    # Parts

    def _settings(self) -> Settings:
        chosen, recipe = self.regressor, self.recipe
        return Settings(
            epochs=recipe.epochs,
            batch_size=recipe.batch_size,
            optimiser=chosen.optimiser,
            learning_rate=recipe.learning_rate,
            beta_2=chosen.beta_2,
            weight_decay=chosen.weight_decay,
            schedule=chosen.schedule,
            max_seconds=chosen.max_seconds,
            patience=recipe.patience if chosen.early_stopping else None,
            monitor=chosen.monitor,
            evaluate=("validation",) if chosen.early_stopping else ("train",),
        )

    def _folds(self) -> list[Tensor] | None:
        if not self.regressor.early_stopping:
            return None
        return folds_for(self.features, self.target, self.recipe.members, self.seed)

    def _grown(self, folds: list[Tensor]) -> Grown | None:
        if not self.regressor.trees:
            return None
        parts = [fold.numpy() for fold in different(folds)]
        data = (self.features, self.target, self.weight, parts)
        effort = (self.recipe.ensembles, self.recipe.haste)
        return grow(*data, JUDGES // len(parts), self.seed, *effort)

    def _objective(self, grown: Grown | None) -> Objective:
        bins, sigma, y = self.recipe.bins, self.regressor.sigma, self.target
        if not isinstance(bins, Bins):
            free = self.regressor.bins == "auto"
            bins = self._bins(grown, bins, sigma) if free else equal_bins(y, bins, sigma)
        range_of(y, None, bins)
        cost = bias(histogram_objective(bins, sigma), y)
        warn_of_bias(cost, y)
        sharp = histogram_objective(bins.with_bias(cost), sigma)
        share = self.regressor.blur
        if share is None:
            return sharp
        if share == "auto":
            share = self._blur(grown)
        return blurred_objective(y, sharp, share, BLURRED_COUNT)

    def _bins(self, grown: Grown | None, count: int, sigma: float) -> Bins:
        bins = automatic_bins(self.target, count, sigma)
        return bins if grown is None else bins_for_noise(bins, grown.held_out, grown.targets)

    def _blur(self, grown: Grown | None) -> float:
        spread = float(self.target.max() - self.target.min())
        return automatic_blur(None if grown is None else grown.error, spread)

    def _embedded(self) -> list[int]:
        return embedded_inputs(self.columns) if self.regressor.embeddings else []

    def _network(self, inputs: int, objective: Objective) -> EmbeddedMLP:
        seeds = [self.seed + member for member in range(self.recipe.members)]
        layers = (inputs, self._embedded(), self.recipe.hidden, objective.outputs)
        return EmbeddedMLP(*layers, seeds, activation=self.regressor.activation)

    def _trainer(
        self,
        network: EmbeddedMLP,
        objective: Objective,
        x: Tensor,
        folds: list[Tensor] | None,
        settings: Settings,
    ) -> Trainer:
        device, y = chosen_device(self.regressor.device), target_tensor(self.target)
        rows = [torch.arange(len(y))] * network.members
        if folds is not None:
            rows = kept(len(y), folds, settings.batch_size)
        weights = None if self.weight is None else torch.from_numpy(self.weight).to(y)
        data = (x.to(device), y.to(device), rows)
        network.to(device)
        return Trainer(network, objective, *data, network.seeds, settings, folds, weights)

    def _trained(self, trainer: Trainer) -> Trainer:
        """Who has trained in the end, which may be fewer members."""
        progress = progress_callback(self.regressor.progress)
        if self.recipe.thins and trainer.validation is not None:
            return thinning.train(trainer, progress)
        trainer.run(progress)
        return trainer

    def _head(self, network: EmbeddedMLP, sharp: HistogramObjective, trainer: Trainer) -> Head:
        data = (trainer.x, trainer.y, trainer.rows, _seeds(network), trainer.settings)
        return fit_head(network, sharp, *data, trainer.weight)

    def _see_all(self, network: EmbeddedMLP, trainer: Trainer) -> None:
        """Small steps on all rows: a member that its fold has judged may learn from it, too."""
        settings = self._last_settings(trainer)
        if settings is not None:
            rows = [torch.arange(len(trainer.y))] * network.members
            data = (trainer.x, trainer.y, rows, _seeds(network), settings, None, trainer.weight)
            Trainer(network, trainer.objective, *data, standardise=False).run()

    def _last_settings(self, trainer: Trainer) -> Settings | None:
        """A share of the epochs that were best, in the time that is left, if any is."""
        settings, limit = trainer.settings, trainer.settings.max_seconds
        left = None if limit is None else limit - trainer.seconds
        if left is not None and left <= 0:
            return None
        best = trainer.best_epoch.double().mean().item()
        epochs = max(1, math.ceil(self.recipe.last * best))
        rate = self.recipe.last_rate * settings.learning_rate
        settings = replace(settings, patience=None, evaluate=(), max_seconds=left)
        return replace(settings, epochs=epochs, learning_rate=rate)

    def _finish(
        self,
        network: EmbeddedMLP,
        objective: Objective,
        trainer: Trainer,
        folds: list[Tensor],
        grown: Grown | None,
    ) -> Finish:
        """By the folds of the members that are left, the first of those that trees left out."""
        assert trainer.validation is not None
        limit = JUDGES // len(different(folds))
        judges = [fold[:limit] for fold in different(trainer.validation)]
        trees = None if grown is None else grown.held_out[: sum(map(len, judges))]
        data = (trainer.x.cpu(), self.target, self.weight, judges, trees)
        finest = 1 if isinstance(self.regressor.bins, Bins) else FINEST
        return Finish.of_folds(network, objective, *data, finest)


def _seeds(network: EmbeddedMLP) -> list[int]:
    """One for each member that is left. What follows the training only shuffles rows by them."""
    return network.seeds[: network.members]


def _for_prediction(network: EmbeddedMLP, head: Head | None) -> EmbeddedMLP:
    """In float64, so that the rows beside a row do not matter but for rounding."""
    if head is not None:
        network.add_outputs(*head)
    return network.cpu().double().eval()
