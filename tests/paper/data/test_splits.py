"""Splits are disjoint, complete, of the printed sizes, and the same for the same seed."""

import numpy as np
import pytest

from softbins.paper.data.datasets import Dataset
from softbins.paper.data.splits import split_rows


def fake(name, rows, groups=None):
    rng = np.random.default_rng(0)
    y = rng.random(rows)
    return Dataset(name, rng.random((rows, 2)), y, ("a", "b"), 0.0, 1.0, "made up", groups)


PATIENTS = np.repeat(np.arange(97), 20)
SPLITS = [
    ("bike-random", fake("bike", 17379), "random"),
    ("ct-random", fake("ct", 53500), "random"),
    ("song-random", fake("song", 515345), "random"),
    ("song-fixed", fake("song-simulated", 515345), "fixed"),
    ("ct-grouped", fake("ct", len(PATIENTS), PATIENTS), "grouped"),
]


@pytest.mark.parametrize(("dataset", "kind"), [s[1:] for s in SPLITS], ids=[s[0] for s in SPLITS])
def test_the_parts_of_a_split_are_disjoint_and_complete(dataset, kind):
    parts = split_rows(dataset, kind, seed=3)
    index = np.concatenate([parts.train, parts.validation, parts.test])
    assert np.array_equal(np.sort(index), np.arange(len(dataset.y)))
    assert min(map(len, (parts.train, parts.validation, parts.test))) > 0
    assert np.array_equal(np.sort(parts.train_and_validation), np.sort(index[: -len(parts.test)]))


@pytest.mark.parametrize(
    ("dataset", "train", "test"),
    [(SPLITS[0][1], 13903, 3476), (SPLITS[1][1], 42800, 10700), (SPLITS[2][1], 463715, 51630)],
    ids=["bike", "ct", "song"],
)
def test_random_splits_have_the_printed_sizes(dataset, train, test):
    parts = split_rows(dataset, "random", seed=0)
    assert (len(parts.train_and_validation), len(parts.test)) == (train, test)


@pytest.mark.parametrize(("dataset", "kind"), [s[1:] for s in SPLITS], ids=[s[0] for s in SPLITS])
def test_the_same_seed_gives_the_same_split_and_another_another(dataset, kind):
    one, same, other = (split_rows(dataset, kind, seed=s) for s in (1, 1, 2))
    assert np.array_equal(one.train, same.train)
    assert np.array_equal(one.test, same.test)
    assert not np.array_equal(one.train, other.train)


def test_the_fixed_split_of_song_tests_on_the_last_rows():
    parts = split_rows(SPLITS[3][1], "fixed", seed=0)
    assert parts.test.min() == 463715
    assert len(parts.test) == 51630


def test_no_patient_is_on_both_sides_of_a_grouped_split():
    parts = split_rows(SPLITS[4][1], "grouped", seed=0)
    sides = [set(PATIENTS[rows]) for rows in (parts.train, parts.validation, parts.test)]
    assert sum(map(len, sides)) == len(set.union(*sides)) == 97
    assert 0.1 < len(parts.test) / len(PATIENTS) <= 0.2


def test_fewer_rows_are_the_same_sample_for_every_seed():
    dataset = SPLITS[0][1]
    samples = [split_rows(dataset, "random", seed=s, n_rows=1000) for s in (0, 1)]
    rows = [np.sort(np.concatenate([s.train_and_validation, s.test])) for s in samples]
    assert len(rows[0]) == 1000
    assert np.array_equal(*rows)


@pytest.mark.parametrize(
    ("dataset", "kind", "message"),
    [
        (fake("bike", 100), "fixed", "only song has a fixed split, got 'bike'"),
        (fake("bike", 100), "grouped", "'bike' has no groups"),
        (fake("bike", 100), "temporal", "expected one of random, fixed, grouped, got 'temporal'"),
    ],
    ids=["fixed", "grouped", "unknown"],
)
def test_a_split_that_a_dataset_has_not_is_an_error(dataset, kind, message):
    with pytest.raises(ValueError, match=message):
        split_rows(dataset, kind, seed=0)
