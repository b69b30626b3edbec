"""A fitted estimator as the header and tensors of a model file, and back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softbins._core.model_file import read as read_model_file
from softbins._core.model_file import write as write_model_file
from softbins._core.text import finite
from softbins.bins import Bins
from softbins.nn.stack import StackedMLP
from softbins.tabular.columns import Columns
from softbins.tabular.model_contents import ModelContents, refused_as_no_model, upgraded
from softbins.tabular.model_schema import check_model, layouts_of
from softbins.tabular.provenance import Provenance
from softbins.tabular.scaling import Scaling

OF_THE_MACHINE = ("n_jobs", "callbacks", "on_interrupt")


def save(regressor: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to one file."""
    header, tensors = _header_and_tensors(regressor)
    try:
        check_model(header, tensors)
    except ValueError as error:
        raise ValueError(
            f"model: cannot be saved, because it could not be loaded again ({error}); fit it anew, "
            "with a lower learning_rate or numbers in another unit if it has diverged"
        ) from error
    write_model_file(path, header, tensors)


def contents_of(regressor: Any) -> ModelContents:
    """What the file of a fitted estimator would say of it."""
    header, tensors = _header_and_tensors(regressor)
    return ModelContents(header, layouts_of(tensors))


def _header_and_tensors(regressor: Any) -> tuple[dict[str, Any], dict[str, Tensor]]:
    header = {
        "class": type(regressor).__name__,
        "parameters": _parameters(regressor),
        "range": [regressor.objective_.low, regressor.objective_.high],
        "epochs": regressor.n_epochs_,
        "history": finite(regressor.history_),  # JSON has no NaN, which a failed training leaves
        "columns": regressor.columns_.to_json(),
    }
    if regressor.provenance_ is not None:
        header["provenance"] = regressor.provenance_.to_json()
    # Trained in float32, so that nothing is lost.
    tensors = {name: value.float() for name, value in regressor.network_.state_dict().items()}
    more_header, more_tensors = regressor._state()
    return header | more_header, tensors | regressor.scaling_.tensors() | more_tensors


def _parameters(regressor: Any) -> dict[str, Any]:
    """How the model was made, but for what only concerned those who made it, and where."""
    chosen = regressor.get_params(deep=False).items()
    return {name: _plain(name, value) for name, value in chosen if name not in OF_THE_MACHINE}


def read_model(path: str | os.PathLike[str], classes: Sequence[type]) -> Any:
    """The fitted estimator in a file, of one of those classes."""
    header, tensors = read_model_file(path)
    with refused_as_no_model(path):
        header = upgraded(header)
        check_model(header, tensors)
        kind = {c.__name__: c for c in classes}[header["class"]]
        chosen = {name: _restored(value) for name, value in header["parameters"].items()}
        regressor = kind(**chosen)
        _restore(regressor, header, tensors)
        return regressor


def _restore(regressor: Any, header: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Make a new estimator a fitted one."""
    regressor.scaling_ = Scaling.from_tensors(tensors)
    regressor.columns_ = columns = Columns.from_json(header["columns"])
    regressor._set_state(header, tensors)
    # What is left of the tensors are the network's.
    _give_weights(regressor.network_, tensors, regressor.scaling_.precision)
    regressor.history_, regressor.n_epochs_ = header["history"], header["epochs"]
    regressor.provenance_ = Provenance.from_header(header)
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
    if name == "folds":
        return None
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
