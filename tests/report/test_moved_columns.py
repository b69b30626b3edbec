"""Columns that are not what they were in training."""

import numpy as np
import pandas as pd
import pytest

from softbins import HistogramRegressor, NeuralRegressor
from softbins.report.moved_columns import moved_columns


def rows(count=200, seed=0):
    random = np.random.default_rng(seed)
    towns = random.choice(["Oslo", "Rome", None], count)
    return pd.DataFrame({"size": random.normal(50, 10, count), "town": towns})


@pytest.fixture(scope="module")
def model():
    X = rows()
    return HistogramRegressor((8,), members=2, max_epochs=2, random_state=0).fit(X, X["size"])


def test_rows_like_those_of_training_have_moved_nowhere(model):
    assert moved_columns(model, rows(seed=1)) == []


def test_another_unit_and_new_names_are_seen(model):
    new = rows(seed=1)
    new["size"] *= 1000
    new["town"] = new["town"].replace("Oslo", "Christiania")
    size, town = moved_columns(model, new)
    assert size.startswith("size (median 4")
    assert ", now 488" in size
    share = (new["town"] == "Christiania").mean()
    assert town == f"town ({share:.0%} of rows in new categories)"


@pytest.mark.parametrize("written", [lambda days: days, lambda days: days.strftime("%d.%m.%Y")])
def test_rows_of_another_time_are_seen(written):
    days = pd.date_range("2020-01-01", periods=200)
    model = HistogramRegressor((8,), members=2, max_epochs=2, random_state=0)
    model.fit(pd.DataFrame({"day": written(days)}), np.arange(200.0))
    assert moved_columns(model, pd.DataFrame({"day": written(days[50:150])})) == []
    later = pd.DataFrame({"day": written(days + pd.Timedelta(days=50))})
    assert moved_columns(model, later) == [
        "day (25% of rows after 2020-07-18, the last of training)"
    ]
    earlier = pd.DataFrame({"day": written(days - pd.Timedelta(days=200))})
    assert moved_columns(model, earlier) == [
        "day (100% of rows before 2020-01-01, the first of training)"
    ]


def test_few_rows_and_models_that_know_no_medians_say_nothing(model):
    far = rows().assign(size=1e6)
    assert moved_columns(model, far[:19]) == []
    plain = NeuralRegressor("l2", (8,), max_epochs=1).fit(rows(), np.arange(200.0))
    assert moved_columns(plain, far) == []


def test_a_median_that_chance_alone_has_moved_is_not_mentioned():
    random = np.random.default_rng(0)
    X = pd.DataFrame({"year": random.permutation(np.repeat([2011, 2012], [101, 99]))})
    model = HistogramRegressor((8,), members=2, max_epochs=2, random_state=0)
    model.fit(X, random.normal(size=200))
    new = pd.DataFrame({"year": np.repeat([2011, 2012], [99, 101])})
    assert moved_columns(model, new) == []
    assert moved_columns(model, new.assign(year=2012)) == ["year (median 2011, now 2012)"]
