"""A fitted estimator as the header and tensors of a model file, and back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softbins._core.model_file import ModelFileError
from softbins._core.model_file import read as read_model_file
from softbins._core.model_file import write as write_model_file
from softbins._core.text import finite
from softbins.bins import Bins
from softbins.nn.stack import StackedMLP
from softbins.tabular.columns import Columns
from softbins.tabular.model_schema import check_model
from softbins.tabular.scaling import Scaling

MAX_REASON_CHARACTERS = 200
# Names in files of older versions, and what they are called today.
OLD_NAMES = {
    "optimiser": "optimizer",
    "share": "tree_share",
    "parts": "bin_splits",
    "wide": "interval_temperature",
}


def save(regressor: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to one file."""
    header = {
        "class": type(regressor).__name__,
        "parameters": {k: _plain(k, v) for k, v in regressor.get_params(deep=False).items()},
        "range": [regressor.objective_.low, regressor.objective_.high],
        "epochs": regressor.n_epochs_,
        "history": finite(regressor.history_),  # JSON has no NaN, which a failed training leaves
        "columns": regressor.columns_.to_json(),
    }
    # Trained in float32, so that nothing is lost.
    tensors = {name: value.float() for name, value in regressor.network_.state_dict().items()}
    more_header, more_tensors = regressor._state()
    tensors |= regressor.scaling_.tensors() | more_tensors
    header |= more_header
    try:
        check_model(header, tensors)
    except ValueError as error:
        raise ValueError(
            f"model: cannot be saved, because it could not be loaded again ({error}); fit it anew, "
            "with a lower learning_rate or numbers in another unit if it has diverged"
        ) from error
    write_model_file(path, header, tensors)


def read_model(path: str | os.PathLike[str], classes: Sequence[type]) -> Any:
    """The fitted estimator in a file, of one of those classes."""
    header, tensors = read_model_file(path)
    try:
        header = _upgraded(header)
        check_model(header, tensors)
        kind = {c.__name__: c for c in classes}[header["class"]]
        chosen = {name: _restored(value) for name, value in header["parameters"].items()}
        regressor = kind(**chosen)
        _restore(regressor, header, tensors)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:MAX_REASON_CHARACTERS]
        raise ModelFileError(f"{os.fspath(path)}: holds no model ({reason})") from error
    return regressor


def _upgraded(header: dict[str, Any]) -> dict[str, Any]:
    """A header of an older version with the names of today; the schema looks at what is in it."""
    header = dict(header)
    if "finish" in header:
        header["aggregator"] = header.pop("finish")
    for part in ("parameters", "aggregator"):
        if isinstance(header.get(part), dict):
            header[part] = {
                OLD_NAMES.get(name, name): value for name, value in header[part].items()
            }
    # Dropout in hidden layers changed the training only, not what is predicted.
    if header.get("class") == "HistogramRegressor" and isinstance(header.get("parameters"), dict):
        header["parameters"].pop("dropout", None)
    return header


def _restore(regressor: Any, header: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Make a new estimator a fitted one."""
    regressor.scaling_ = Scaling.from_tensors(tensors)
    regressor.columns_ = columns = Columns.from_json(header["columns"])
    regressor._set_state(header, tensors)
    # What is left of the tensors are the network's.
    _give_weights(regressor.network_, tensors, regressor.scaling_.precision)
    regressor.history_, regressor.n_epochs_ = header["history"], header["epochs"]
    regressor.n_features_in_ = len(columns.encoders)
    if columns.names is not None:
        regressor.feature_names_in_ = np.asarray(columns.names, dtype=object)


@torch.no_grad()
def _give_weights(network: StackedMLP, tensors: dict[str, Tensor], precision: torch.dtype) -> None:
    """Make a network of one member one of all members in a file, without drawing their weights."""
    own = dict(network.named_parameters()) | dict(network.named_buffers())
    if {name: value.shape[1:] for name, value in own.items()} != {
        name: value.shape[1:] for name, value in tensors.items()
    }:
        raise ValueError("tensors: are not those of the network that the header describes")
    for name, value in own.items():
        value.data = tensors[name].to(precision)
    network.members = len(tensors["shift"])
    network.seeds = list(range(network.members))
    network.eval()


def _plain(name: str, value: Any) -> Any:
    """A parameter as JSON. Random generators and callbacks are of no use to a fitted model."""
    if isinstance(value, Bins):
        return {"edges": value.edges.tolist()}
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if isinstance(value, (tuple, list, range)):
        return [_plain(name, part) for part in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return False if name == "progress" else None


def _restored(value: Any) -> Any:
    if isinstance(value, dict):
        return Bins(value["edges"])
    return tuple(value) if isinstance(value, list) else value
