"""The paper's three datasets (Appendix B), and simulated stand-ins for the two large ones.

Bike Sharing is a file of this package. CT Position and Song Year are read from the folder that
`softbins paper fetch` has put them in. A stand-in says that it is simulated in its name, and the
name is part of every record and file name, so that nobody takes it for the original.
"""

from __future__ import annotations

import lzma
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

DATASETS = ("bike", "ct", "song", "ct-simulated", "song-simulated")
SIMULATED_SUFFIX = "-simulated"
# The ranges [a, b] of the targets that the paper prints.
TARGET_RANGES = {"bike": (0.0, 1000.0), "ct": (0.0, 100.0), "song": (1922.0, 2011.0)}
DATASET_TITLES = {"bike": "Bike Sharing", "ct": "CT Position", "song": "Song Year"}
BIKE_SOURCE = (
    "Bike Sharing, Hadi Fanaee-T and João Gama, 'Event labeling combining ensemble detectors and "
    "background knowledge', Progress in Artificial Intelligence 2 (2014); UCI 275; CC BY 4.0"
)


@dataclass(frozen=True, eq=False)
class RawDataset:
    """Data as a file or a simulation gives them, without the paper's name and target range."""

    X: NDArray[np.float32] | NDArray[np.float64]
    y: NDArray[np.float64]
    feature_names: list[str]
    groups: NDArray[np.int64] | None
    source: str


@dataclass(frozen=True, eq=False)
class Dataset:
    """A whole dataset in memory.

    Attributes
    ----------
    name : str
        One of `DATASETS`.
    X, y : ndarray of shape (rows, features) and (rows,)
        Features and targets, in the order of the original file.
    feature_names : tuple of str
        The names of the columns of `X`.
    low, high : float
        The range of the targets that the paper prints.
    source : str
        Where the data come from, in words for readers.
    groups : ndarray of shape (rows,), optional
        The patient of every row of CT Position. It is not a feature.

    """

    name: str
    X: NDArray[np.float32] | NDArray[np.float64]
    y: NDArray[np.float64]
    feature_names: tuple[str, ...]
    low: float
    high: float
    source: str
    groups: NDArray[np.int64] | None = None


def is_simulated(name: str) -> bool:
    """Whether a dataset is a simulated stand-in for an original."""
    return name != original_name(name)


def original_name(name: str) -> str:
    """The name of the original: that of the dataset itself, or of the one that it imitates."""
    if name not in DATASETS:
        raise ValueError(f"dataset: expected one of {', '.join(DATASETS)}, got {name!r}")
    return name.removesuffix(SIMULATED_SUFFIX)


def dataset_title(name: str) -> str:
    """The name of a dataset as tables and figures print it."""
    note = " (simulated)" if is_simulated(name) else ""
    return DATASET_TITLES[original_name(name)] + note


@lru_cache(maxsize=2)
def load_dataset(name: str, folder: Path | None = None) -> Dataset:
    """Load a dataset by its name.

    Fetched originals are read from `folder`, or from the default folder if it is None. The last
    two datasets stay in memory.
    """
    low, high = TARGET_RANGES[original_name(name)]
    raw = _load_raw(name, folder)
    names = tuple(raw.feature_names)
    return Dataset(name, raw.X, raw.y, names, low, high, raw.source, raw.groups)


def _load_raw(name: str, folder: Path | None) -> RawDataset:
    if name == "bike":
        return _read_bike()
    if is_simulated(name):
        from softbins.paper.data.simulation import simulate_ct, simulate_song

        return simulate_ct() if original_name(name) == "ct" else simulate_song()
    from softbins.paper.data.originals import default_folder, read_original

    return read_original(name, folder or default_folder())


def _read_bike() -> RawDataset:
    """All 17379 hours, from the file that scripts/build_bike.py made."""
    packed = files("softbins.paper").joinpath("data/bike.csv.xz").read_bytes()
    header, *lines = lzma.decompress(packed).decode().splitlines()
    table = np.loadtxt(lines, delimiter=",")
    names = header.split(",")[:-1]
    return RawDataset(table[:, :-1], table[:, -1], names, groups=None, source=BIKE_SOURCE)
