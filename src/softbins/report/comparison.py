"""The paper's methods side by side on one's own data: cross-validation with members as folds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold
from torch import Tensor

from softbins._text import aligned
from softbins.nn.objectives import METHODS, make_objective
from softbins.nn.stack import StackedMLP
from softbins.nn.trainer import Progress, Settings, Trainer

Array = NDArray[np.float64]
Fold = tuple[NDArray[np.int64], NDArray[np.int64]]


def cross_validate(
    x: Array,
    y: Array,
    method: str,
    folds: int = 5,
    epochs: int = 100,
    seed: int = 0,
    hidden: Sequence[int] = (64, 64, 64, 64),
    progress: Progress | None = None,
    **parameters: Any,
) -> list[dict[str, float]]:
    """MAE and RMSE of a method on each held-out fold; all folds are trained as one stack."""
    if method != "linear" and method not in METHODS:
        raise ValueError(f"method: expected linear or one of {', '.join(METHODS)}, got {method!r}")
    splits = list(KFold(folds, shuffle=True, random_state=seed).split(x))
    if method == "linear":
        errors = [_linear(x, y, split) for split in splits]
    else:
        settings = Settings(epochs=epochs, evaluate=())
        errors = _networks(x, y, splits, method, settings, seed, hidden, progress, parameters)
    return [
        {"fold": fold, "mae": float(np.abs(e).mean()), "rmse": math.sqrt(np.square(e).mean())}
        for fold, e in enumerate(errors)
    ]


def _linear(x: Array, y: Array, split: Fold) -> Array:
    train, test = split
    prediction: Array = LinearRegression().fit(x[train], y[train]).predict(x[test])
    return prediction - y[test]


def _networks(
    x: Array,
    y: Array,
    splits: list[Fold],
    method: str,
    settings: Settings,
    seed: int,
    hidden: Sequence[int],
    progress: Progress | None,
    parameters: dict[str, Any],
) -> list[Array]:
    """The errors of each fold's network on its held-out rows."""
    inputs = torch.from_numpy((x - x.mean(0)).astype(np.float32))
    targets = torch.from_numpy(y.astype(np.float32))
    objective = make_objective(method, float(y.min()), float(y.max()), **parameters)
    errors: dict[int, Array] = {}
    for group in _equal_steps(splits, settings.batch_size):
        seeds = [seed + fold for fold in group]
        rows = [torch.from_numpy(splits[fold][0]) for fold in group]
        network = StackedMLP(x.shape[1], hidden, objective.outputs, seeds)
        Trainer(network, objective, inputs, targets, rows, seeds, settings).run(progress)
        for member, fold in enumerate(group):
            prediction = _predict(network, objective.decode, inputs, splits[fold][1], member)
            errors[fold] = prediction - y[splits[fold][1]]
    return [errors[fold] for fold in range(len(splits))]


def _equal_steps(splits: list[Fold], batch: int) -> list[list[int]]:
    """Folds that have the same number of batches: usually all of them."""
    groups: dict[int, list[int]] = {}
    for fold, (train, _) in enumerate(splits):
        groups.setdefault(math.ceil(len(train) / batch), []).append(fold)
    return list(groups.values())


@torch.no_grad()
def _predict(
    network: StackedMLP, decode: Any, x: Tensor, rows: NDArray[np.int64], member: int
) -> Array:
    network.eval()
    inputs = x[torch.from_numpy(rows)].expand(network.members, -1, -1)
    prediction: Array = decode(network(inputs)[member]).double().numpy()
    return prediction


def score_table(scores: Sequence[dict[str, Any]]) -> str:
    """Methods with their errors and standard errors."""
    rows = [
        [row["method"], *(f"{row[e]:.4g} ± {row[f'{e}_stderr']:.2g}" for e in ("mae", "rmse"))]
        for row in scores
    ]
    return aligned([["method", "MAE", "RMSE"], *rows])
