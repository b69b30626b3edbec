"""Boosted trees beside the networks: where trees are better, their mean takes part.

scikit-learn's HistGradientBoostingRegressor grows them, for each held-out fold from the other rows.
What is kept are plain arrays, which a model file can hold without pickle, and which predict the
same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor
from torch import Tensor

Array = NDArray[np.float64]
Rows = NDArray[np.int64]

ROUNDS = 300
WIDE = 200  # columns, beyond which there are fewer rounds: each takes as much longer


class Growth(NamedTuple):
    """How trees grow on tables of up to `most` rows."""

    most: float
    rate: float
    fewer: int  # rounds, so many times
    leaves: int  # of a tree, at most
    rows: int  # of a leaf, at least


# On a few hundred rows small trees err less, and their time is mostly that of their leaves.
GROWTH = (
    Growth(500, rate=0.25, fewer=2, leaves=12, rows=1),
    Growth(1_000, rate=0.25, fewer=2, leaves=16, rows=1),
    Growth(2_000, rate=0.16, fewer=2, leaves=31, rows=1),
    Growth(5_000, rate=0.16, fewer=2, leaves=31, rows=2),
    Growth(20_000, rate=0.08, fewer=1, leaves=31, rows=5),
    Growth(math.inf, rate=0.08, fewer=1, leaves=31, rows=20),
)
ARRAYS = ("feature", "threshold", "left", "right", "value", "roots", "depths")


@dataclass(frozen=True)
class Forest:
    """Trees as arrays over their nodes; a leaf points to itself, and its value counts."""

    feature: NDArray[np.int64]
    threshold: Array
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    value: Array
    roots: NDArray[np.int64]
    depths: NDArray[np.int64]
    base: float
    features: int

    @classmethod
    def of(cls, models: Sequence[Any], rounds: int) -> Forest:
        """The mean of fitted ensembles, of each the first `rounds` trees."""
        trees = [stage[0].nodes for model in models for stage in model._predictors[:rounds]]
        sizes = [len(tree) for tree in trees]
        roots = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        nodes, start = np.concatenate(trees), np.repeat(roots, sizes)
        leaf, own = nodes["is_leaf"].astype(bool), np.arange(len(nodes))
        return cls(
            feature=np.where(leaf, 0, nodes["feature_idx"]).astype(np.int64),
            threshold=np.where(leaf, 0.0, nodes["num_threshold"]),
            left=np.where(leaf, own, start + nodes["left"]).astype(np.int64),
            right=np.where(leaf, own, start + nodes["right"]).astype(np.int64),
            value=np.where(leaf, nodes["value"], 0.0) / len(models),
            roots=roots,
            depths=np.array([tree["depth"].max() for tree in trees], dtype=np.int64),
            base=float(np.mean([np.ravel(model._baseline_prediction)[0] for model in models])),
            features=int(models[0].n_features_in_),
        )

    def predict(self, x: Array) -> Array:
        """The mean prediction for rows (n, features)."""
        total = np.full(len(x), self.base)
        flat, first = np.ascontiguousarray(x).reshape(-1), np.arange(len(x)) * self.features
        for root, depth in zip(self.roots, self.depths, strict=True):
            # One tree at a time: its few nodes stay in the fastest memory.
            place = np.full(len(x), root)
            for _ in range(depth):
                below = flat[first + self.feature[place]] <= self.threshold[place]
                place = np.where(below, self.left[place], self.right[place])
            total += self.value[place]
        return total

    def tensors(self) -> dict[str, Tensor]:
        """Everything as tensors, for a model file."""
        arrays = {name: torch.from_numpy(getattr(self, name)) for name in ARRAYS}
        numbers = torch.tensor([self.base, self.features], dtype=torch.float64)
        return {f"forest.{name}": value for name, value in (arrays | {"rest": numbers}).items()}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> Forest:
        """What `tensors` gave, taken out of the tensors of a model file."""
        arrays = {name: tensors.pop(f"forest.{name}").numpy() for name in ARRAYS}
        base, features = tensors.pop("forest.rest").tolist()
        forest = cls(**arrays, base=base, features=int(features))
        forest._check()
        return forest

    def _check(self) -> None:
        nodes = len(self.value)
        if len({nodes, *map(len, (self.feature, self.threshold, self.left, self.right))}) > 1:
            raise ValueError("forest: its arrays differ in length")
        if len(self.roots) != len(self.depths) or (self.depths > nodes).any():
            raise ValueError("forest.depths: need one for each tree, of at most its nodes")
        for name in ("left", "right", "roots", "feature"):
            places = getattr(self, name)
            limit = self.features if name == "feature" else nodes
            if len(places) and not 0 <= places.min() <= places.max() < limit:
                raise ValueError(f"forest.{name}: points outside of the {limit} that there are")


@dataclass(frozen=True)
class Grown:
    """A forest, what its trees predict for rows that they have not seen, and how well.

    `targets` are what those rows should have been predicted to be.
    """

    forest: Forest
    held_out: Array
    targets: Array
    error: float


def grow(
    x: Array,
    y: Array,
    weight: Array | None,
    folds: Sequence[Rows],
    limit: int,
    seed: int,
    ensembles: int = 4,
    haste: int = 1,
) -> Grown:
    """At least `ensembles`, and one for each fold, fitted to all rows but the fold's.

    With `haste` they learn so many times as fast from as many times fewer trees.

    Of each fold, `limit` rows are judged; `held_out` has those of all folds in turn. All
    ensembles get the number of trees with the least squared error, so that a single row has next
    to no influence on it.
    """
    models: list[HistGradientBoostingRegressor] = []
    stages: list[Array] = []
    each = math.ceil(ensembles / len(folds))
    judges = [fold[:limit] for fold in folds]
    for fold, judged in zip(folds, judges, strict=True):
        used = np.setdiff1d(np.arange(len(y)), fold)
        part, weights = x[used], None if weight is None else weight[used]
        numbers = range(len(models), len(models) + each)
        grown = [_model(part, n, seed, haste).fit(part, y[used], weights) for n in numbers]
        models += grown
        stages.append(np.mean([_stages(model, x[judged]) for model in grown], axis=0))
    predicted, rows = np.concatenate(stages, 1), np.concatenate(judges)
    errors = np.average(np.square(predicted - y[rows]), 1, None if weight is None else weight[rows])
    best = int(errors.argmin())
    return Grown(
        Forest.of(models, best + 1), predicted[best], y[rows], float(np.sqrt(errors[best]))
    )


def _stages(model: HistGradientBoostingRegressor, x: Array) -> Array:
    """Predictions after each round."""
    return np.stack(list(model.staged_predict(x)))


def _model(x: Array, number: int, seed: int, haste: int) -> HistGradientBoostingRegressor:
    """Every second ensemble sees half of the columns at a split: together they err less."""
    rows, columns = x.shape
    growth = next(growth for growth in GROWTH if rows <= growth.most)
    rounds = ROUNDS * WIDE // max(columns, WIDE) // (growth.fewer * haste)
    return HistGradientBoostingRegressor(
        learning_rate=growth.rate * haste,
        max_iter=max(rounds, 1),
        max_leaf_nodes=growth.leaves,
        min_samples_leaf=growth.rows,
        max_features=0.5 if number % 2 else 1.0,
        early_stopping=False,
        random_state=seed + number,
    )
