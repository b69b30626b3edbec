"""The folds that all compared methods share, and the rows of a table in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold

from softbins.tabular.frames import frame_library

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


def take_rows(X: Any, index: Index) -> Any:
    """Some rows of an array or a data frame."""
    return X.iloc[index] if frame_library(X) == "pandas" else X[index]
