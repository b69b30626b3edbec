"""The embedded data against what is known of the original, and the splits."""

import csv
from pathlib import Path

import numpy as np
import pytest

from softbins.paper.data.datasets import DATASETS, dataset_title, load_dataset, original_name

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
