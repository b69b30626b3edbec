"""`predict_frame`: what the other methods predict, in a frame like the one that came in."""

import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError

from softbins import HistogramRegressor
from softbins.evaluation import predictions
from softbins.tabular.frame_output import quantile_names
from tests.report.small_models import fitted, table, tabular

NAMES = ["mean", "median", "low", "high", "quantile_0.1", "quantile_0.25"]


@pytest.fixture(scope="module")
def models():
    return {
        "calibrated": tabular(),
        "not calibrated": tabular(early_stopping=False),
        "as in the paper": fitted(),
        "mdn": fitted("mdn"),
    }


@pytest.fixture(params=["calibrated", "not calibrated", "as in the paper", "mdn"])
def model(models, request):
    return models[request.param]


def test_columns_are_what_the_other_methods_predict(model):
    rows, _ = table(30, seed=1)
    frame = model.predict_frame(rows, coverage=0.8, quantiles=[0.1, 0.25])
    assert list(frame.columns) == NAMES
    np.testing.assert_allclose(frame["mean"], model.predict(rows), rtol=1e-12)
    np.testing.assert_array_equal(frame["median"], model.predict(rows, output="median"))
    np.testing.assert_array_equal(frame[["low", "high"]], model.predict_interval(rows, 0.8))
    np.testing.assert_array_equal(frame[NAMES[4:]], model.predict_quantiles(rows, [0.1, 0.25]))


def test_the_index_of_the_rows_is_kept(models):
    rows, _ = table(6)
    rows.index = pd.Index(list("fedcba"), name="house")
    model = models["calibrated"]
    frame = model.predict_frame(rows)
    assert list(frame.columns) == NAMES[:4]
    pd.testing.assert_index_equal(frame.index, rows.index)
    assert isinstance(model.predict(rows), np.ndarray)
    assert isinstance(model.predict_interval(rows), np.ndarray)


def test_frames_come_from_the_library_of_the_rows(models):
    rows, _ = table(6)
    model = models["calibrated"]
    ours, theirs = model.predict_frame(rows), model.predict_frame(pl.from_pandas(rows))
    assert isinstance(theirs, pl.DataFrame)
    assert theirs.columns == NAMES[:4]
    np.testing.assert_array_equal(theirs.to_numpy(), ours.to_numpy())


def test_an_array_gives_a_frame_of_pandas():
    rows, y = table(40)
    model = HistogramRegressor((8,), members=2, max_epochs=2, random_state=0)
    frame = model.fit(rows.to_numpy(), y).predict_frame(rows.to_numpy()[:3])
    assert frame.index.tolist() == [0, 1, 2]


def test_without_pandas_the_error_names_the_extra(monkeypatch):
    rows, y = table(40)
    polars = pl.from_pandas(rows)
    model = HistogramRegressor((8,), members=2, max_epochs=2, random_state=0)
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert model.fit(polars, y).predict_frame(polars).shape == (40, 4)
    with pytest.raises(ImportError, match=r"softbins\[cli\]"):
        model.fit(polars.to_numpy(), y).predict_frame(polars.to_numpy())


def test_a_model_of_numbers_has_the_mean_only():
    rows, _ = table(6)
    model = fitted("l2")
    assert list(model.predict_frame(rows).columns) == ["mean"]
    with pytest.raises((ValueError, NotImplementedError, AttributeError)):
        model.predict_frame(rows, quantiles=[0.5])


def test_an_estimator_that_is_not_fitted_says_so():
    with pytest.raises(NotFittedError):
        HistogramRegressor().predict_frame(table(3)[0])


def test_levels_that_differ_have_different_names(models):
    assert quantile_names([0.5, np.float32(0.25)]) == ["quantile_0.5", "quantile_0.25"]
    levels = [0.1, 0.1000000001, 1 / 3]
    assert len(set(quantile_names(levels))) == 3
    found = predictions(models["calibrated"], table(3)[0], interval=0.9, quantiles=levels)
    assert list(found)[:3] == ["prediction", "low_0.9", "high_0.9"]
    assert len(found) == 6
