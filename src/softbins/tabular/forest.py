"""Boosted trees beside the networks: where trees are better, their mean takes part.

scikit-learn's HistGradientBoostingRegressor grows them, for each held-out fold from the other rows.
What is kept are plain arrays, which a model file can hold without pickle, and which predict the
same numbers.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softbins._core.warnings import warn_user
from softbins.tabular.compiled_forest import CompiledForest
from softbins.tabular.data import TrainingData
from softbins.tabular.defaults import TreeDefaults
from softbins.tabular.folds import Folds

if TYPE_CHECKING:
    from sklearn.ensemble import HistGradientBoostingRegressor

Array = NDArray[np.float64]

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

    def __post_init__(self) -> None:
        self._check_places()
        self._check_walks()

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
        """The mean prediction for rows (n, features), all of them finite."""
        return self._compiled.predict(x)

    @cached_property
    def _compiled(self) -> CompiledForest:
        return CompiledForest.of(self)

    def __getstate__(self) -> dict[str, Any]:
        # A copy, or another process, makes its own compiled trees when it needs them.
        return {name: value for name, value in self.__dict__.items() if name != "_compiled"}

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
        return cls(**arrays, base=base, features=int(features))

    def _check_places(self) -> None:
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

    def _check_walks(self) -> None:
        """Every walk goes forward, stays in its tree and ends at a leaf, as compiled code needs."""
        sizes = np.diff(self.roots, append=len(self.left))
        if len(sizes) == 0 or self.roots[0] != 0 or (sizes < 1).any():
            raise ValueError("forest.roots: need trees one after another")
        own, end = np.arange(len(self.left)), np.repeat(self.roots + sizes, sizes)
        forward = np.minimum(self.left, self.right) > own
        inside = np.maximum(self.left, self.right) < end
        leaf = (self.left == own) & (self.right == own)
        if not (leaf | (forward & inside)).all():
            raise ValueError("forest.left, forest.right: point out of the tree, or back")


@dataclass(frozen=True)
class GrownTrees:
    """A forest, and what its trees predict for rows that are new to them.

    `held_out` are predictions for the judges of all folds in turn, `targets` the true values
    there, and `error` is the root of the mean squared error.
    """

    forest: Forest
    held_out: Array
    targets: Array
    error: float


@dataclass(frozen=True)
class TreeBudget:
    """How much work goes into trees."""

    ensembles: int
    """Boosted ensembles, at least; there is one for each fold in any case."""
    speedup: int
    """How many times as fast trees learn, from as many times fewer rounds."""
    max_seconds: float = math.inf
    """Time after which trees that are not finished are given up."""


def grow_trees(
    data: TrainingData,
    folds: Folds,
    *,
    seed: int,
    budget: TreeBudget,
    defaults: TreeDefaults,
) -> GrownTrees | None:
    """For each fold one or several ensembles, fitted to all rows but the fold's.

    None, with a warning, if that takes longer than it may.

    All ensembles get the number of trees with the least squared error on the judges, so that a
    single row has next to no influence on it.
    """
    x, y, weight = data.features, data.target, data.weight
    models: list[HistGradientBoostingRegressor] = []
    stages: list[Array] = []
    each = math.ceil(budget.ensembles / len(folds.parts))
    import sklearn.ensemble  # noqa: F401 - takes a second, which no tree is to blame for

    start = time.perf_counter()
    for fold, judges in zip(folds.parts, folds.judges, strict=True):
        if models and time.perf_counter() - start > budget.max_seconds:
            text = f"max_seconds: trees need more than {budget.max_seconds:g} seconds"
            warn_user(f"{text} and were left out")
            return None
        used = np.setdiff1d(np.arange(len(y)), fold.numpy())
        part, weights = x[used], None if weight is None else weight[used] / weight[used].mean()
        numbers = range(len(models), len(models) + each)
        made = [_model(part.shape, n, seed + n, budget.speedup, defaults) for n in numbers]
        grown = [model.fit(part, y[used], weights) for model in made]
        models += grown
        stages.append(np.mean([_stages(model, x[judges.numpy()]) for model in grown], axis=0))
    predicted, index = np.concatenate(stages, 1), torch.cat(folds.judges).numpy()
    squared = np.square(predicted - y[index])
    errors = np.average(squared, 1, None if weight is None else weight[index])
    best = int(errors.argmin())
    forest = Forest.of(models, best + 1)
    return GrownTrees(forest, predicted[best], y[index], float(np.sqrt(errors[best])))


def _stages(model: HistGradientBoostingRegressor, x: Array) -> Array:
    """Predictions after each round: (rounds, n)."""
    return np.stack(list(model.staged_predict(x)))


def _model(
    shape: tuple[int, ...], number: int, seed: int, speedup: int, defaults: TreeDefaults
) -> HistGradientBoostingRegressor:
    """Ensemble of that number, for a table of that shape."""
    from sklearn.ensemble import HistGradientBoostingRegressor  # which a prediction can do without

    rows, columns = shape
    growth = next(growth for growth in defaults.growth if rows <= growth.max_rows)
    rounds = growth.rounds * defaults.wide_columns // max(columns, defaults.wide_columns)
    return HistGradientBoostingRegressor(
        learning_rate=growth.learning_rate * speedup,
        max_iter=max(rounds // speedup, 1),
        max_leaf_nodes=growth.max_leaf_nodes,
        min_samples_leaf=growth.min_samples_leaf,
        max_features=defaults.column_share if number % 2 else 1.0,
        early_stopping=False,
        random_state=seed,
    )
