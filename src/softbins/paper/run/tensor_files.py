"""The files of a store that hold tensors: checkpoints of a training, and weights that it lends.

Both are model files, which have a digest, and say which runs they belong to. What is wrong with
one is a `ValueError` before anything of it is used.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from softbins._core import model_file
from softbins._core.text import finite
from softbins.nn.stack import StackedMLP
from softbins.nn.trainer import Trainer
from softbins.paper.run.file_rules import FILE_FORMAT, check_checkpoint, check_weights
from softbins.paper.run.plan import Run

Header = dict[str, Any]
Tensors = dict[str, Tensor]
# More than any of these files has. Whatever is larger is not read.
LARGEST_FILE = 2**30


# Checkpoints


def write_checkpoint(path: Path, runs: Sequence[Run], trainer: Trainer[StackedMLP]) -> None:
    """Write all that a trainer of these runs needs to go on from here."""
    state, tensors = trainer.checkpoint()
    header = {"format": FILE_FORMAT, "runs": [run.to_json() for run in runs], **finite(state)}
    model_file.write(path, header, tensors)


def read_checkpoint(path: Path, runs: Sequence[Run]) -> tuple[Header, Tensors] | None:
    """The state and the tensors of a checkpoint of these runs; None if there is none."""
    found = _read(path)
    if found is None:
        return None
    header, tensors = found
    check_checkpoint(header, runs)
    history = [
        {name: math.nan if value is None else value for name, value in row.items()}
        for row in header["history"]
    ]
    return {**header, "history": history}, tensors


def resume(
    trainer: Trainer[StackedMLP], state: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> None:
    """Let a new trainer go on from a checkpoint; `ValueError` if it is one of other networks."""
    members = len(state["running"])
    _, fresh = trainer.checkpoint()
    for name, tensor in fresh.items():
        if name.startswith(("parameter.", "adam.")) and tensor.ndim:
            fresh[name] = tensor[:members]  # those that have stopped are no longer in there
    _check_alike(tensors, fresh)
    for name in fresh:
        if name.startswith("generator."):
            _check_generator(name, tensors[name])
    trainer.resume(dict(state), dict(tensors))


def _check_generator(name: str, state: Tensor) -> None:
    try:
        torch.Generator().set_state(state)
    except RuntimeError as error:
        raise ValueError(f"its tensor {name} is no state of a generator") from error


# Weights


def write_weights(path: Path, run: Run, weights: Tensors) -> None:
    """Write the weights of a run."""
    model_file.write(path, {"format": FILE_FORMAT, "run": run.to_json()}, weights)


def read_weights(path: Path, run: Run) -> Tensors | None:
    """The weights of a run; None if there are none."""
    found = _read(path)
    if found is None:
        return None
    header, tensors = found
    check_weights(header, run)
    _check_alike(tensors, _similar_weights(tensors, run))
    return tensors


def _similar_weights(tensors: Tensors, run: Run) -> Tensors:
    """The weights of a new network with as many features and outputs as these are for."""
    first, last = tensors.get("weights.0"), tensors.get(f"biases.{len(run.hidden)}")
    if first is None or last is None or not first.ndim == last.ndim == 2:
        raise ValueError("its tensors are not those of the networks of this run")
    network = StackedMLP(first.shape[0], run.hidden, last.shape[-1], [0])
    return {name: value[0] for name, value in network.state_dict().items()}


# Both


def _read(path: Path) -> tuple[Header, Tensors] | None:
    """The content of a model file, None if nothing is there, `ValueError` if it is none."""
    try:
        if os.path.getsize(path) > LARGEST_FILE:
            raise ValueError("it is far too large")
        return model_file.read(path)
    except OSError as error:
        if not os.path.lexists(path):
            return None
        raise ValueError("it cannot be read") from error
    except model_file.ModelFileError as error:
        # Without the path, which others name, and the advice, which is for models.
        reason = str(error).removeprefix(f"{path}: ").partition(";")[0]
        raise ValueError(f"it is {reason}") from error


def _check_alike(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    """Raise unless both have tensors of the same names, shapes and kinds."""
    shapes = [
        {name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()}
        for tensors in (found, wanted)
    ]
    if shapes[0] != shapes[1]:
        raise ValueError("its tensors are not those of the networks of this run")
