"""A fitted estimator as a header and tensors: what `storage` writes and reads without pickle."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softbins import storage
from softbins.bins import Bins
from softbins.network import StackedMLP
from softbins.objectives import make_objective

OF_OBJECTIVES = ("sigma", "epsilon", "noise", "clip", "components")


def save(regressor: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to one file."""
    header = {
        "class": type(regressor).__name__,
        "parameters": {k: _plain(k, v) for k, v in regressor.get_params(deep=False).items()},
        "range": [regressor.objective_.low, regressor.objective_.high],
        "epochs": regressor.n_epochs_,
        "history": [_finite(row) for row in regressor.history_],
        "features": regressor.n_features_in_,
        "feature_names": _names(regressor),
    }
    # Trained in float32, so that nothing is lost.
    tensors = {name: value.float() for name, value in regressor.network_.state_dict().items()}
    tensors["center"] = torch.from_numpy(regressor.center_)
    if hasattr(regressor, "bins_"):
        tensors["edges"] = regressor.bins_.edges
    storage.write(path, header, tensors)


def parameters(header: dict[str, Any]) -> dict[str, Any]:
    """The arguments for the estimator's class."""
    return {name: _restored(value) for name, value in header["parameters"].items()}


def restore(regressor: Any, header: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Make a new estimator a fitted one."""
    regressor.center_ = tensors.pop("center").numpy()
    chosen = {name: getattr(regressor, name) for name in OF_OBJECTIVES if hasattr(regressor, name)}
    chosen["bins"] = regressor.bins
    if "edges" in tensors:
        chosen["bins"] = regressor.bins_ = Bins(tensors.pop("edges"))
    regressor.objective_ = make_objective(regressor.objective, *header["range"], **chosen)
    regressor.network_ = _network(regressor, header["features"], tensors)
    regressor.history_, regressor.n_epochs_ = header["history"], header["epochs"]
    regressor.n_features_in_ = header["features"]
    if header["feature_names"] is not None:
        regressor.feature_names_in_ = np.asarray(header["feature_names"], dtype=object)


def _network(regressor: Any, features: int, tensors: dict[str, Tensor]) -> StackedMLP:
    outputs, seeds = regressor.objective_.outputs, range(regressor.members)
    network = StackedMLP(features, regressor.hidden, outputs, seeds, regressor.dropout)
    network.load_state_dict(tensors)
    return network.double().eval()


def _finite(row: dict[str, float | int]) -> dict[str, float | int | None]:
    """JSON has no NaN, which a training that ran off leaves in its history."""
    return {name: value if math.isfinite(value) else None for name, value in row.items()}


def _names(regressor: Any) -> list[str] | None:
    names = getattr(regressor, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def _plain(name: str, value: Any) -> Any:
    """A parameter as JSON. Random generators and callbacks are of no use to a fitted model."""
    if isinstance(value, Bins):
        return {"edges": value.edges.tolist()}
    if isinstance(value, (np.integer, np.floating)):
        return value.item()
    if isinstance(value, (tuple, list)):
        return [_plain(name, part) for part in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return False if name == "progress" else None


def _restored(value: Any) -> Any:
    if isinstance(value, dict):
        return Bins(value["edges"])
    return tuple(value) if isinstance(value, list) else value
