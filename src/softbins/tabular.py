"""`HistogramRegressor`: the Histogram Loss for a table, with defaults that need no tuning.

Members are networks with embedded inputs, each of which leaves out a fold of the rows. The folds
stop the training, decide whether boosted trees take part in the mean, and calibrate.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from softbins import models, tuning
from softbins.binning import (
    BlurredObjective,
    automatic_bins,
    bias,
    blurred_objective,
    equal_bins,
    histogram_objective,
    listening_outputs,
    sharp_part,
    warn_of_bias,
)
from softbins.bins import Bias, Bins
from softbins.boosting import Forest, Grown, grow
from softbins.columns import Columns
from softbins.ensemble import FINEST, JUDGES, Finish
from softbins.histogram import Histogram
from softbins.network import Activation, EmbeddedMLP
from softbins.objectives import Objective
from softbins.progress import progress_callback
from softbins.recipe import (
    BLURRED_COUNT,
    Preset,
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
from softbins.regressor import (
    NeuralRegressor,
    Output,
    StackedRegressor,
    as_numpy,
    chosen_device,
    mixture,
    one_thread,
    predict_constant,
    range_of,
    target_tensor,
)
from softbins.scaling import Kind as Scale
from softbins.scaling import Scaling
from softbins.training import CHUNK, Monitor, Progress, Settings, Trainer
from softbins.tuning import Candidate, Problem, Tuned

Array = NDArray[np.float64]
Auto = Literal["auto"]


class HistogramRegressor(StackedRegressor):
    """A regressor for tables that predicts a calibrated distribution for every row.

    Where a parameter is "auto", the number of rows and the noise decide (softbins.recipe);
    `preset="fast"` takes a fifth to a half of the time. A number of `bins` means equal ones, and
    `sigma` counts in their widths; `blur` is a share of the targets' range. Predicted
    distributions have finer bins where more is known than those can say, unless `bins` are `Bins`.
    "robust" `scaling` bends features that are far out. A cosine `schedule` lowers the learning
    rate to nothing, and `dropout` in half the time. With `early_stopping`, each of the `members`
    leaves out an eighth of the rows, stops where it errs least on them, and the same rows decide
    whether boosted `trees` take part, fit a temperature and make `predict_interval` hold what it
    promises. Without, all rows train all members, and nothing is calibrated.
    `categorical_features` is "from_dtype" (text, booleans and categories of a DataFrame), None, or
    a list of indices or names, or a mask.
    """

    objective = "hl-gaussian"

    def __init__(
        self,
        hidden: Sequence[int] | Auto = "auto",
        *,
        preset: Preset = "default",
        bins: int | Bins | Auto = "auto",
        sigma: float = 2.0,
        blur: float | Auto | None = "auto",
        members: int | Auto = "auto",
        embeddings: bool = True,
        trees: bool = True,
        scaling: Scale = "robust",
        activation: Activation = "silu",
        dropout: float | Auto = "auto",
        learning_rate: float | Auto = "auto",
        beta_2: float = 0.95,
        weight_decay: float = 1e-2,
        schedule: Literal["constant", "cosine"] = "cosine",
        batch_size: int | Auto = "auto",
        max_epochs: int | Auto = "auto",
        max_seconds: float | None = None,
        early_stopping: bool = True,
        patience: int | Auto = "auto",
        monitor: Monitor = "rmse",
        categorical_features: Any = "from_dtype",
        device: str = "auto",
        random_state: Any = None,
        progress: bool | Progress = False,
    ) -> None:
        self.hidden = hidden
        self.preset = preset
        self.bins = bins
        self.sigma = sigma
        self.blur = blur
        self.members = members
        self.embeddings = embeddings
        self.trees = trees
        self.scaling = scaling
        self.activation = activation
        self.dropout = dropout
        self.learning_rate = learning_rate
        self.beta_2 = beta_2
        self.weight_decay = weight_decay
        self.schedule = schedule
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.max_seconds = max_seconds
        self.early_stopping = early_stopping
        self.patience = patience
        self.monitor = monitor
        self.categorical_features = categorical_features
        self.device = device
        self.random_state = random_state
        self.progress = progress

    @classmethod
    def as_in_paper(cls, **changes: Any) -> Self:
        """The paper's setting (Section 4): four layers of 64, 100 bins, Adam, one network.

        No embeddings, trees, dropout, decay or early stopping. Any parameter may be given as well.
        """
        paper: dict[str, Any] = {
            "hidden": (64, 64, 64, 64),
            "bins": 100,
            "sigma": 1.0,
            "blur": None,
            "members": 1,
            "embeddings": False,
            "trees": False,
            "scaling": "standard",
            "activation": "relu",
            "dropout": 0.0,
            "learning_rate": 1e-3,
            "beta_2": 0.999,
            "weight_decay": 0.0,
            "schedule": "constant",
            "batch_size": 256,
            "max_epochs": 100,
            "early_stopping": False,
        }
        return cls(**(paper | changes))

    # Fitting

    def _fitted(
        self, columns: Columns, features: Array, target: Array, weight: Array | None
    ) -> dict[str, Any]:
        recipe = recipe_for(self, len(target))
        settings = self._settings(recipe)
        first = int(check_random_state(self.random_state).randint(2**31 - 1))
        folds = None
        if self.early_stopping:
            folds = folds_for(features, target, recipe.members, first)
        constant = target.min() == target.max()
        grown = None if constant else self._grown(features, target, weight, folds, first, recipe)
        objective = self._objective(target, recipe, grown)
        scaling = Scaling.of(features, self.scaling)
        x = scaling(features)
        seeds = [first + member for member in range(recipe.members)]
        embedded = embedded_inputs(columns) if self.embeddings else []
        shape = (x.shape[1], embedded, recipe.hidden, objective.outputs, seeds, recipe.dropout)
        network = EmbeddedMLP(*shape, listening_outputs(objective), self.activation)
        trainer = self._trainer(network, objective, x, target, weight, folds, settings)
        if constant:
            predict_constant(network, objective, trainer.y[:1])
        else:
            trainer.run(progress_callback(self.progress))
        # Predictions are made in float64: the rows beside a row do not matter but for rounding.
        network = network.cpu().double().eval()
        finish = None
        if folds is not None and not constant:
            trees = None if grown is None else grown.held_out
            parts = different(folds)
            data = (x, target, weight, parts, trees)
            finest = 1 if isinstance(self.bins, Bins) else FINEST
            finish = Finish.of_folds(network, objective, *data, finest)
        forest = grown.forest if grown is not None and finish and finish.share else None
        return {
            "network_": network,
            "objective_": objective,
            "bins_": sharp_part(objective).bins,
            "scaling_": scaling,
            "finish_": finish,
            "forest_": forest,
            "history_": trainer.history,
            "n_epochs_": trainer.epoch,
        }

    def tune(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Choose blur, dropout, weight decay, bins and sigma for this table, then fit with them.

        Candidates are trained side by side on two folds, for half as long as `fit` would.
        `tuning_` has all that was tried.
        """
        probe = clone(self)
        columns, features, target, weight = models.training_data(probe, X, y, sample_weight)
        with one_thread():
            tuned = self._tuned(columns, features, target, weight)
        self.set_params(**tuned.parameters)
        self.tuning_ = tuned.tried
        return self.fit(X, y, sample_weight)

    def _tuned(
        self, columns: Columns, features: Array, target: Array, weight: Array | None
    ) -> Tuned:
        recipe = recipe_for(self, len(target))
        settings = replace(self._settings(recipe), epochs=max(1, recipe.epochs // 2))
        settings = replace(settings, patience=recipe.patience, weight_decay=0.0)
        first = int(check_random_state(self.random_state).randint(2**31 - 1))
        folds = different(held_out(len(target), 2 * tuning.FOLDS, first))[: tuning.FOLDS]
        folds = without_copies(folds, features, target)
        grown = self._grown(features, target, weight, folds, first, recipe)
        spread = float(target.max() - target.min())
        blur = automatic_blur(None if grown is None else grown.error, spread)
        start = Candidate(blur, recipe.dropout, self.weight_decay)
        problem = Problem(
            Scaling.of(features, self.scaling)(features),
            target_tensor(target),
            None if weight is None else torch.from_numpy(weight).float(),
            embedded_inputs(columns) if self.embeddings else [],
            folds,
            kept(len(target), folds, settings.batch_size),
        )
        shown = progress_callback(self.progress)
        network = (recipe.hidden, self.activation)
        return tuning.tune(problem, start, *network, settings, BLURRED_COUNT, first, shown)

    def _settings(self, recipe: Recipe) -> Settings:
        return Settings(
            epochs=recipe.epochs,
            batch_size=recipe.batch_size,
            learning_rate=recipe.learning_rate,
            beta_2=self.beta_2,
            weight_decay=self.weight_decay,
            schedule=self.schedule,
            max_seconds=self.max_seconds,
            patience=recipe.patience if self.early_stopping else None,
            monitor=self.monitor,
            evaluate=("validation",) if self.early_stopping else ("train",),
        )

    def _grown(
        self,
        features: Array,
        target: Array,
        weight: Array | None,
        folds: list[Tensor] | None,
        seed: int,
        recipe: Recipe,
    ) -> Grown | None:
        if not self.trees or folds is None:
            return None
        parts = [fold.numpy() for fold in different(folds)]
        limit = JUDGES // len(parts)
        return grow(features, target, weight, parts, limit, seed, recipe.ensembles)

    def _objective(self, y: Array, recipe: Recipe, grown: Grown | None) -> Objective:
        bins = recipe.bins
        if not isinstance(bins, Bins):
            make = automatic_bins if self.bins == "auto" else equal_bins
            bins = make(y, bins, self.sigma)
        range_of(y, None, bins)
        cost = bias(histogram_objective(bins, self.sigma), y)
        warn_of_bias(cost, y)
        sharp = histogram_objective(bins.with_bias(cost), self.sigma)
        if self.blur is None:
            return sharp
        share = self.blur
        if share == "auto":
            spread = float(y.max() - y.min())
            share = automatic_blur(None if grown is None else grown.error, spread)
        return blurred_objective(y, sharp, share, BLURRED_COUNT)

    def _trainer(
        self,
        network: EmbeddedMLP,
        objective: Objective,
        x: Tensor,
        target: Array,
        weight: Array | None,
        folds: list[Tensor] | None,
        settings: Settings,
    ) -> Trainer:
        device, y = chosen_device(self.device), target_tensor(target)
        rows = [torch.arange(len(y))] * network.members
        if folds is not None:
            rows = kept(len(y), folds, settings.batch_size)
        weights = None if weight is None else torch.from_numpy(weight).to(y)
        data = (x.to(device), y.to(device), rows)
        network.to(device)
        return Trainer(network, objective, *data, network.seeds, settings, folds, weights)

    # Prediction

    def predict(self, X: Any, output: Output = "mean") -> Array:
        """The predicted mean, or the median or mode of the predicted distribution."""
        check_is_fitted(self)
        if output != "mean" or self.finish_ is None:
            return super().predict(X, output)
        parts = [self.finish_.mean(self.objective_, *part) for part in self._parts(X)]
        return as_numpy(torch.cat(parts))

    def predict_distribution(self, X: Any) -> Histogram:
        """The predicted distribution of every row; without early stopping, members' mixture.

        Up to 16 kB for each row: for millions of them, ask for what you need of it instead
        (`predict_interval`, `predict_quantiles`, `predict_cdf`), or for some rows at a time.
        """
        return super().predict_distribution(X)

    def _distributions(self, X: Any) -> Iterator[Histogram]:
        for outputs, trees in self._parts(X):
            if self.finish_ is None:
                yield self._mixture(outputs)
            else:
                yield self.finish_.distribution(self.objective_, outputs, trees)

    def _mixture(self, outputs: Tensor) -> Histogram:
        mixed = mixture(self.objective_.distribution(outputs))
        if not isinstance(self.objective_, BlurredObjective):
            return mixed
        # Of two histograms the sharp one has the shape, and the blurred one the mean.
        return mixed.with_mean(self.objective_.decode(outputs).mean(0))

    def predict_interval(
        self,
        X: Any,
        coverage: float = 0.9,
        kind: Literal["central", "shortest"] = "central",
        calibrated: bool = True,
    ) -> Array:
        """Ends of an interval that holds the target with probability `coverage`: low and high.

        It is conformal, made with the rows that members have left out, unless not `calibrated`,
        which takes the predicted distribution at its word. "central" leaves as much probability
        on either side; "shortest" is narrower where distributions are skewed.
        """
        check_is_fitted(self)
        if not calibrated or self.finish_ is None:
            return super().predict_interval(X, coverage, kind)
        if kind not in self.finish_.intervals:
            raise ValueError(f"kind: expected 'central' or 'shortest', got {kind!r}")
        conformal = self.finish_.intervals[kind]
        parts = (self.finish_.for_intervals(self.objective_, *part) for part in self._parts(X))
        ends = [torch.stack(conformal.interval(part, coverage), -1) for part in parts]
        return as_numpy(torch.cat(ends))

    def _parts(self, X: Any) -> Iterator[tuple[Tensor, Array | None]]:
        """The members' outputs (V, rows, k) and the trees' predictions, a chunk at a time."""
        check_is_fitted(self)
        features = models.prediction_data(self, X)
        for start in range(0, len(features), CHUNK):
            part = features[start : start + CHUNK]
            yield (
                self._outputs_of(part),
                None if self.forest_ is None else self.forest_.predict(part),
            )

    # Files

    def _state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        network, finish, forest = self.network_, self.finish_, self.forest_
        shape = {"hidden": list(network.hidden), "members": network.members}
        header: dict[str, Any] = {"network": shape | {"embedded": network.embedded}}
        header["bias"] = list(self.bins_.bias or ())
        header["finish"] = None if finish is None else finish.to_json()
        header["trees"] = forest is not None
        tensors = {"edges": self.bins_.edges}
        if isinstance(self.objective_, BlurredObjective):
            blurred: Any = self.objective_.blurred
            header["blur"], tensors["blurred_edges"] = blurred.target.sigma, blurred.bins.edges
        tensors |= {} if finish is None else finish.tensors()
        return header, tensors | ({} if forest is None else forest.tensors())

    def _set_state(self, header: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self.bins_ = Bins(tensors.pop("edges")).with_bias(Bias(*header["bias"]))
        sharp = histogram_objective(self.bins_, self.sigma)
        self.objective_: Objective = sharp
        if "blurred_edges" in tensors:
            blurred = histogram_objective(Bins(tensors.pop("blurred_edges")), header["blur"])
            self.objective_ = BlurredObjective(sharp.low, sharp.high, blurred, sharp)
        finish = header["finish"]
        self.finish_ = None if finish is None else Finish.from_file(finish, tensors)
        self.forest_ = Forest.from_tensors(tensors) if header["trees"] else None
        shape = header["network"]
        inputs, outputs = len(self.columns_.origins), self.objective_.outputs
        layers = (inputs, shape["embedded"], shape["hidden"], outputs)
        seeds, activation = range(shape["members"]), self.activation
        self.network_ = EmbeddedMLP(*layers, seeds, activation=activation)


def load(path: str | os.PathLike[str]) -> NeuralRegressor | HistogramRegressor:
    """Read an estimator that its `save` wrote. Nothing in the file is executed."""
    regressor: NeuralRegressor | HistogramRegressor
    regressor = models.load(path, (NeuralRegressor, HistogramRegressor))
    return regressor
