"""Boosted trees beside the networks: where trees are better, their mean takes part.

scikit-learn's HistGradientBoostingRegressor grows them (softbins.tabular.tree_growth). What is kept
are plain arrays, which a model file can hold without pickle, and which predict the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softbins.tabular.compiled_forest import CompiledForest

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
