"""A fitted model as a function of encoded features.

So a row can take each of its columns from another row, and every value is encoded only once.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softbins.tabular.columns import Columns, NumericEncoder


def model_of_features(model: Any) -> Any:
    """The same fitted model, with encoded features for its columns."""
    result, count = copy.copy(model), len(model.columns_.encoded_features)
    result.columns_ = Columns(None, [NumericEncoder("number", 0.0, False)] * count)
    result.n_features_in_ = count
    if hasattr(result, "feature_names_in_"):
        del result.feature_names_in_
    return result


def columns_of_features(model: Any) -> NDArray[np.int64]:
    """The index of the column that each encoded feature comes from."""
    return np.array([feature.column for feature in model.columns_.encoded_features])


def mixed_features(
    features: NDArray[np.float64], columns: NDArray[np.int64], rows: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Features of rows whose columns each have rows of their own: (n, d) numbers of rows."""
    return features[rows[:, columns], np.arange(len(columns))]
