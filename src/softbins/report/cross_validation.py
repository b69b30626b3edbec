"""Cross-validation of the paper's methods, with the networks of all folds trained as one stack."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold
from torch import Tensor

from softbins.nn.objectives import Objective, make_objective
from softbins.nn.settings import METHODS, Progress, Settings
from softbins.nn.stack import StackedMLP
from softbins.nn.trainer import MemberData, Trainer

Array = NDArray[np.float64]
Index = NDArray[np.int64]

# The network of the paper's experiments (Section 4).
HIDDEN_SIZES = (64, 64, 64, 64)


@dataclass(frozen=True)
class Split:
    """One fold: the rows that are trained on, and the rows that are predicted."""

    train: Index
    test: Index


def cross_validate(
    x: Array,
    y: Array,
    method: str,
    *,
    folds: int = 5,
    epochs: int = 100,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[dict[str, float]]:
    """MAE and RMSE of a method on each held-out fold."""
    if method != "linear" and method not in METHODS:
        raise ValueError(f"method: expected linear or one of {', '.join(METHODS)}, got {method!r}")
    shuffled = KFold(folds, shuffle=True, random_state=seed)
    splits = [Split(train, test) for train, test in shuffled.split(x)]
    if method == "linear":
        errors = [_linear_errors(x, y, split) for split in splits]
    else:
        networks = _Networks(
            # Centered in float64, because float32 would lose small differences of large numbers.
            inputs=torch.from_numpy((x - x.mean(0)).astype(np.float32)),
            y=y,
            objective=make_objective(method, float(y.min()), float(y.max())),
            settings=Settings(epochs=epochs, evaluate=()),
            seed=seed,
        )
        errors = networks.errors(splits, progress)
    return [
        {"fold": fold, "mae": float(np.abs(e).mean()), "rmse": math.sqrt(np.square(e).mean())}
        for fold, e in enumerate(errors)
    ]


def _linear_errors(x: Array, y: Array, split: Split) -> Array:
    model = LinearRegression().fit(x[split.train], y[split.train])
    prediction: Array = model.predict(x[split.test])
    return prediction - y[split.test]


@dataclass(frozen=True)
class _Networks:
    """The networks of one method: what they learn from, and how."""

    inputs: Tensor
    y: Array
    objective: Objective
    settings: Settings
    seed: int

    def errors(self, splits: Sequence[Split], progress: Progress | None) -> list[Array]:
        """The errors of each fold's network on its held-out rows."""
        errors: dict[int, Array] = {}
        for folds in _folds_of_one_stack(splits, self.settings.batch_size):
            network = self._train([splits[fold] for fold in folds], folds, progress)
            for member, fold in enumerate(folds):
                test = splits[fold].test
                errors[fold] = self._predict(network, member, test) - self.y[test]
        return [errors[fold] for fold in range(len(splits))]

    def _train(
        self, splits: Sequence[Split], folds: Sequence[int], progress: Progress | None
    ) -> StackedMLP:
        """A stack with a trained network for each split; the number of its fold is its seed."""
        seeds = [self.seed + fold for fold in folds]
        network = StackedMLP(self.inputs.shape[1], HIDDEN_SIZES, self.objective.outputs, seeds)
        data = MemberData(
            x=self.inputs,
            y=torch.from_numpy(self.y.astype(np.float32)),
            rows=[torch.from_numpy(split.train) for split in splits],
        )
        Trainer(network, self.objective, data, self.settings, seeds).run(progress)
        return network

    @torch.no_grad()
    def _predict(self, network: StackedMLP, member: int, index: Index) -> Array:
        """What one member of a stack predicts for the rows of that index."""
        network.eval()
        inputs = self.inputs[torch.from_numpy(index)].expand(network.members, -1, -1)
        prediction: Array = self.objective.decode(network(inputs)[member]).double().numpy()
        return prediction


def _folds_of_one_stack(splits: Sequence[Split], batch_size: int) -> list[list[int]]:
    """Groups of folds with the same number of batches, which is usually one group of all folds."""
    groups: dict[int, list[int]] = {}
    for fold, split in enumerate(splits):
        groups.setdefault(math.ceil(len(split.train) / batch_size), []).append(fold)
    return list(groups.values())
