"""The paper's three datasets (Appendix B), and simulated stand-ins for the two large ones.

Bike Sharing is embedded. CT Position and Song Year are read from where `softbins paper fetch` has
put them. A stand-in says that it is simulated in its name, which is part of every file name.
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
# The printed ranges [a, b] of the targets.
TARGET_RANGES = {"bike": (0.0, 1000.0), "ct": (0.0, 100.0), "song": (1922.0, 2011.0)}
DATASET_TITLES = {"bike": "Bike Sharing", "ct": "CT Position", "song": "Song Year"}
BIKE_SOURCE = (
    "Bike Sharing, Hadi Fanaee-T and João Gama, 'Event labeling combining ensemble detectors and "
    "background knowledge', Progress in Artificial Intelligence 2 (2014); UCI 275; CC BY 4.0"
)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Features and targets, the printed range [low, high] of the targets, and the origin.

    `groups` are CT's patients, which are no feature.
    """

    name: str
    X: NDArray[np.float32] | NDArray[np.float64]
    y: NDArray[np.float64]
    feature_names: tuple[str, ...]
    low: float
    high: float
    source: str
    groups: NDArray[np.int64] | None = None


def original_name(name: str) -> str:
    """The dataset that a name stands for: its own, or the one that it imitates."""
    if name not in DATASETS:
        raise ValueError(f"dataset: expected one of {', '.join(DATASETS)}, got {name!r}")
    return name.removesuffix("-simulated")


def dataset_title(name: str) -> str:
    """The name as tables and figures print it."""
    note = " (simulated)" if name.endswith("-simulated") else ""
    return DATASET_TITLES[original_name(name)] + note


@lru_cache(maxsize=2)
def load_dataset(name: str, folder: Path | None = None) -> Dataset:
    """A dataset by its name; `folder` is where fetched files are, if not in the usual place."""
    low, high = TARGET_RANGES[original_name(name)]
    X, y, names, groups, source = _parts(name, folder)
    return Dataset(name, X, y, tuple(names), low, high, source, groups)


def _parts(
    name: str, folder: Path | None
) -> tuple[
    NDArray[np.float32] | NDArray[np.float64],
    NDArray[np.float64],
    list[str],
    NDArray[np.int64] | None,
    str,
]:
    if name == "bike":
        return *_bike(), None, BIKE_SOURCE
    if name.endswith("-simulated"):
        from softbins.paper.data.simulation import simulate_ct, simulate_song

        simulated = simulate_ct() if name.startswith("ct") else simulate_song()
        names, groups = simulated.feature_names, simulated.groups
        return simulated.X, simulated.y, names, groups, simulated.source
    from softbins.paper.data.originals import default_folder, read_original

    found = read_original(name, folder or default_folder())
    return found.X, found.y, found.feature_names, found.groups, found.source


def _bike() -> tuple[NDArray[np.float64], NDArray[np.float64], list[str]]:
    """All 17379 hours; scripts/build_bike.py made the file."""
    packed = files("softbins.paper").joinpath("data/bike.csv.xz").read_bytes()
    header, *lines = lzma.decompress(packed).decode().splitlines()
    table = np.loadtxt(lines, delimiter=",")
    return table[:, :-1], table[:, -1], header.split(",")[:-1]
