"""Which rows each member of an ensemble leaves out, and is judged by.

Rows are shuffled and cut into folds. A member leaves one fold out of its training; that fold then
stops its training and calibrates what it predicts. Folds and members are known by their number.

Rows that belong together, such as those of one patient, stay in one fold. Where rows have a time,
the latest are held out, and members learn from the rows before them: they are judged as they will
be used, by what comes after.
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

from softbins.tabular.data import TrainingData
from softbins.tabular.defaults import FoldDefaults
from softbins.tabular.row_order import Splits

Array = NDArray[np.float64]
Features = NDArray[np.floating]

HASHED_ROWS = 65_536  # at a time, of which a copy is made
MAX_LOST_SHARE = 0.01  # of the rows of a member, for all members to have as many batches


@dataclass(frozen=True, eq=False)
class Folds:
    """Folds of a table with `n_rows` rows, and the number of the fold that each member leaves out.

    `parts[f]` are the indices of the rows of fold f, in random order. The first `max_judges` of
    them are the fold's judges: enough to calibrate with, where there are very many rows. Who
    leaves out fold f learns from the rows `training[f]`, or from all others if that is None.
    """

    n_rows: int
    parts: list[Tensor]
    fold_of_member: list[int]
    max_judges: int
    training: list[Tensor] | None = None

    @classmethod
    def draw(cls, data: TrainingData, members: int, seed: int, defaults: FoldDefaults) -> Self:
        """Folds for a table: by its own order of time or its groups, if it has some, or random.

        Random folds are without the rows that stand in other folds as well, unless the table is on
        disk, where nobody has looked for them.
        """
        order = data.order
        if data.is_on_disk:
            return cls.of_shuffled(data.n_rows, members, defaults)
        if order.splits is not None:
            return cls.given(order.splits, data.n_rows, members, seed, defaults)
        if order.time is not None:
            return cls.in_time(order.time, members, seed, defaults)
        if order.groups is not None:
            return cls.of_groups(order.groups, members, seed, defaults)
        folds = cls.random(data.n_rows, members, seed, defaults)
        least = defaults.min_rows_without_duplicates
        return folds.without_duplicates(data.features, data.target, least)

    @classmethod
    def random(cls, n_rows: int, members: int, seed: int, defaults: FoldDefaults) -> Self:
        """Folds as equal in size as can be, shuffled by the seed.

        Where there are rows enough, two members leave out the same fold. Judged together they are
        closer to the whole ensemble, which is better than each of its members.
        """
        _check_enough_rows(n_rows, members)
        order = torch.randperm(n_rows, generator=torch.Generator().manual_seed(seed))
        return cls._cut(order, members, defaults)

    @classmethod
    def of_shuffled(cls, n_rows: int, members: int, defaults: FoldDefaults) -> Self:
        """The same for rows that are in random order already: folds are ranges of them."""
        _check_enough_rows(n_rows, members)
        return cls._cut(torch.arange(n_rows, dtype=torch.int32), members, defaults)

    @classmethod
    def _cut(cls, order: Tensor, members: int, defaults: FoldDefaults) -> Self:
        n_rows = len(order)
        count, used = _fold_counts(n_rows, members, defaults)
        parts = order.tensor_split(min(count, n_rows))[:used]
        return cls._of_parts(n_rows, [part.clone() for part in parts], members, defaults)

    @classmethod
    def _of_parts(
        cls,
        n_rows: int,
        parts: list[Tensor],
        members: int,
        defaults: FoldDefaults,
        training: list[Tensor] | None = None,
    ) -> Self:
        numbers = [member % len(parts) for member in range(members)]
        return cls(n_rows, parts, numbers, defaults.max_judges // len(parts), training)

    @classmethod
    def of_groups(
        cls, groups: NDArray[np.int64], members: int, seed: int, defaults: FoldDefaults
    ) -> Self:
        """Folds that each hold whole groups, numbered from 0, about as many rows in each."""
        generator = np.random.default_rng(seed)
        sizes = np.bincount(groups)
        count, used = _fold_counts(len(groups), members, defaults)
        if len(sizes) < 2:
            raise ValueError("groups: all rows are in one group, which leaves none to be judged by")
        fold_of_group = _balanced(sizes, min(count, len(sizes)), generator)
        of_row = fold_of_group[groups]
        order = generator.permutation(len(groups))
        numbers = range(min(used, len(sizes)))
        parts = [torch.from_numpy(order[of_row[order] == fold]) for fold in numbers]
        return cls._of_parts(len(groups), parts, members, defaults)

    @classmethod
    def in_time(cls, time: Array, members: int, seed: int, defaults: FoldDefaults) -> Self:
        """One fold, of the latest rows, which all members leave out to learn from those before."""
        order = np.argsort(time, kind="stable")
        cut = min(round((1 - defaults.time_share) * len(time)), len(time) - 1)
        # Rows of one time are never cut apart: all of them are held out.
        cut = int(np.searchsorted(time[order], time[order][cut]))
        if cut == 0:
            raise ValueError("time: all rows have about the same, which leaves no earlier ones")
        latest = torch.from_numpy(np.random.default_rng(seed).permutation(order[cut:]))
        training = [torch.from_numpy(np.sort(order[:cut]))]
        return cls._of_parts(len(time), [latest], members, defaults, training)

    @classmethod
    def given(
        cls, splits: Splits, n_rows: int, members: int, seed: int, defaults: FoldDefaults
    ) -> Self:
        """Folds that somebody has chosen, as pairs of training and held-out rows."""
        generator = torch.Generator().manual_seed(seed)
        used = [(torch.from_numpy(a), torch.from_numpy(b)) for a, b in splits[-members:]]
        parts = [test[torch.randperm(len(test), generator=generator)] for _, test in used]
        return cls._of_parts(n_rows, parts, members, defaults, [train for train, _ in used])

    @property
    def held_out(self) -> list[Tensor]:
        """The rows that each member leaves out."""
        return [self.parts[fold] for fold in self.fold_of_member]

    def stopping_rows(self, most: int) -> list[Tensor]:
        """The rows by which it is seen when each member has learnt enough: so many at most."""
        return [part[:most] for part in self.held_out]

    @property
    def judges(self) -> list[Tensor]:
        """The rows of each fold that calibrate."""
        return [part[: self.max_judges] for part in self.parts]

    def members_of(self, fold: int) -> list[int]:
        """The members that leave out this fold."""
        return [member for member, own in enumerate(self.fold_of_member) if own == fold]

    def training_rows(self, batch_size: int) -> list[Tensor]:
        """The rows that each member trains on, in the table's order.

        A stack needs as many batches for all members. Where a fold is a few rows smaller than
        others, the longer lists lose their last rows. Where lists differ by more, the shorter ones
        begin again at their first row.
        """
        rows = [self.rows_for(fold) for fold in range(len(self.parts))]
        fewest, most = min(map(len, rows)), max(map(len, rows))
        if math.ceil(fewest / batch_size) < math.ceil(most / batch_size):
            close = most - fewest <= max(1, MAX_LOST_SHARE * most)
            rows = [_of_length(part, fewest if close else most) for part in rows]
        return [rows[fold] for fold in self.fold_of_member]

    def rows_for(self, fold: int) -> Tensor:
        """The rows that members learn from which leave out this fold, in the table's order."""
        if self.training is not None:
            return self.training[fold]
        everything = torch.ones(self.n_rows, dtype=torch.bool)
        left_out = self.parts[fold]
        rows = everything.index_fill_(0, left_out.long(), False).nonzero().flatten()
        return rows.to(left_out.dtype)

    def of_members(self, members: Sequence[int]) -> Self:
        """Folds for some of the members only, and only those folds that they leave out."""
        kept = list(dict.fromkeys(self.fold_of_member[member] for member in members))
        numbers = [kept.index(self.fold_of_member[member]) for member in members]
        parts = [self.parts[fold] for fold in kept]
        training = None if self.training is None else [self.training[fold] for fold in kept]
        return replace(self, parts=parts, fold_of_member=numbers, training=training)

    def without_duplicates(self, features: Features, target: Array, min_rows: int) -> Self:
        """The folds without rows that stand outside of their fold as well.

        Such a row is not new to the members that leave it out: they would be judged by what they
        remember. A fold of which fewer than `min_rows` rows would be left stays as it is. Scaled
        features that are the same in float32 are the same here.
        """
        hashes = _row_hashes(features, target)
        ordered = np.sort(hashes)
        if (ordered[1:] != ordered[:-1]).all():
            return self
        _, key, total = np.unique(hashes, return_inverse=True, return_counts=True)
        reduced = [_only_inside(part, key, total) for part in self.parts]
        pairs = zip(reduced, self.parts, strict=True)
        return replace(self, parts=[new if len(new) >= min_rows else old for new, old in pairs])


def _fold_counts(n_rows: int, members: int, defaults: FoldDefaults) -> tuple[int, int]:
    """How many folds rows are cut into, and how many of them members leave out.

    Of few rows each is left out, if members are enough for that, by one member. Of more, two
    members leave out the same, if their number is even.
    """
    if n_rows <= defaults.max_unpaired_rows:
        is_enough = members >= defaults.min_count_of_few_rows
        return members if is_enough else defaults.count, members
    used = members // 2 if members % 2 == 0 else members
    return max(defaults.count, used), used


def _balanced(
    sizes: NDArray[np.int64], count: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """A fold for each group: the largest first, each to the fold with the fewest rows so far."""
    fold_of_group = np.zeros(len(sizes), dtype=np.int64)
    rows = np.zeros(count)
    for group in sorted(generator.permutation(len(sizes)), key=lambda g: -sizes[g]):
        fold_of_group[group] = smallest = int(rows.argmin())
        rows[smallest] += sizes[group]
    return fold_of_group


def _of_length(rows: Tensor, length: int) -> Tensor:
    """The first rows, or all of them again and again, until there are so many."""
    return rows[:length] if length <= len(rows) else rows[torch.arange(length) % len(rows)]


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


def _row_hashes(features: Features, target: Array) -> NDArray[np.uint64]:
    """A number for each row, the same for rows that are the same in features and target."""
    factors = np.random.default_rng(0).integers(2**63, size=features.shape[1] + 1, dtype=np.uint64)
    hashes = np.zeros(len(target), dtype=np.uint64)
    for start in range(0, len(target), HASHED_ROWS):
        rows = slice(start, start + HASHED_ROWS)
        for column, factor in zip([target, *features.T], 2 * factors + 1, strict=True):
            # Round numbers end in zeros, which a product keeps; its high bits are mixed into them.
            mixed = (column[rows].astype(np.float64) + 0.0).view(np.uint64) * factor
            hashes[rows] += mixed ^ (mixed >> np.uint64(32))
    return hashes
