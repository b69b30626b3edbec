"""The folds that all compared methods share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold

Index = NDArray[np.int64]


@dataclass(frozen=True)
class Split:
    """One fold: the rows that are trained on, and the rows that are predicted."""

    train: Index
    test: Index


def make_splits(n_rows: int, folds: int, seed: int) -> list[Split]:
    """So many folds of about the same size, by chance; every row is predicted in one of them."""
    shuffled = KFold(folds, shuffle=True, random_state=seed)
    return [Split(train, test) for train, test in shuffled.split(np.zeros(n_rows))]
