"""What goes into an estimator, checked and encoded."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.utils import check_X_y
from sklearn.utils.validation import validate_data

from softbins._core.checks import refuse_dates, weight_column
from softbins._core.warnings import warn_user
from softbins.tabular.columns import Columns, LeftOutEncoder
from softbins.tabular.data import TrainingData
from softbins.tabular.defaults import ScalingKind
from softbins.tabular.encoding import encode_table
from softbins.tabular.frames import (
    HOW_TO_PASS_CATEGORIES,
    Array,
    as_frame,
    column_title,
    take_rows,
)
from softbins.tabular.row_order import RowOrder
from softbins.tabular.text_kind import REASONS

MAX_DENSE_BYTES = 10**9  # of a sparse matrix as an array of all its numbers
MAX_TARGET = 1e37  # that float32 can train, and one over the smallest spread of targets
# A smaller weight counts as this multiple of the mean weight, which float32 can square and sum.
MIN_WEIGHT = 1e-18


def training_data(
    estimator: Any,
    X: Any,
    y: Any,
    weight: ArrayLike | None,
    categorical_features: Any,
    *,
    scaling: ScalingKind = "standard",
    trees: bool = False,
    max_rows: Callable[[int], float] = lambda columns: math.inf,
    **order: Any,
) -> TrainingData:
    """The rows that count, encoded; scikit-learn's checks write names of columns to `estimator`.

    `trees` says whether trees will learn from them as well. Of more than `max_rows` rows for so
    many columns, random ones are taken, with a warning. What `order` may be says `RowOrder.of`.
    """
    listed = categorical_features is not None and not isinstance(categorical_features, str)
    _refuse_date_targets(y)
    X, y = _checked(estimator, X, y, text=listed)
    # A copy, because a frame's column may be read-only, which torch does not take.
    target = np.array(y, dtype=np.float64)
    check_unit(target)
    weights = None if weight is None else relative_weights(weight, len(target))
    row_order = RowOrder.of(X, target, **order) if order else RowOrder()
    if row_order.splits is None and len(target) > max_rows(X.shape[1]):
        rows = _some_rows(weights, len(target), int(max_rows(X.shape[1])))
        X, target, row_order = take_rows(X, rows), target[rows], row_order.rows(rows)
        weights = None if weights is None else weights[rows]
    used = ... if weights is None else weights > 0  # a row without weight is no row
    columns = Columns.fit(X, categorical_features, used)
    # scikit-learn finds names in more kinds of tables.
    names = getattr(estimator, "feature_names_in_", None)
    columns = replace(columns, names=None if names is None else names.tolist())
    tell_what_is_left_out(columns)
    weighted = weights is not None
    return TrainingData(
        columns=columns,
        encoded=encode_table(columns, X, used, scaling, trees=trees, weighted=weighted),
        target=target[used],
        weight=None if weights is None else weights[used],
        order=row_order.rows(used),
        codes={column: codes[used] for column, codes in columns.rare_codes(X).items()},
    )


def _some_rows(weights: Array | None, n_rows: int, most: int) -> NDArray[np.int64]:
    """So many random rows of a table, in their order, of those that have a weight."""
    known = np.arange(n_rows) if weights is None else np.flatnonzero(weights)
    if len(known) <= most:
        return known
    warn_user(f"max_seconds: learnt from {most} of {n_rows} rows, drawn at random")
    return np.sort(np.random.default_rng(0).choice(known, most, replace=False))


def relative_weights(weight: ArrayLike, n_rows: int) -> Array:
    """Weights with the mean 1, so that a factor to all of them changes nothing; 0 stays 0."""
    weights = weight_column("sample_weight", weight, n_rows)
    used = weights > 0
    relative = weights / weights[used].mean()
    return np.where(used, relative.clip(min=MIN_WEIGHT), 0.0)


def prediction_data(estimator: Any, X: Any, columns: Columns) -> Array:
    """Encoded features for a fitted estimator, whose columns those are."""
    other = any(kind not in ("number", "boolean", "empty") for kind in columns.kinds)
    X = _checked(estimator, X, reset=False, text=other)
    return columns.transform(X)


def _checked(
    estimator: Any, X: Any, y: Any = "no_validation", reset: bool = True, text: bool = False
) -> Any:
    """What scikit-learn checks, for DataFrames without making them arrays of numbers."""
    if as_frame(X) is not None:
        checked = validate_data(estimator, X, y, reset=reset, skip_check_array=True)
        if 0 in X.shape:
            raise ValueError(f"X: found 0 sample(s) or feature(s), shape {X.shape}; need 1 of each")
        if not reset:
            return checked
        return X, check_X_y(np.zeros((len(X), 1)), y, y_numeric=True, estimator=estimator)[1]
    X = dense(X)
    kind = np.asarray(X).dtype.kind
    if reset or not text:
        refuse_dates("X", np.asarray(X), "pass a data frame, or ")
    how: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
    if text and kind in "OUT":
        how = {"dtype": object, "ensure_all_finite": False}
    if reset:
        how["y_numeric"] = True
        if kind in "biuf":
            how["dtype"] = None  # numbers become float64 a block of rows at a time
    try:
        return validate_data(estimator, X, y, reset=reset, **how)
    except ValueError as error:
        if "could not convert string" not in str(error):
            raise
        raise ValueError(f"{error}; {HOW_TO_PASS_CATEGORIES}") from error


def dense(X: Any) -> Any:
    """A sparse matrix as an array, unless that is too large; anything else as it is."""
    if not issparse(X):
        return X
    size = 8 * math.prod(X.shape)
    if size > MAX_DENSE_BYTES:
        raise ValueError(
            f"X: a sparse matrix of shape {X.shape} takes {size / 1e9:.1f} GB as an array, and "
            f"{MAX_DENSE_BYTES / 1e9:g} GB is the most; if it comes from an encoder, leave that "
            "out: text and categories can come as they are, in a data frame"
        )
    return X.toarray()


def tell_what_is_left_out(columns: Columns) -> None:
    """Warn of columns of names or free text; raise if there are no others."""
    for index, encoder in enumerate(columns.encoders):
        if isinstance(encoder, LeftOutEncoder):
            title, reason = column_title(columns.names, index), REASONS[encoder.left_out]
            warn_user(f"X: {title} {reason}; it is left out, unless categorical_features names it")
    if not columns.encoded_features:
        raise ValueError("X: every column is left out as names or free text; need another one")


def _refuse_date_targets(y: Any) -> None:
    if y is not None:  # which scikit-learn has words for
        refuse_dates("y", np.asarray(y))


def check_unit(y: Array) -> None:
    """Raise unless float32 can train targets of this size and spread."""
    largest, spread = float(np.abs(y).max()), float(y.max()) - float(y.min())
    if largest > MAX_TARGET or 0 < spread < 1 / MAX_TARGET:
        raise ValueError(
            f"y: targets of up to {largest:g} that differ by {spread:g} at most cannot be trained "
            "in float32; give them in another unit"
        )
