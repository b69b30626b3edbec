"""What goes into an estimator, checked, and a fitted one as a header and tensors for `storage`."""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_X_y
from sklearn.utils.validation import validate_data
from torch import Tensor

from softbins import _model_file as storage
from softbins.bins import Bins
from softbins.tabular.columns import Columns
from softbins.tabular.frames import DATES_NOT_TAKEN, HOW_TO_PASS_CATEGORIES, Array, frame_library
from softbins.tabular.scaling import Scaling

LARGEST = 1e37  # target, and one over the smallest spread of targets


# Data


def training_data(
    regressor: Any, X: Any, y: Any, weight: ArrayLike | None
) -> tuple[Columns, Array, Array, Array | None]:
    """How columns are encoded, and encoded features, targets and weights of the rows that count."""
    categorical = regressor.categorical_features
    listed = categorical is not None and not isinstance(categorical, str)
    X, y = _checked(regressor, X, y, text=listed)
    # A copy, because a frame's column may be read-only, which torch does not take.
    target, weights = np.array(y, dtype=np.float64), _checked_weight(weight, len(y))
    _check_unit(target)
    used = ... if weights is None else weights > 0  # a row without weight is no row
    columns = Columns.fit(X, categorical, used)
    # scikit-learn finds names in more kinds of tables.
    names = getattr(regressor, "feature_names_in_", None)
    columns = replace(columns, names=None if names is None else names.tolist())
    weights = None if weights is None else weights[used]
    return columns, columns.transform(X)[used], target[used], weights


def prediction_data(regressor: Any, X: Any) -> Array:
    """Encoded features for a fitted estimator."""
    columns: Columns = regressor.columns_
    X = _checked(regressor, X, reset=False, text="category" in columns.kinds)
    return columns.transform(X)


def _checked(
    regressor: Any, X: Any, y: Any = "no_validation", reset: bool = True, text: bool = False
) -> Any:
    """What scikit-learn checks, for DataFrames without making them arrays of numbers."""
    if frame_library(X) is not None:
        checked = validate_data(regressor, X, y, reset=reset, skip_check_array=True)
        if 0 in X.shape:
            raise ValueError(f"X: found 0 sample(s) or feature(s), shape {X.shape}; need 1 of each")
        if not reset:
            return checked
        return X, check_X_y(np.zeros((len(X), 1)), y, y_numeric=True, estimator=regressor)[1]
    kind = np.asarray(X).dtype.kind
    if kind in "mM":
        raise ValueError(f"X: {DATES_NOT_TAKEN}")
    how: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
    if text and kind in "OUT":
        how = {"dtype": object, "ensure_all_finite": False}
    if reset:
        how["y_numeric"] = True
    try:
        return validate_data(regressor, X, y, reset=reset, **how)
    except ValueError as error:
        if "could not convert string" not in str(error):
            raise
        raise ValueError(f"{error}; {HOW_TO_PASS_CATEGORIES}") from error


def _check_unit(y: Array) -> None:
    largest, spread = float(np.abs(y).max()), float(y.max()) - float(y.min())
    if largest > LARGEST or 0 < spread < 1 / LARGEST:
        raise ValueError(
            f"y: targets of up to {largest:g} that differ by {spread:g} at most cannot be trained "
            "in float32; give them in another unit"
        )


def _checked_weight(weight: ArrayLike | None, rows: int) -> Array | None:
    if weight is None:
        return None
    values = np.asarray(weight, dtype=np.float64)
    if values.shape != (rows,):
        raise ValueError(f"sample_weight: shape {values.shape} does not match {rows} samples")
    if not np.isfinite(values).all() or (values < 0).any():
        bad = int(np.flatnonzero(~(np.isfinite(values) & (values >= 0)))[0])
        raise ValueError(
            f"sample_weight: weights must be finite and not negative, got {values[bad]} at {bad}"
        )
    if not values.any():
        raise ValueError("sample_weight: all weights are zero, which leaves nothing to learn from")
    return values


# Files


def save(regressor: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to one file."""
    header = {
        "class": type(regressor).__name__,
        "parameters": {k: _plain(k, v) for k, v in regressor.get_params(deep=False).items()},
        "range": [regressor.objective_.low, regressor.objective_.high],
        "epochs": regressor.n_epochs_,
        "history": [_finite(row) for row in regressor.history_],
        "columns": regressor.columns_.to_json(),
    }
    # Trained in float32, so that nothing is lost.
    tensors = {name: value.float() for name, value in regressor.network_.state_dict().items()}
    more_header, more_tensors = regressor._state()
    tensors |= regressor.scaling_.tensors() | more_tensors
    storage.write(path, header | more_header, tensors)


def training_summary(model: Any) -> dict[str, Any]:
    """Epochs, and the errors of the weights that were kept, averaged over the members."""
    members: dict[int, list[dict[str, Any]]] = {}
    for row in model.history_:
        members.setdefault(row["member"], []).append(row)
    kept = [_kept(model, rows) for rows in members.values()]
    names = [f"{part}_{error}" for part in ("train", "validation") for error in ("mae", "rmse")]
    known = [name for name in names if kept and all(row.get(name) is not None for row in kept)]
    means = {name: statistics.fmean(row[name] for row in kept) for name in known}
    return {"epochs": max((row["epoch"] for row in model.history_), default=0)} | means


def _kept(model: Any, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The epoch that a member's weights come from: the last, or the best before it stopped."""
    if not model.early_stopping:
        return rows[-1]
    score = f"validation_{model.monitor}"
    # What is not finite is None in a file.
    known = [row for row in rows if row[score] is not None and math.isfinite(row[score])]
    return min(known, key=lambda row: float(row[score]), default=rows[-1])


def load(path: str | os.PathLike[str], classes: Sequence[type]) -> Any:
    """The fitted estimator in a file, of one of those classes."""
    header, tensors = storage.read(path)
    try:
        kind = {c.__name__: c for c in classes}[header["class"]]
        chosen = {name: _restored(value) for name, value in header["parameters"].items()}
        regressor = kind(**chosen)
        _restore(regressor, header, tensors)
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise storage.ModelFileError(f"{os.fspath(path)}: holds no model ({reason})") from error
    return regressor


def _restore(regressor: Any, header: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Make a new estimator a fitted one."""
    regressor.scaling_ = Scaling.from_tensors(tensors)
    regressor.columns_ = columns = Columns.from_json(header["columns"])
    regressor._set_state(header, tensors)
    # What is left of the tensors are the network's.
    regressor.network_.load_state_dict(tensors)
    regressor.network_ = regressor.network_.double().eval()
    regressor.history_, regressor.n_epochs_ = header["history"], header["epochs"]
    regressor.n_features_in_ = len(columns.encoders)
    if columns.names is not None:
        regressor.feature_names_in_ = np.asarray(columns.names, dtype=object)


def _finite(row: dict[str, float | int]) -> dict[str, float | int | None]:
    """JSON has no NaN, which a training that ran off leaves in its history."""
    return {name: value if math.isfinite(value) else None for name, value in row.items()}


def _plain(name: str, value: Any) -> Any:
    """A parameter as JSON. Random generators and callbacks are of no use to a fitted model."""
    if isinstance(value, Bins):
        return {"edges": value.edges.tolist()}
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if isinstance(value, (tuple, list)):
        return [_plain(name, part) for part in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return False if name == "progress" else None


def _restored(value: Any) -> Any:
    if isinstance(value, dict):
        return Bins(value["edges"])
    return tuple(value) if isinstance(value, list) else value
