"""Boosted trees as one operator of ONNX, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from softbins.tabular.forest import Forest
from softbins.tabular.onnx_export.graph import MACHINE_LEARNING, Graph

LESS_OR_EQUAL, SUM = 0, 1  # ONNX's numbers for how a node decides, and how trees are put together


def add_trees(graph: Graph, forest: Forest, features: str) -> str:
    """What the trees predict (n,) for encoded features (n, d)."""
    total = graph.add(
        "TreeEnsemble",
        features,
        domain=MACHINE_LEARNING,
        n_targets=1,
        aggregate_function=SUM,
        **_attributes(forest),
    )
    return graph.add("Add", graph.flatten(total), graph.constant(np.array(forest.base)))


def _attributes(forest: Forest) -> dict[str, Any]:
    """The arrays of the operator, which counts nodes and leaves apart.

    A leaf is no tree of its own there: a tree without a split gets one, with the same leaf on
    both sides.
    """
    leaf = forest.left == np.arange(len(forest.left))
    stumps = forest.roots[leaf[forest.roots]]
    splits = np.concatenate([np.flatnonzero(~leaf), stumps])
    number = np.where(leaf, np.cumsum(leaf), np.cumsum(~leaf)) - 1
    root_number = number.copy()
    root_number[stumps] = np.count_nonzero(~leaf) + np.arange(len(stumps))
    left, right = forest.left[splits], forest.right[splits]
    return {
        "tree_roots": root_number[forest.roots],
        "nodes_featureids": forest.feature[splits],
        "nodes_modes": np.full(len(splits), LESS_OR_EQUAL, dtype=np.uint8),
        "nodes_splits": forest.threshold[splits],
        "nodes_truenodeids": number[left],
        "nodes_falsenodeids": number[right],
        "nodes_trueleafs": leaf[left].astype(np.int64),
        "nodes_falseleafs": leaf[right].astype(np.int64),
        "leaf_targetids": np.zeros(np.count_nonzero(leaf), dtype=np.int64),
        "leaf_weights": forest.value[leaf],
    }
