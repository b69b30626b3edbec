"""A model as a function of the cells of a table, for scikit-learn's inspection.

`permutation_importance` and `partial_dependence` move values within the columns of a table. They
are given a table of row numbers instead: cell (i, j) says from which row of the user's table
column j of row i takes its value. So a column is what the user knows as one, however it is
encoded, text and gaps are as good as numbers, and each value is encoded only once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin

from softbins.tabular.encoded_model import (
    columns_of_features,
    mixed_features,
    model_of_features,
)
from softbins.tabular.validation import prediction_data

Array = NDArray[np.float64]
Index = NDArray[np.int64]

# Encoded features that go through a model in about twenty seconds, if its networks are many.
AFFORDABLE_FEATURES = 2_000_000


class EncodedTable:
    """A model, and a table whose columns are encoded for it, once."""

    def __init__(self, model: Any, X: Any) -> None:
        self.features = prediction_data(model, X, model.columns_)
        self.model = model_of_features(model)
        self.has_distribution = bool(model.objective_.has_distribution)
        self.owners = columns_of_features(model)
        self.n_columns = len(model.columns_.kinds)

    @property
    def affordable_predictions(self) -> int:
        """How many rows may be predicted for one part of a page, so that it takes no minutes."""
        return AFFORDABLE_FEATURES // len(self.owners)

    def outputs(self, rows: Index, coverages: Sequence[float]) -> Array:
        """Means (n,), and low and high ends of intervals, as columns, for row numbers (n, d).

        Without a distribution there are only means.
        """
        features = mixed_features(self.features, self.owners, rows)
        mean = np.asarray(self.model.predict(features))[:, None]
        if not self.has_distribution:
            return mean
        ends = [self.model.predict_interval(features, coverage) for coverage in coverages]
        return np.concatenate([mean, *ends], axis=1)


class CellModel(RegressorMixin, BaseEstimator):
    """Predicts means and ends of intervals from row numbers in some columns of a table.

    The other columns of row i have the values of row `rows[i]`. It is fitted from the beginning.
    """

    def __init__(
        self, table: EncodedTable, rows: Index, columns: Sequence[int], coverages: Sequence[float]
    ) -> None:
        self.table = table
        self.rows = rows
        self.columns = columns
        self.coverages = coverages

    @property
    def cells(self) -> Array:
        """The table of row numbers (n, columns) in which nothing is moved."""
        # scikit-learn takes no whole numbers for the values of a column.
        return np.repeat(self.rows[:, None], len(self.columns), axis=1).astype(np.float64)

    def predict(self, X: Array) -> Array:
        """Means and ends of intervals (n, 1 + 2 coverages) for cells (n, columns)."""
        rows = np.repeat(self.rows[:, None], self.table.n_columns, axis=1)
        rows[:, list(self.columns)] = X
        return self.table.outputs(rows, self.coverages)

    def fit(self, X: Any, y: Any) -> Self:
        """Nothing is left to be learnt."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True
