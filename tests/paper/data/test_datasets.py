"""The embedded data against what is known of the original, and the splits."""

import csv
from pathlib import Path

import numpy as np
import pytest

from softbins.paper.data.datasets import (
    DATASETS,
    Dataset,
    dataset_title,
    load_dataset,
    original_name,
)
from softbins.paper.data.splits import split_rows

HOUR = Path(__file__).parents[4] / "shared" / "data" / "bike" / "hour.csv"
NAMES_OF_BIKE = [
    "instant",
    "year",
    "month",
    "day",
    "season",
    "yr",
    "mnth",
    "hr",
    "holiday",
    "weekday",
    "workingday",
    "weathersit",
    "temp",
    "atemp",
    "hum",
    "windspeed",
]


@pytest.fixture(scope="module")
def bike():
    return load_dataset("bike")


def test_bike_has_the_known_values_of_the_original(bike):
    assert bike.X.shape == (17379, 16)
    assert list(bike.feature_names) == NAMES_OF_BIKE
    assert (bike.y.min(), bike.y.max(), bike.y.sum()) == (1, 977, 3292679)
    assert (bike.low, bike.high) == (0, 1000)
    assert np.isfinite(bike.X).all()
    assert "CC BY 4.0" in bike.source
    assert (bike.X[:, 0] == np.arange(1, 17380)).all()
    dates = np.unique(bike.X[:, 1:4], axis=0)
    assert len(dates) == 731
    assert dates[0].tolist() == [2011, 1, 1]
    assert dates[-1].tolist() == [2012, 12, 31]


def test_bike_is_the_original_cell_for_cell(bike):
    if not HOUR.exists():
        pytest.skip("needs the original hour.csv, which is not part of the project")
    with HOUR.open() as file:
        rows = list(csv.DictReader(file))
    dates = np.array([row["dteday"].split("-") for row in rows], float)
    assert (bike.X[:, 1:4] == dates).all()
    for name in (n for n in NAMES_OF_BIKE if n not in ("year", "month", "day")):
        column = bike.X[:, NAMES_OF_BIKE.index(name)]
        assert (column == np.array([float(row[name]) for row in rows])).all(), name
    assert (bike.y == np.array([float(row["cnt"]) for row in rows])).all()


@pytest.mark.parametrize("name", DATASETS)
def test_a_simulated_dataset_says_so_in_its_title(name):
    assert ("simulated" in dataset_title(name)) == name.endswith("-simulated")
    assert original_name(name) in ("bike", "ct", "song")


def test_an_unknown_dataset_is_an_error_that_lists_the_known():
    with pytest.raises(ValueError, match=r"expected one of bike, ct, song.*got 'boston'"):
        load_dataset("boston")


def test_a_dataset_that_was_not_fetched_says_how_to_fetch_it(tmp_path):
    with pytest.raises(ValueError, match="softbins paper fetch ct"):
        load_dataset("ct", tmp_path)


# Splits


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
