"""`HistogramRegressor`: the Histogram Loss for a table, with defaults that need no tuning.

Members are networks with embedded inputs, each of which leaves out a fold of the rows. The folds
stop the training, decide whether boosted trees take part in the mean, and calibrate.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from softbins.bins import Bias, Bins
from softbins.histogram import Histogram
from softbins.nn.embedded import EmbeddedMLP
from softbins.nn.embedded_pass import Activation
from softbins.nn.objectives import Objective
from softbins.nn.trainer import CHUNK, Monitor, Optimiser, Progress
from softbins.tabular import validation as models
from softbins.tabular.aggregate import Finish
from softbins.tabular.auto_bins import BlurredObjective, histogram_objective
from softbins.tabular.columns import Columns
from softbins.tabular.defaults import Preset
from softbins.tabular.fit import Fitting
from softbins.tabular.forest import Forest
from softbins.tabular.neural_regressor import (
    NeuralRegressor,
    Output,
    StackedRegressor,
    as_numpy,
    mixture,
    one_thread,
)
from softbins.tabular.scaling import ScalingKind

Array = NDArray[np.float64]
Auto = Literal["auto"]


class HistogramRegressor(StackedRegressor):
    """A regressor for tables that predicts a calibrated distribution for every row.

    Where a parameter is "auto", the number of rows and the noise decide (softbins.recipe);
    `preset="fast"` takes about a quarter of the time. A number of `bins` means equal ones,
    and `sigma` counts in their widths; `blur` is a share of the targets' range. Predicted
    distributions have finer bins where more is known than those can say, unless `bins` are `Bins`.
    "robust" `scaling` bends features that are far out. The `optimiser` "muon" is for hidden layers,
    with Adam for the rest. A cosine `schedule` lowers the learning rate to nothing, and `dropout`
    in half the time. With `early_stopping`, each of the `members` leaves out an eighth of the rows,
    stops where it errs least on them, and the same rows decide whether boosted `trees` take part,
    fit a temperature and make `predict_interval` hold what it promises; at last all members learn
    from all rows, a little. Without, all rows train all members, and nothing is calibrated.
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
        scaling: ScalingKind = "robust",
        activation: Activation = "silu",
        dropout: float = 0.0,
        optimiser: Optimiser = "muon",
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
        self.optimiser = optimiser
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
            "optimiser": "adam",
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
        return Fitting.of(self, columns, features, target, weight).run()

    def tune(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Choose blur, dropout, weight decay, bins and sigma for this table, then fit with them.

        Candidates are trained side by side on two folds, for half as long as `fit` would.
        `tuning_` has all that was tried.
        """
        probe = clone(self)
        columns, features, target, weight = models.training_data(probe, X, y, sample_weight)
        with one_thread():
            tuned = Fitting.of(self, columns, features, target, weight).tuned()
        self.set_params(**tuned.parameters)
        self.tuning_ = tuned.tried
        return self.fit(X, y, sample_weight)

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
            trees = None if self.forest_ is None else self.forest_.predict(part)
            outputs = self._outputs_of(part)
            if self.finish_ is None:
                yield outputs, trees
            else:
                yield from self.finish_.pieces(self.objective_, outputs, trees)

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
        inputs, outputs = len(self.columns_.encoded_features), self.objective_.outputs
        layers = (inputs, shape["embedded"], shape["hidden"], outputs)
        seeds, activation = range(shape["members"]), self.activation
        self.network_ = EmbeddedMLP(*layers, seeds, activation=activation)


def load(path: str | os.PathLike[str]) -> NeuralRegressor | HistogramRegressor:
    """Read an estimator that its `save` wrote. Nothing in the file is executed."""
    regressor: NeuralRegressor | HistogramRegressor
    regressor = models.load(path, (NeuralRegressor, HistogramRegressor))
    return regressor
