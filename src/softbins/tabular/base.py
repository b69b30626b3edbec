"""What both estimators share: fitting whole or not at all, predictions in chunks, files.

`__init__` stores, `fit` validates, fitted names end in `_`. NumPy comes in and NumPy goes out; the
conversion happens once, here. A failed `fit` leaves a fitted estimator as it was.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, Literal, Self, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from softbins._core.checks import as_floats, weight_column
from softbins.histogram import Histogram
from softbins.nn.objectives import Objective
from softbins.nn.stack import StackedMLP
from softbins.nn.stopping import Stop
from softbins.tabular import validation
from softbins.tabular.aggregate import Outputs
from softbins.tabular.columns import Columns
from softbins.tabular.data import TrainingData
from softbins.tabular.defaults import ScalingKind
from softbins.tabular.device import one_thread
from softbins.tabular.explain import ExplainsPredictions
from softbins.tabular.frame_output import frame_like, summary_columns
from softbins.tabular.html_repr import ShowsWhatWasChosen
from softbins.tabular.interrupts import OnInterrupt, interruptible
from softbins.tabular.jobs import check_jobs, run_in_threads, threads_for
from softbins.tabular.provenance import Provenance, target_name, time_of_fit
from softbins.tabular.scaling import Scaling
from softbins.tabular.writing import WritesFiles

Array = NDArray[np.float64]
Output = Literal["mean", "median", "mode"]

# Rows that go through the networks at a time, of which everything stays in the cache.
PREDICTION_CHUNK = 512
# Products of matrices go through rows in blocks, and add up in another order for a part of a block.
# Only with whole ones does a float32 prediction not depend on the rest of its batch.
ROWS_OF_A_BLOCK = 16


Part = TypeVar("Part")
# From rows to what is predicted for them, a chunk of rows at a time.
Parts = Callable[[Any], Iterator[Part]]


@dataclass(frozen=True)
class EncodedRows:
    """Features that are encoded already, in the place of a table."""

    features: Array


class StackedRegressor(
    ShowsWhatWasChosen, ExplainsPredictions, WritesFiles, RegressorMixin, BaseEstimator
):
    """A stack of networks with an objective: all but the choice of both."""

    _chunk_size = PREDICTION_CHUNK
    scaling: ScalingKind
    trees: bool
    early_stopping: bool
    categorical_features: Any
    random_state: Any
    n_jobs: int | None
    max_seconds: float | None
    on_interrupt: OnInterrupt
    objective_: Objective
    network_: StackedMLP
    scaling_: Scaling
    columns_: Columns
    provenance_: Provenance | None

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Train on a table.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Features. Gaps (NaN) are allowed. In a data frame of pandas, polars, PyArrow or
            any other library that narwhals knows, text, categories, booleans, dates, times and
            durations are taken as well, so that no encoder is needed. Text that is another one in
            nearly every row is left out, with a warning. A sparse matrix is made dense, up to
            1 GB.
        y : array of shape (n_samples,)
            Targets, finite numbers.
        sample_weight : array of shape (n_samples,), optional
            How much each row counts, relative to the others. A row of weight 0 is no row.

        Returns
        -------
        Self
            The fitted estimator. If fitting fails, the estimator stays as it was.
        """
        return self._fit_rows(X, y, sample_weight)

    def _fit_rows(self, X: Any, y: Any, sample_weight: ArrayLike | None, **order: Any) -> Self:
        """Train on a table whose rows may belong together; see `RowOrder.of`."""
        check_jobs(self.n_jobs)
        return self._fit_encoded(
            lambda: self._training_data(X, y, sample_weight, **order), target_name(y)
        )

    def _fit_encoded(
        self, encode: Callable[[], tuple[TrainingData, dict[str, Any]]], target: str | None
    ) -> Self:
        """Train on what a function encodes, with the attributes that go with it."""
        fitted_at, stop = time_of_fit(), Stop(self.max_seconds)
        data, names = encode()
        with one_thread(), interruptible(stop, self.on_interrupt):
            fitted, scores = self._fit(data, stop)
        fitted = {"columns_": data.columns, **names, **fitted}
        fitted["provenance_"] = Provenance.of_fit(
            data,
            columns=fitted["columns_"],
            fitted_at=fitted_at,
            target=target,
            random_state=self.random_state,
            scores=scores,
        )
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                delattr(self, name)
        for name, value in fitted.items():
            setattr(self, name, value)
        return self

    def _training_data(
        self, X: Any, y: Any, sample_weight: ArrayLike | None, **order: Any
    ) -> tuple[TrainingData, dict[str, Any]]:
        """The encoded table, and what scikit-learn found out about the names of its columns."""
        # Validation writes to the estimator it is given, which must not change if fitting fails.
        probe = type(self)()
        data = validation.training_data(
            probe,
            X,
            y,
            sample_weight,
            categorical_features=self.categorical_features,
            scaling=self.scaling,
            trees=bool(self.trees and self.early_stopping),
            **order,
        )
        names = ("n_features_in_", "feature_names_in_")
        return data, {name: getattr(probe, name) for name in names if hasattr(probe, name)}

    def _fit(self, data: TrainingData, stop: Stop) -> tuple[dict[str, Any], dict[str, float]]:
        """What a fit finds out, by the names of the attributes, and errors on held-out rows."""
        raise NotImplementedError

    # Prediction

    def predict(self, X: Any, output: Output = "mean") -> Array:
        """Predict one number for each row.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Features, with the columns that `fit` had.
        output : {"mean", "median", "mode"}, default="mean"
            Which number of the predicted distribution.

        Returns
        -------
        array of shape (n_samples,)
            The predictions.
        """
        if output == "mean":
            return self._collect(X, self._means)
        if output not in ("median", "mode"):
            raise ValueError(f"output: expected 'mean', 'median' or 'mode', got {output!r}")
        return self._collect(X, self._of_distributions(attrgetter(output)))

    def predict_distribution(self, X: Any, calibrated: bool = True) -> Histogram:
        """Predict a distribution for each row.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Features, with the columns that `fit` had.
        calibrated : bool, default=True
            Whether the distribution is the one that rows left out of training have made honest,
            from which all other predictions come. If not, or where no rows were left out, it is
            what the networks say, moved to the predicted mean.

        Returns
        -------
        Histogram
            With the batch shape (n_samples,). It takes up to 16 kB for each row: for millions of
            rows ask for what you need of it instead (`predict_interval`, `predict_quantiles`,
            `predict_cdf`), or for some rows at a time.
        """
        predict = partial(self._distributions, calibrated=calibrated)
        parts = [part for block in self._in_blocks(X, predict) for part in block]
        with one_thread():
            return Histogram(parts[0].bins, logits=torch.cat([part.logits for part in parts]))

    def predict_quantiles(self, X: Any, q: float | Sequence[float] = (0.1, 0.5, 0.9)) -> Array:
        """Predict quantiles for each row.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Features, with the columns that `fit` had.
        q : float or sequence of floats, default=(0.1, 0.5, 0.9)
            Levels between 0 and 1.

        Returns
        -------
        array of shape (n_samples, n_levels)
            One column for each level.
        """
        levels = np.atleast_1d(as_floats("q", q)).tolist()
        return self._collect(X, self._of_distributions(lambda part: part.quantile(levels)))

    def predict_interval(
        self,
        X: Any,
        coverage: float = 0.9,
        kind: Literal["central", "shortest"] = "central",
        calibrated: bool = True,
    ) -> Array:
        """Predict an interval for each row, with that probability in the distribution.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Features, with the columns that `fit` had.
        coverage : float, default=0.9
            Probability that the target lies in the interval, between 0 and 1.
        kind : {"central", "shortest"}, default="central"
            "central" leaves as much probability on either side, and ends at two of the
            `predict_quantiles`; "shortest" is narrower where distributions are skewed.
        calibrated : bool, default=True
            Whether the distribution is the calibrated one; see `predict_distribution`.

        Returns
        -------
        array of shape (n_samples, 2)
            Low and high ends.
        """

        def ends(part: Histogram) -> Tensor:
            return torch.stack(part.interval(coverage, kind), -1)

        return self._collect(X, self._of_distributions(ends, calibrated))

    def predict_cdf(self, X: Any, y: ArrayLike) -> Array:
        """Predict the probability of at most each of some values, for each row.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Features, with the columns that `fit` had.
        y : array of shape (n_values,)
            Values of the target.

        Returns
        -------
        array of shape (n_samples, n_values)
            One column for each value.
        """
        values = torch.from_numpy(np.atleast_1d(as_floats("y", y)))
        return self._collect(X, self._of_distributions(lambda p: p.cdf(values.unsqueeze(-1)).T))

    def predict_frame(self, X: Any, coverage: float = 0.9, quantiles: Sequence[float] = ()) -> Any:
        """Predict a table: the mean, the median and an interval for each row.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Features, with the columns that `fit` had.
        coverage : float, default=0.9
            Probability that the target lies in the interval, between 0 and 1.
        quantiles : sequence of floats, default=()
            Levels of further columns, such as `quantile_0.1`.

        Returns
        -------
        DataFrame
            The columns `mean`, `median`, `low`, `high` and those of the quantiles, with the index
            of X, and of the same library; of pandas if X is no frame. A model that predicts
            numbers, such as one with objective "l2", has the mean only.
        """
        check_is_fitted(self)
        return frame_like(X, summary_columns(self, X, coverage, quantiles))

    def sample(self, X: Any, n_samples: int = 1, random_state: Any = None) -> Array:
        """Draw random targets from the predicted distribution of each row.

        Parameters
        ----------
        X : array or data frame of shape (n_rows, n_features)
            Features, with the columns that `fit` had.
        n_samples : int, default=1
            How many to draw for each row.
        random_state : int, RandomState instance or None, default=None
            A number gives the same samples again.

        Returns
        -------
        array of shape (n_rows, n_samples)
            One column for each draw.
        """
        predicted = self.predict_distribution(X)
        levels = check_random_state(random_state).uniform(
            np.nextafter(0, 1), 1, (n_samples, *predicted.batch_shape)
        )
        with one_thread():
            return as_numpy(predicted.icdf(torch.from_numpy(levels)).T)

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return R2 of the predicted means: 1 if they are right, 0 if no better than a constant.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Features, with the columns that `fit` had.
        y : array of shape (n_samples,)
            The true targets.
        sample_weight : array of shape (n_samples,), optional
            How much each row counts, relative to the others.

        Returns
        -------
        float
            The coefficient of determination.
        """
        target = as_floats("y", y)
        if sample_weight is not None:
            sample_weight = weight_column("sample_weight", sample_weight, len(target))
        return float(super().score(X, target, sample_weight))

    def _mean_and_interval(self, X: Any, coverage: float) -> Array:
        """What `predict` and `predict_interval` say, in columns: mean, low, high."""
        return np.column_stack([self.predict(X), self.predict_interval(X, coverage)])

    def _means(self, X: Any) -> Iterator[Tensor]:
        """Predicted means, a chunk of rows at a time."""
        for outputs in self._outputs(X):
            yield outputs.mean(self.objective_)

    def _distributions(self, X: Any, calibrated: bool = True) -> Iterator[Histogram]:
        """Predicted distributions, a chunk of rows at a time: all at once may fill the memory."""
        for outputs in self._outputs(X):
            yield outputs.mixture(self.objective_)

    def _outputs(self, X: Any) -> Iterator[Outputs]:
        """What the members say, a chunk of rows at a time."""
        features = self._features(X)
        for rows in self._chunks(features):
            yield Outputs(self._apply(self.network_, features[rows]))

    def _features(self, X: Any) -> Array:
        if isinstance(X, EncodedRows):
            return X.features
        check_is_fitted(self)
        return validation.prediction_data(self, X, self.columns_)

    def _chunks(self, features: Array) -> list[slice]:
        """The rows that go through the networks at a time."""
        starts = range(0, len(features), self._chunk_size)
        return [slice(start, start + self._chunk_size) for start in starts]

    @torch.no_grad()
    def _apply(self, network: Callable[[Tensor], Tensor], features: Array) -> Tensor:
        """What a function of scaled features (members, rows, inputs) gives."""
        x = self.scaling_(features).to(self.scaling_.precision)
        whole = F.pad(x, (0, 0, 0, -len(x) % ROWS_OF_A_BLOCK))
        return network(whole.expand(self.network_.members, -1, -1))[:, : len(x)]

    def _of_distributions(
        self, read: Callable[[Histogram], Tensor], calibrated: bool = True
    ) -> Parts[Tensor]:
        """What is read off predicted distributions, a chunk of rows at a time."""
        return lambda X: map(read, self._distributions(X, calibrated))

    def _collect(self, X: Any, parts: Parts[Tensor]) -> Array:
        """All chunks as one array."""
        found = [part for block in self._in_blocks(X, parts) for part in block]
        with one_thread():
            return as_numpy(torch.cat(found))

    def _in_blocks(self, X: Any, parts: Parts[Part]) -> list[list[Part]]:
        """The chunks of rows in as many blocks as there are jobs, which compute in turn.

        Whatever the number of jobs, rows are in the same chunks.
        """
        with one_thread():
            features = self._features(X)
            jobs = 1 if len(features) <= self._chunk_size else threads_for(self.n_jobs)
            if jobs == 1:
                return [list(parts(EncodedRows(features)))]
            chunks = math.ceil(len(features) / self._chunk_size)
            rows = self._chunk_size * math.ceil(chunks / jobs)
            blocks = [EncodedRows(features[i : i + rows]) for i in range(0, len(features), rows)]
            return run_in_threads(lambda block: list(parts(block)), blocks, jobs)

    # Files

    def _state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What a kind of estimator adds to a model file: header and tensors."""
        raise NotImplementedError

    def _set_state(self, header: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Take it back: the objective, and a network whose weights come next."""
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "network_")


def as_numpy(values: Tensor) -> Array:
    """Float64, as scikit-learn's users expect."""
    return values.double().numpy()
