"""Which rows each member of an ensemble leaves out, and is judged by.

Rows are shuffled and cut into folds. A member leaves one fold out of its training; that fold then
stops its training and calibrates what it predicts. Folds and members are known by their number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softbins.tabular.defaults import FoldDefaults

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Folds:
    """Folds of a table with `n_rows` rows, and the number of the fold that each member leaves out.

    `parts[f]` are the indices of the rows of fold f, in random order. The first `max_judges` of
    them are the fold's judges: enough to calibrate with, where there are very many rows.
    """

    n_rows: int
    parts: list[Tensor]
    fold_of_member: list[int]
    max_judges: int

    @classmethod
    def random(cls, n_rows: int, members: int, seed: int, defaults: FoldDefaults) -> Self:
        """Folds as equal in size as can be, shuffled by the seed.

        Where there are rows enough, two members leave out the same fold. Judged together they are
        closer to the whole ensemble, which is better than each of its members.
        """
        _check_enough_rows(n_rows, members)
        order = torch.randperm(n_rows, generator=torch.Generator().manual_seed(seed))
        paired = n_rows > defaults.max_unpaired_rows and members % 2 == 0
        used = members // 2 if paired else members
        parts = order.tensor_split(min(max(defaults.count, used), n_rows))[:used]
        numbers = [member % used for member in range(members)]
        return cls(n_rows, list(parts), numbers, defaults.max_judges // used)

    @property
    def held_out(self) -> list[Tensor]:
        """The rows that each member leaves out."""
        return [self.parts[fold] for fold in self.fold_of_member]

    @property
    def judges(self) -> list[Tensor]:
        """The rows of each fold that calibrate."""
        return [part[: self.max_judges] for part in self.parts]

    def members_of(self, fold: int) -> list[int]:
        """The members that leave out this fold."""
        return [member for member, own in enumerate(self.fold_of_member) if own == fold]

    def training_rows(self, batch_size: int) -> list[Tensor]:
        """The rows that each member trains on, in the table's order.

        A stack needs as many batches for all members: where a fold is a row smaller than others
        and that would make the difference of a batch, the longer lists lose their last row.
        """
        everything = torch.ones(self.n_rows, dtype=torch.bool)
        others = [everything.index_fill(0, part, False).nonzero().flatten() for part in self.parts]
        if len({math.ceil(len(part) / batch_size) for part in others}) > 1:
            fewest = min(map(len, others))
            others = [part[:fewest] for part in others]
        return [others[fold] for fold in self.fold_of_member]

    def of_members(self, members: Sequence[int]) -> Self:
        """Folds for some of the members only, and only those folds that they leave out."""
        kept = list(dict.fromkeys(self.fold_of_member[member] for member in members))
        numbers = [kept.index(self.fold_of_member[member]) for member in members]
        parts = [self.parts[fold] for fold in kept]
        return replace(self, parts=parts, fold_of_member=numbers)

    def without_duplicates(self, features: Array, target: Array, min_rows: int) -> Self:
        """The folds without rows that stand outside of their fold as well.

        Such a row is not new to the members that leave it out: they would be judged by what they
        remember. A fold of which fewer than `min_rows` rows would be left stays as it is.
        """
        hashes = _row_hashes(features, target)
        _, key, total = np.unique(hashes, return_inverse=True, return_counts=True)
        if total.max() == 1:
            return self
        reduced = [_only_inside(part, key, total) for part in self.parts]
        pairs = zip(reduced, self.parts, strict=True)
        return replace(self, parts=[new if len(new) >= min_rows else old for new, old in pairs])


def _check_enough_rows(n_rows: int, members: int) -> None:
    if n_rows < 2:
        raise ValueError(
            f"early_stopping: n_samples={n_rows} leaves no row to train on; give more rows, or "
            "turn it off"
        )
    if members > n_rows:
        raise ValueError(
            f"members: {members} cannot leave out a row each of n_samples={n_rows}; take fewer"
        )


def _only_inside(part: Tensor, key: NDArray[np.int64], total: NDArray[np.int64]) -> Tensor:
    """The rows of a part all of whose copies are in it, by the key of each row of the table."""
    keys = key[part.numpy()]
    inside = np.bincount(keys, minlength=len(total))
    return part[torch.from_numpy(inside[keys] == total[keys])]


def _row_hashes(features: Array, target: Array) -> NDArray[np.uint64]:
    """A number for each row, the same for rows that are the same in features and target."""
    factors = np.random.default_rng(0).integers(2**63, size=features.shape[1] + 1, dtype=np.uint64)
    columns = [target, *features.T]
    hashes = np.zeros(len(target), dtype=np.uint64)
    for column, factor in zip(columns, 2 * factors + 1, strict=True):
        # Round numbers end in zeros, which a product keeps; its high bits are mixed into them.
        mixed = (np.ascontiguousarray(column) + 0.0).view(np.uint64) * factor
        hashes += mixed ^ (mixed >> np.uint64(32))
    return hashes
