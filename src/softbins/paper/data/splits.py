"""Which rows train, which validate and which test.

The paper splits at random, anew for each run, and for Song Year also as the dataset's authors
suggest. Two things are added: a part of the training rows for honest selection, and a split of CT
Position by patient, because neighbouring slices of one patient look the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from softbins.paper.data.datasets import Dataset, original_name

SplitKind = Literal["random", "fixed", "grouped"]
RowIndex = NDArray[np.int64]
# Test rows as printed in Appendix B; Bike's share is that of 17389 rows, which the file has not.
TEST_SHARE = {"bike": 3476 / 17379, "ct": 10700 / 53500, "song": 51630 / 515345}
N_SONG_TRAINING_ROWS = 463715
VALIDATION_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class Split:
    """Row numbers of three disjoint parts; the paper trains on the first two together."""

    train: RowIndex
    validation: RowIndex
    test: RowIndex

    @property
    def training(self) -> RowIndex:
        """All rows that are not for testing."""
        return np.concatenate([self.train, self.validation])


def split_rows(dataset: Dataset, kind: SplitKind, seed: int, rows: int | None = None) -> Split:
    """The rows of one run; with `rows`, of a random sample of the dataset of that size."""
    if kind not in get_args(SplitKind):
        raise ValueError(f"split: expected one of {', '.join(get_args(SplitKind))}, got {kind!r}")
    rng = np.random.default_rng(seed)
    chosen = _sample(len(dataset.y), rows)
    share = TEST_SHARE[original_name(dataset.name)]
    if kind == "fixed":
        training, test = _fixed(dataset, chosen)
        return Split(*_cut(rng.permutation(training), VALIDATION_SHARE), test)
    if kind == "grouped":
        training, test = _grouped(dataset, chosen, share, rng)
        return Split(*_grouped(dataset, training, VALIDATION_SHARE, rng), test)
    training, test = _cut(rng.permutation(chosen), share)
    return Split(*_cut(training, VALIDATION_SHARE), test)


def _sample(count: int, rows: int | None) -> RowIndex:
    """The same sample for every run of an experiment."""
    if rows is None or rows >= count:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).permutation(count)[:rows])


def _cut(rows: RowIndex, share: float) -> tuple[RowIndex, RowIndex]:
    size = len(rows) - round(share * len(rows))
    return rows[:size], rows[size:]


def _fixed(dataset: Dataset, rows: RowIndex) -> tuple[RowIndex, RowIndex]:
    """Song Year's own: no artist stands on both sides."""
    if original_name(dataset.name) != "song":
        raise ValueError(f"split: only song has a fixed split, got {dataset.name!r}")
    return rows[rows < N_SONG_TRAINING_ROWS], rows[rows >= N_SONG_TRAINING_ROWS]


def _grouped(
    dataset: Dataset, rows: RowIndex, share: float, rng: np.random.Generator
) -> tuple[RowIndex, RowIndex]:
    """Whole patients, until the share is reached."""
    if dataset.groups is None:
        raise ValueError(f"split: {dataset.name!r} has no groups; use random")
    groups = dataset.groups[rows]
    order = rng.permutation(np.unique(groups))
    sizes = np.array([np.sum(groups == group) for group in order])
    held_out = order[np.cumsum(sizes) <= share * len(rows)]
    # At least one, however large.
    test = np.isin(groups, held_out if len(held_out) else order[:1])
    return rows[~test], rows[test]
