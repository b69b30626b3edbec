"""Splits: which rows of a dataset train, which validate and which test.

The paper splits at random, anew for each run, and Song Year also as the dataset's authors suggest.
Two things are added here. A part of the training rows is set aside for choosing settings without
looking at the test rows. And CT Position can be split by patient, because neighbouring slices of
one patient look nearly the same, so that a random split tests on rows that are almost known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from softbins.paper.data.datasets import Dataset, original_name

SplitKind = Literal["random", "fixed", "grouped"]
RowIndex = NDArray[np.int64]
# The shares of Appendix B. For Bike Sharing the paper counts 3478 of 17389 rows, but the file has
# only 17379.
TEST_SHARES = {"bike": 3476 / 17379, "ct": 10700 / 53500, "song": 51630 / 515345}
VALIDATION_SHARE = 0.1
# The authors of Song Year train on so many of the first rows, so that no artist is on both sides.
N_FIXED_SONG_TRAINING_ROWS = 463715


@dataclass(frozen=True, eq=False)
class Split:
    """Row numbers of three disjoint parts of a dataset."""

    train: RowIndex
    validation: RowIndex
    test: RowIndex

    @property
    def train_and_validation(self) -> RowIndex:
        """All rows that are not for testing, which is what the paper trains on."""
        return np.concatenate([self.train, self.validation])


def split_rows(dataset: Dataset, kind: SplitKind, seed: int, n_rows: int | None = None) -> Split:
    """Split a dataset for the run with this seed.

    With `n_rows`, only a random sample of so many rows is split, which is the same for every seed.
    """
    if kind not in get_args(SplitKind):
        raise ValueError(f"split: expected one of {', '.join(get_args(SplitKind))}, got {kind!r}")
    rng = np.random.default_rng(seed)
    index = _sample(len(dataset.y), n_rows)
    test_share = TEST_SHARES[original_name(dataset.name)]
    if kind == "fixed":
        rest, test = _split_as_published(dataset, index)
        train, validation = _cut(rng.permutation(rest), VALIDATION_SHARE)
    elif kind == "grouped":
        rest, test = _split_groups(dataset, index, test_share, rng)
        train, validation = _split_groups(dataset, rest, VALIDATION_SHARE, rng)
    else:
        rest, test = _cut(rng.permutation(index), test_share)
        train, validation = _cut(rest, VALIDATION_SHARE)
    return Split(train, validation, test)


def _sample(n_all: int, n_rows: int | None) -> RowIndex:
    if n_rows is None or n_rows >= n_all:
        return np.arange(n_all)
    return np.sort(np.random.default_rng(0).permutation(n_all)[:n_rows])


def _cut(index: RowIndex, last_share: float) -> tuple[RowIndex, RowIndex]:
    """Cut off the last rows, so many that they are the given share."""
    size = len(index) - round(last_share * len(index))
    return index[:size], index[size:]


def _split_as_published(dataset: Dataset, index: RowIndex) -> tuple[RowIndex, RowIndex]:
    if original_name(dataset.name) != "song":
        raise ValueError(f"split: only song has a fixed split, got {dataset.name!r}")
    is_training = index < N_FIXED_SONG_TRAINING_ROWS
    return index[is_training], index[~is_training]


def _split_groups(
    dataset: Dataset, index: RowIndex, last_share: float, rng: np.random.Generator
) -> tuple[RowIndex, RowIndex]:
    """Take whole patients out, as many as stay within the share, but at least one."""
    if dataset.groups is None:
        raise ValueError(f"split: {dataset.name!r} has no groups; use random")
    groups = dataset.groups[index]
    order = rng.permutation(np.unique(groups))
    sizes = np.array([np.sum(groups == group) for group in order])
    taken = order[np.cumsum(sizes) <= last_share * len(index)]
    is_taken = np.isin(groups, taken if len(taken) else order[:1])
    return index[~is_taken], index[is_taken]
