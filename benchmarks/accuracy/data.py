"""The tables on which defaults are judged, and how they are split.

They lie in one folder, which is not part of the project:

    bike/hour.csv                       Bike Sharing, the original file
    song/yearmsd_random7000_f32.npz     7000 training rows of Song Year, arrays X and y
    bench/california_housing.csv        no header, the target last
    bench/NAME/data.csv.gz              UCI regression tables, no header, the target last
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
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
TEST_SHARE = 0.2


class Split(NamedTuple):
    """Training and test rows."""

    x: Array
    y: Array
    x_test: Array
    y_test: Array


def load(folder: Path, name: str) -> tuple[Array, Array]:
    """Features and target of one table."""
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


def split(x: Array, y: Array, seed: int) -> Split:
    """A random fifth for testing, without the rows that also stand in the training part."""
    order = np.random.default_rng(seed).permutation(len(y))
    cut = round(TEST_SHARE * len(y))
    test, train = order[:cut], order[cut:]
    known = _keys(x[train], y[train])
    test = test[[key not in known for key in map(_key(x, y), test)]]
    return Split(x[train], y[train], x[test], y[test])


def _keys(x: Array, y: Array) -> set[bytes]:
    return set(map(_key(x, y), range(len(y))))


def _key(x: Array, y: Array) -> Callable[[int], bytes]:
    return lambda row: x[row].tobytes() + y[row].tobytes()
