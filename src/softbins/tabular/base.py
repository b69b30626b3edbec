"""What both estimators share: fitting whole or not at all, and files.

`__init__` stores, `fit` validates, fitted names end in `_`. NumPy comes in and NumPy goes out; the
conversion happens once, here. A failed `fit` leaves a fitted estimator as it was.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from torch import Tensor

from softbins._core.checks import as_floats, weight_column
from softbins._core.memory import release_freed_memory
from softbins.nn.objectives import Objective
from softbins.nn.stack import StackedMLP
from softbins.nn.stopping import Stop
from softbins.tabular import validation
from softbins.tabular.columns import Columns
from softbins.tabular.data import TrainingData
from softbins.tabular.defaults import ScalingKind
from softbins.tabular.device import one_thread
from softbins.tabular.explain import ExplainsPredictions
from softbins.tabular.html_repr import ShowsWhatWasChosen
from softbins.tabular.interrupts import OnInterrupt, interruptible
from softbins.tabular.jobs import check_jobs
from softbins.tabular.predictions import PredictsDistributions
from softbins.tabular.provenance import Provenance, target_name, time_of_fit
from softbins.tabular.scaling import Scaling
from softbins.tabular.writing import WritesFiles

Array = NDArray[np.float64]


@dataclass(frozen=True)
class EncodedTable:
    """A table that is ready for the training, and when the fit began that it is part of."""

    data: TrainingData
    names: dict[str, Any]
    """What scikit-learn found out about the names of its columns, by the names of attributes."""
    target: str | None
    fitted_at: str
    stop: Stop


class StackedRegressor(
    PredictsDistributions,
    ShowsWhatWasChosen,
    ExplainsPredictions,
    WritesFiles,
    RegressorMixin,
    BaseEstimator,
):
    """A stack of networks with an objective: all but the choice of both."""

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
        return self._fit_encoded(self._encoded(X, y, sample_weight))

    def _encoded(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, **order: Any
    ) -> EncodedTable:
        """The first half of `fit`. Rows may belong together; see `RowOrder.of`."""
        check_jobs(self.n_jobs)
        fitted_at, stop = time_of_fit(), Stop(self.max_seconds)
        data, names = self._training_data(X, y, sample_weight, **order)
        return EncodedTable(data, names, target_name(y), fitted_at, stop)

    def _fit_encoded(self, table: EncodedTable) -> Self:
        """The second half of `fit`: train."""
        with one_thread(), interruptible(table.stop, self.on_interrupt):
            fitted, scores = self._fit(table.data, table.stop)
        fitted = {"columns_": table.data.columns, **table.names, **fitted}
        fitted["provenance_"] = Provenance.of_fit(
            table.data,
            columns=fitted["columns_"],
            fitted_at=table.fitted_at,
            target=table.target,
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
            max_rows=self._max_rows,
            **order,
        )
        names = ("n_features_in_", "feature_names_in_")
        return data, {name: getattr(probe, name) for name in names if hasattr(probe, name)}

    def _max_rows(self, columns: int) -> float:
        """Rows of a table of so many columns to learn from, at most."""
        return math.inf

    def _fit(self, data: TrainingData, stop: Stop) -> tuple[dict[str, Any], dict[str, float]]:
        """What a fit finds out, by the names of the attributes, and errors on held-out rows."""
        raise NotImplementedError

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


def fit_and_release(model: StackedRegressor, table: list[Any], y: Any, **order: Any) -> None:
    """Fit to the only element of a list, which is taken out of it.

    So nobody has to hold the table itself while networks learn from its encoded features.
    """
    encoded = model._encoded(table.pop(), y, **order)
    release_freed_memory(encoded.data.features.nbytes)
    model._fit_encoded(encoded)
