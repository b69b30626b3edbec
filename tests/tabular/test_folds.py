"""Which rows members leave out."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from softbins.tabular.defaults import DEFAULTS
from softbins.tabular.folds import Folds

FOLDS = DEFAULTS.folds.count
PAIRED = DEFAULTS.folds.max_unpaired_rows + 100
MIN_ROWS = DEFAULTS.folds.min_rows_without_duplicates
ROWS = [*range(2, 40), 63, 64, 65, 100, 255, 256, 257, 512, 599, 600]
BATCHES = [1, 7, 32, 33, 64, 256]


def drawn(n_rows, members, seed=3, **changes):
    return Folds.random(n_rows, members, seed, replace(DEFAULTS.folds, **changes))


def test_members_are_stopped_by_a_part_of_many_rows():
    folds = drawn(1000, 8)
    assert [len(part) for part in folds.stopping_rows(10**6)] == list(map(len, folds.held_out))
    for some, part in zip(folds.stopping_rows(20), folds.held_out, strict=True):
        assert torch.equal(some, part[:20])


@pytest.mark.parametrize("most", [1, 2, 4, 8, 10])
@pytest.mark.parametrize("n_rows", ROWS)
def test_folds_are_disjoint_and_as_equal_as_can_be(n_rows, most):
    members = min(most, n_rows)
    folds = drawn(n_rows, members)
    assert folds.fold_of_member == list(range(members))
    together = torch.cat(folds.parts)
    assert len(together.unique()) == len(together)
    assert together.min() >= 0
    assert together.max() < n_rows
    sizes = [len(part) for part in folds.parts]
    assert max(sizes) - min(sizes) <= 1
    count = members if members >= DEFAULTS.folds.min_count_of_few_rows else min(FOLDS, n_rows)
    assert set(sizes) <= {n_rows // count, math.ceil(n_rows / count)}


@pytest.mark.parametrize("n_rows", ROWS)
def test_all_folds_cover_all_rows(n_rows):
    for members in {DEFAULTS.folds.min_count_of_few_rows, FOLDS}:
        together = torch.cat(drawn(n_rows, min(members, n_rows)).held_out)
        assert together.sort().values.tolist() == list(range(n_rows))


@pytest.mark.parametrize("members", [2, 4, 8, 16])
def test_in_large_tables_two_members_leave_out_the_same(members):
    folds = drawn(PAIRED, members)
    half = members // 2
    assert folds.fold_of_member == [*range(half), *range(half)]
    assert len(folds.parts) == half
    for fold in range(half):
        assert folds.members_of(fold) == [fold, fold + half]
    together = torch.cat(folds.parts)
    assert len(together.unique()) == len(together)
    for part, fold in zip(folds.training_rows(256), folds.held_out, strict=True):
        assert not torch.isin(part, fold).any()
        assert PAIRED - len(fold) - 1 <= len(part) <= PAIRED - len(fold)


def test_an_odd_number_of_members_has_no_pairs():
    assert drawn(PAIRED, 3).fold_of_member == [0, 1, 2]


def test_folds_are_random_and_the_seeds_own():
    one, same, other = (torch.cat(drawn(200, 8, seed).parts) for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert not torch.equal(one, one.sort().values)
    # A member's fold does not depend on how many others there are, up to the number of folds.
    for few, many in zip(drawn(200, 2).parts, drawn(200, 8).parts, strict=False):
        assert torch.equal(few, many)


def test_too_few_rows_are_refused():
    with pytest.raises(ValueError, match="^early_stopping: n_samples=1 leaves no row"):
        drawn(1, 1)
    with pytest.raises(ValueError, match="^members: 9 cannot leave out a row each of n_samples=8"):
        drawn(8, 9)


# Judges


@pytest.mark.parametrize(("max_judges", "each"), [(10**6, 25), (40, 10), (43, 10), (4, 1)])
def test_judges_are_the_first_rows_of_each_fold(max_judges, each):
    folds = drawn(100, 4, max_judges=max_judges)
    for part, judges in zip(folds.parts, folds.judges, strict=True):
        assert torch.equal(judges, part[:each])
        assert len(judges) in (each, each - 1)


def test_some_members_keep_their_folds_and_their_judges():
    folds = drawn(PAIRED, 8, max_judges=40)
    pair = folds.of_members(folds.members_of(2))
    assert pair.fold_of_member == [0, 0]
    assert torch.equal(pair.parts[0], folds.parts[2])
    assert torch.equal(pair.judges[0], folds.judges[2])
    mixed = folds.of_members([3, 1, 7])
    assert mixed.fold_of_member == [0, 1, 0]
    for member, own in zip((3, 1, 7), mixed.held_out, strict=True):
        assert torch.equal(own, folds.held_out[member])
    assert torch.equal(mixed.training_rows(64)[1], folds.training_rows(64)[1])


# Duplicates


def table_with_copies(n_rows=1200, seed=0):
    """Of the first half of the rows some stand there twice or more."""
    generator = np.random.default_rng(seed)
    x, y = generator.normal(size=(n_rows, 3)), generator.normal(size=n_rows)
    again = generator.integers(n_rows // 2, size=n_rows // 4)
    x[-len(again) :], y[-len(again) :] = x[again], y[again]
    return x, y


@pytest.mark.parametrize("members", [2, 4, 8])
def test_a_row_that_others_repeat_judges_nobody(members):
    x, y = table_with_copies()
    folds = drawn(len(y), members)
    reduced = folds.without_duplicates(x, y, MIN_ROWS)
    rows = [tuple(row) for row in np.column_stack([x, y])]
    for fold, left in zip(folds.parts, reduced.parts, strict=True):
        others = {rows[i] for i in set(range(len(y))) - set(fold.tolist())}
        assert left.tolist() == [i for i in fold.tolist() if rows[i] not in others]
        assert len(left) < len(fold)
    assert reduced.fold_of_member == folds.fold_of_member


def test_without_duplicates_folds_are_themselves():
    generator = np.random.default_rng(0)
    folds = drawn(300, 4)
    x = generator.normal(size=(300, 2))
    assert folds.without_duplicates(x, np.zeros(300), MIN_ROWS) is folds


def test_the_same_features_with_another_target_are_no_duplicate():
    folds = drawn(300, 4)
    assert folds.without_duplicates(np.zeros((300, 2)), np.arange(300.0), MIN_ROWS) is folds


def test_a_fold_stays_if_next_to_nothing_would_be_left():
    x = np.repeat(np.random.default_rng(0).normal(size=(30, 2)), 10, axis=0)
    folds = drawn(300, 4)
    reduced = folds.without_duplicates(x, x[:, 0], MIN_ROWS)
    for fold, left in zip(folds.parts, reduced.parts, strict=True):
        assert left is fold
    fewer = folds.without_duplicates(x, x[:, 0], 0)
    assert sum(map(len, fewer.parts)) < sum(map(len, folds.parts))


def test_zero_is_zero_whatever_its_sign():
    x = np.zeros((800, 1))
    x[::2] = -0.0
    x[:400, 0] = np.arange(400)
    folds = drawn(800, 4)
    reduced = folds.without_duplicates(x, np.zeros(800), MIN_ROWS)
    for fold, left in zip(folds.parts, reduced.parts, strict=True):
        assert left.tolist() == [i for i in fold.tolist() if 0 < i < 400]


# Rows to train on


@pytest.mark.parametrize("members", [4, 8])
@pytest.mark.parametrize("start", range(len(BATCHES)))
def test_training_rows_are_all_others(start, members):
    # All numbers of rows from 2 to 600, each with two of the sizes of a batch.
    for n_rows in range(2 + start, 601, len(BATCHES)):
        for batch in (BATCHES[start], BATCHES[start - 1]):
            check_training_rows(n_rows, min(members, n_rows), batch)


def check_training_rows(n_rows, members, batch):
    folds = drawn(n_rows, members, seed=n_rows)
    parts = folds.training_rows(batch)
    assert len(parts) == members
    # What a stack needs: as many batches for all.
    assert len({math.ceil(len(part) / batch) for part in parts}) == 1
    everything = torch.arange(n_rows)
    for part, fold in zip(parts, folds.held_out, strict=True):
        others = everything[~torch.isin(everything, fold)]
        # One row less where the batches would not come out even otherwise.
        assert len(others) - 1 <= len(part) <= len(others)
        assert torch.equal(part, others[: len(part)])
        assert len(part) >= 1


@given(st.integers(2, 600), st.integers(1, 12), st.integers(1, 300))
def test_training_rows_of_any_table(n_rows, members, batch):
    check_training_rows(n_rows, min(members, n_rows), batch)
