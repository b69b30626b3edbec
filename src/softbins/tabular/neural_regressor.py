"""scikit-learn estimators on top of the stacked training.

`__init__` stores, `fit` validates, fitted names end in `_`. NumPy comes in and NumPy goes out;
the conversion happens once, here. A failed `fit` leaves a fitted estimator as it was.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from softbins.bins import Bins
from softbins.histogram import Histogram
from softbins.nn.objectives import HistogramObjective, Objective, make_objective
from softbins.nn.progress import progress_callback
from softbins.nn.stack import StackedMLP
from softbins.nn.trainer import CHUNK, Monitor, Progress, Settings, Trainer
from softbins.tabular import validation as models
from softbins.tabular.columns import Columns
from softbins.tabular.scaling import Scaling

Array = NDArray[np.float64]
Output = Literal["mean", "median", "mode"]


class StackedRegressor(RegressorMixin, BaseEstimator):
    """What both regressors share: everything but the choice of the objective."""

    categorical_features: Any

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Train on features X (n, d) and targets y (n,)."""
        # Validation writes to the estimator, which must not change if it fails.
        probe = clone(self)
        columns, features, target, weight = models.training_data(probe, X, y, sample_weight)
        with one_thread():
            fitted = self._fitted(columns, features, target, weight)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                delattr(self, name)
            if hasattr(probe, name):
                setattr(self, name, getattr(probe, name))
        for name, value in {**fitted, "columns_": columns}.items():
            setattr(self, name, value)
        return self

    def _fitted(
        self, columns: Columns, features: Array, target: Array, weight: Array | None
    ) -> dict[str, Any]:
        """What `fit` finds out, by the names of the attributes."""
        raise NotImplementedError

    # Prediction

    def predict(self, X: Any, output: Output = "mean") -> Array:
        """The predicted mean, or the median or mode of the predicted distribution."""
        if output == "mean":
            parts = [self.objective_.decode(o).mean(0) for o in self._outputs(X)]
            return as_numpy(torch.cat(parts))
        if output not in ("median", "mode"):
            raise ValueError(f"output: expected 'mean', 'median' or 'mode', got {output!r}")
        return as_numpy(torch.cat([getattr(part, output) for part in self._distributions(X)]))

    def predict_distribution(self, X: Any) -> Histogram:
        """The predicted distribution of every row, the mixture of all members."""
        parts = list(self._distributions(X))
        return Histogram(parts[0].bins, logits=torch.cat([part.logits for part in parts]))

    def _distributions(self, X: Any) -> Iterator[Histogram]:
        """Predicted distributions, a chunk of rows at a time: all at once may fill the memory."""
        for outputs in self._outputs(X):
            yield mixture(self.objective_.distribution(outputs))

    def predict_quantiles(self, X: Any, q: float | Sequence[float] = (0.1, 0.5, 0.9)) -> Array:
        """Quantiles, one column for each level in `q`."""
        levels = np.atleast_1d(np.asarray(q, dtype=np.float64)).tolist()
        return as_numpy(torch.cat([part.quantile(levels) for part in self._distributions(X)]))

    def predict_interval(
        self, X: Any, coverage: float = 0.9, kind: Literal["central", "shortest"] = "central"
    ) -> Array:
        """Ends of an interval with probability `coverage`: columns low and high."""
        parts = [part.interval(coverage, kind) for part in self._distributions(X)]
        return as_numpy(torch.cat([torch.stack(ends, -1) for ends in parts]))

    def predict_cdf(self, X: Any, y: ArrayLike) -> Array:
        """Probability of at most each value in `y`, one column for each."""
        values = torch.from_numpy(np.atleast_1d(np.asarray(y, dtype=np.float64)))
        parts = [part.cdf(values.unsqueeze(-1)).T for part in self._distributions(X)]
        return as_numpy(torch.cat(parts))

    def sample(self, X: Any, n_samples: int = 1, random_state: Any = None) -> Array:
        """Random targets from the predicted distribution, one column for each sample."""
        predicted = self.predict_distribution(X)
        levels = check_random_state(random_state).uniform(
            np.nextafter(0, 1), 1, (n_samples, *predicted.batch_shape)
        )
        return as_numpy(predicted.icdf(torch.from_numpy(levels)).T)

    def _outputs(self, X: Any) -> Iterator[Tensor]:
        """The members' outputs (members, rows, outputs), a chunk of rows at a time."""
        check_is_fitted(self)
        features = models.prediction_data(self, X)
        for start in range(0, len(features), CHUNK):
            yield self._outputs_of(features[start : start + CHUNK])

    @torch.no_grad()
    def _outputs_of(self, features: Array) -> Tensor:
        x = self.scaling_(features).double()
        with one_thread():
            outputs: Tensor = self.network_(x.expand(self.network_.members, -1, -1))
        return outputs

    # Files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to one file without pickle; `softbins.load` reads it."""
        check_is_fitted(self)
        models.save(self, path)

    def _state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What a kind of estimator adds to a model file: header and tensors."""
        raise NotImplementedError

    def _set_state(self, header: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Take it back: the objective, and a network whose weights come next."""
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "network_")


class NeuralRegressor(StackedRegressor):
    """A neural network with any of the paper's objectives.

    `objective` is one of "l2", "l1", "l2-noise", "l2-clipping", "l2-softmax", "hl-onebin",
    "hl-uniform", "hl-gaussian", "mdn", "l2-many"; `bins`, `sigma` (in bin widths), `epsilon`,
    `noise`, `clip` and `components` belong to those that have them. `target_range` is the
    target's range [a, b], that of the training targets by default. `members` networks make a
    deep ensemble. `categorical_features` is "from_dtype" (text, booleans and categories of a
    DataFrame), None, or a list of indices or names, or a mask.
    """

    def __init__(
        self,
        objective: str = "hl-gaussian",
        hidden: Sequence[int] = (64, 64, 64, 64),
        *,
        bins: int | Bins = 100,
        sigma: float = 1.0,
        epsilon: float = 1e-3,
        noise: float = 1e-2,
        clip: float = 1.0,
        components: int = 8,
        target_range: tuple[float, float] | None = None,
        members: int = 1,
        dropout: float = 0.0,
        learning_rate: float = 1e-3,
        weight_decay: float = 0.0,
        schedule: Literal["constant", "cosine"] = "constant",
        batch_size: int = 256,
        max_epochs: int = 100,
        max_seconds: float | None = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        patience: int = 20,
        monitor: Monitor = "objective",
        categorical_features: Any = "from_dtype",
        device: str = "auto",
        random_state: Any = None,
        progress: bool | Progress = False,
    ) -> None:
        self.objective = objective
        self.hidden = hidden
        self.bins = bins
        self.sigma = sigma
        self.epsilon = epsilon
        self.noise = noise
        self.clip = clip
        self.components = components
        self.target_range = target_range
        self.members = members
        self.dropout = dropout
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.schedule = schedule
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.max_seconds = max_seconds
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.monitor = monitor
        self.categorical_features = categorical_features
        self.device = device
        self.random_state = random_state
        self.progress = progress

    def _fitted(
        self, columns: Columns, features: Array, target: Array, weight: Array | None
    ) -> dict[str, Any]:
        """What `fit` finds out, by the names of the attributes."""
        settings, objective = self._settings(), self._objective(target)
        return self._train(features, target, weight, objective, settings)

    def _settings(self) -> Settings:
        if not (isinstance(self.members, int) and self.members >= 1):
            raise ValueError(f"members: need a whole number of at least 1, got {self.members!r}")
        if not 0 < self.validation_fraction < 1:
            raise ValueError(
                f"validation_fraction: must lie in (0, 1), got {self.validation_fraction}"
            )
        return Settings(
            epochs=self.max_epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            schedule=self.schedule,
            max_seconds=self.max_seconds,
            patience=self.patience if self.early_stopping else None,
            monitor=self.monitor,
            evaluate=("train", "validation"),
        )

    def _train(
        self,
        features: Array,
        target: Array,
        weight: Array | None,
        objective: Objective,
        settings: Settings,
    ) -> dict[str, Any]:
        device = chosen_device(self.device)
        scaling = Scaling.standard(features)
        x = scaling(features).to(device)
        y = target_tensor(target).to(device)
        first = int(check_random_state(self.random_state).randint(2**31 - 1))
        seeds = [first + member for member in range(self.members)]
        network = StackedMLP(x.shape[1], self.hidden, objective.outputs, seeds, self.dropout)
        network.to(device)
        rows, validation = self._split(len(y), seeds)
        weights = None if weight is None else torch.from_numpy(weight).to(y)
        trainer = Trainer(network, objective, x, y, rows, seeds, settings, validation, weights)
        if target.min() == target.max():
            predict_constant(network, objective, y[:1])
        else:
            trainer.run(progress_callback(self.progress))
        # Predictions are made in float64: the rows beside a row do not matter but for rounding.
        network = network.cpu().double().eval()
        fitted = {"network_": network, "objective_": objective, "scaling_": scaling}
        fitted |= {"history_": trainer.history, "n_epochs_": trainer.epoch}
        if isinstance(objective, HistogramObjective):
            fitted["bins_"] = objective.bins
        return fitted

    def _split(self, rows: int, seeds: Sequence[int]) -> tuple[list[Tensor], list[Tensor] | None]:
        """Each member's training rows, and those it is stopped by."""
        if not self.early_stopping:
            everything = torch.arange(rows)
            return [everything] * len(seeds), None
        held = max(1, round(self.validation_fraction * rows))
        if held >= rows:
            raise ValueError(
                f"validation_fraction: {self.validation_fraction} of n_samples={rows} leaves no "
                "row to train on; give more rows or turn early_stopping off"
            )
        orders = [
            torch.randperm(rows, generator=torch.Generator().manual_seed(seed)) for seed in seeds
        ]
        return [order[held:] for order in orders], [order[:held] for order in orders]

    def _objective(self, y: Array) -> Objective:
        low, high = range_of(y, self.target_range, self.bins)
        return self._objective_on(low, high, self.bins)

    def _objective_on(self, low: float, high: float, bins: int | Bins) -> Objective:
        names = ("sigma", "epsilon", "noise", "clip", "components")
        parameters = {name: getattr(self, name) for name in names}
        return make_objective(self.objective, low, high, bins=bins, **parameters)

    def _state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        return {}, {"edges": self.bins_.edges} if hasattr(self, "bins_") else {}

    def _set_state(self, header: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        bins = self.bins
        if "edges" in tensors:
            bins = self.bins_ = Bins(tensors.pop("edges"))
        low, high = header["range"]
        self.objective_ = self._objective_on(low, high, bins)
        inputs, outputs = len(self.columns_.encoded_features), self.objective_.outputs
        self.network_ = StackedMLP(inputs, self.hidden, outputs, range(self.members), self.dropout)


def range_of(y: Array, given: tuple[float, float] | None, bins: int | Bins) -> tuple[float, float]:
    """The target's range: given, that of given bins, or that of the targets themselves."""
    low, high = float(y.min()), float(y.max())
    if isinstance(bins, Bins):
        given = (bins.low, bins.high)
    if given is not None:
        if low < given[0] or high > given[1]:
            raise ValueError(
                f"y: targets from {low:g} to {high:g} lie outside the range "
                f"[{given[0]:g}, {given[1]:g}] that bins or target_range give; widen it"
            )
        return float(given[0]), float(given[1])
    if low == high:
        room = max(abs(low), 1.0) / 2
        return low - room, high + room
    return low, high


def mixture(members: Histogram) -> Histogram:
    """The mean of the members' probabilities."""
    return Histogram(members.bins, logits=members.probs.mean(0).log())


def target_tensor(y: Array) -> Tensor:
    """Float32 unless that would blur the targets, such as prices around 1e9 that differ by 1."""
    largest, spread = float(np.abs(y).max()), float(y.max()) - float(y.min())
    sharp = largest * np.finfo(np.float32).eps <= 1e-5 * spread
    return torch.from_numpy(y.astype(np.float32 if sharp else np.float64))


@torch.no_grad()
def predict_constant(network: StackedMLP, objective: Objective, y: Tensor) -> None:
    """Set the output layer to the best answer for a target that never changes."""
    weight, bias = network.last_layer()
    weight.zero_()
    bias.copy_(objective.outputs_for(y))


def chosen_device(name: str) -> torch.device:
    """The device of that name, or the best there is."""
    if name != "auto":
        return torch.device(name)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@contextmanager
def one_thread() -> Iterator[None]:
    """Two threads inside a small network are slower than one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def as_numpy(values: Tensor) -> Array:
    """Float64, as scikit-learn's users expect."""
    return values.double().numpy()
