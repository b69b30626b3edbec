"""The tables on which defaults are judged, and how they are split.

The defaults were chosen on the development tables and the small ones. No choice was made on the
held-out tables. All lie in one folder, which is not part of the project:

    bike/hour.csv                       Bike Sharing, the original file
    song/yearmsd_random7000_f32.npz     7000 training rows of Song Year, arrays X and y
    bench/california_housing.csv        no header, the target last
    bench/NAME/data.csv.gz              UCI regression tables, no header, the target last
    small/NAME.csv                      small tables of 55 to 625 rows, and
    heldout/NAME.csv or NAME.csv.gz     held-out tables, both with a header, the target in
                                        "target", and columns of text and gaps
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Array = NDArray[np.float64]
Features = Array | pd.DataFrame
BENCH = (
    "energy",
    "concrete",
    "airfoil",
    "skillcraft",
    "sml",
    "parkinsons",
    "pol",
    "elevators",
    "kin40k",
    "keggdirected",
)
# Smallest first, so that a table of results fills up early.
NAMES = (*BENCH[:6], "songs", "pol", "elevators", "bike", "california", "kin40k", "keggdirected")
SMALL = (
    "auto93",
    "autoPrice",
    "baskball",
    "breastTumor",
    "cloud",
    "elusage",
    "fishcatch",
    "hungarian",
    "pollution",
    "pwLinear",
    "servo",
    "sleep",
    "strike",
    "veteran",
)
HELDOUT = ("echoMonths", "pharynx", "autoHorse", "sensory", "quake", "star", "kin8nm")
SETS = {"development": NAMES, "small": SMALL, "heldout": HELDOUT}
TEST_SHARE = 0.2
SPLITS, SPLITS_OF_SMALL_TABLES = 3, 5
MAX_ROWS_OF_SMALL_TABLES = 1000  # among those with five splits


class Split(NamedTuple):
    """Training and test rows."""

    x: Features
    y: Array
    x_test: Features
    y_test: Array


def load(folder: Path, name: str) -> tuple[Features, Array]:
    """Features and target of one table; a small or held-out one has a DataFrame of features."""
    for kind in ("small", "heldout"):
        if name in SETS[kind]:
            return _frame(folder / kind, name)
    if name == "bike":
        return _bike(folder / "bike" / "hour.csv")
    if name == "songs":
        arrays = np.load(folder / "song" / "yearmsd_random7000_f32.npz")
        return arrays["X"].astype(np.float64), arrays["y"].astype(np.float64)
    bench = folder / "bench"
    path = (
        bench / "california_housing.csv" if name == "california" else bench / name / "data.csv.gz"
    )
    table = np.loadtxt(path, delimiter=",")
    return table[:, :-1], table[:, -1]


def _bike(path: Path) -> tuple[Array, Array]:
    """Without the row's number, its date, and the two counts that add up to the target."""
    with path.open() as file:
        names = file.readline().strip().split(",")
    used = [
        i for i, n in enumerate(names) if n not in ("instant", "dteday", "casual", "registered")
    ]
    table = np.loadtxt(path, delimiter=",", skiprows=1, usecols=used)
    return table[:, :-1], table[:, -1]


def _frame(folder: Path, name: str) -> tuple[pd.DataFrame, Array]:
    """Columns as they come: text stays text, and gaps stay gaps."""
    plain = folder / f"{name}.csv"
    table = pd.read_csv(plain if plain.exists() else folder / f"{name}.csv.gz")
    return table.drop(columns="target"), table["target"].to_numpy(np.float64)


def text_columns(x: pd.DataFrame) -> list[str]:
    """The names of the columns that hold text."""
    return [name for name in x.columns if not pd.api.types.is_numeric_dtype(x[name])]


def n_splits(folder: Path, name: str) -> int:
    """Three splits for a table, and five for a small one that is no development table."""
    if name in NAMES:
        return SPLITS
    n_rows = len(load(folder, name)[1])
    return SPLITS_OF_SMALL_TABLES if n_rows <= MAX_ROWS_OF_SMALL_TABLES else SPLITS


def split(x: Features, y: Array, seed: int) -> Split:
    """A random fifth for testing, without the rows that also stand in the training part."""
    order = np.random.default_rng(seed).permutation(len(y))
    cut = round(TEST_SHARE * len(y))
    test, train = order[:cut], order[cut:]
    key = _key(_numbers(x), y)
    known = set(map(key, train))
    test = test[[key(row) not in known for row in test]]
    return Split(_rows(x, train), y[train], _rows(x, test), y[test])


def _rows(x: Features, index: NDArray[np.intp]) -> Features:
    return x.iloc[index] if isinstance(x, pd.DataFrame) else x[index]


def _numbers(x: Features) -> Array:
    """The same rows as numbers, with a number of its own for each text of a column."""
    if not isinstance(x, pd.DataFrame):
        return x
    codes = {name: pd.factorize(x[name])[0] for name in text_columns(x)}
    return x.assign(**codes).to_numpy(np.float64)


def _key(x: Array, y: Array) -> Callable[[int], bytes]:
    return lambda row: x[row].tobytes() + y[row].tobytes()
