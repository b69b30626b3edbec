"""The tables on which parts are judged: those of benchmarks/accuracy, and small ones.

They lie in one folder, which is not part of the project; beside what benchmarks/accuracy needs:

    small/NAME.csv            development tables of 55 to 625 rows, with text and gaps
    heldout/NAME.csv(.gz)     tables that no choice was made on

Both have a header and a column "target".
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

sys.path.append(str(Path(__file__).parents[1] / "accuracy"))
import data

Array = NDArray[np.float64]

TEST_SHARE = 0.2
# Training rows beyond these are left out, so that all parts are judged within hours. No number of
# the defaults changes between this one and 20 000 rows.
MAX_TRAINING_ROWS = 6_000
HELDOUT = ("autoHorse", "echoMonths", "pharynx", "sensory", "quake", "star", "kin8nm")
# Smallest first, so that results come early.
NAMES = (*data.SMALL, *HELDOUT[:4], *data.NAMES[:3], *HELDOUT[4:], *data.NAMES[3:])


class Split(NamedTuple):
    """Training and test rows of a table."""

    x: Any
    y: Array
    x_test: Any
    y_test: Array


def load(folder: Path, name: str) -> tuple[pd.DataFrame, Array]:
    """Features and target of one table."""
    if name in data.NAMES:
        x, y = data.load(folder, name)
        return pd.DataFrame(x).set_axis([f"x{i}" for i in range(x.shape[1])], axis=1), y
    path = next(
        path for kind in ("small", "heldout") for path in folder.glob(f"{kind}/{name}.csv*")
    )
    frame = pd.read_csv(path)
    return frame.drop(columns="target"), frame["target"].to_numpy(np.float64)


def split(x: pd.DataFrame, y: Array, seed: int) -> Split:
    """A random fifth for testing, without the rows that also stand in the training part."""
    order = np.random.default_rng(seed).permutation(len(y))
    cut = round(TEST_SHARE * len(y))
    test, train = order[:cut], order[cut:][:MAX_TRAINING_ROWS]
    keys = pd.util.hash_pandas_object(x.assign(_target=y), index=False).to_numpy()
    test = test[~np.isin(keys[test], keys[train])]
    return Split(*_rows(x, y, train), *_rows(x, y, test))


def _rows(x: pd.DataFrame, y: Array, index: NDArray[np.int64]) -> tuple[pd.DataFrame, Array]:
    return x.iloc[index].reset_index(drop=True), y[index]
