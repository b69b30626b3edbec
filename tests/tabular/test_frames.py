"""Reading frames: which columns are refused, and which `categorical_features` are."""

import datetime
import math

import numpy as np
import pandas as pd
import polars as pl
import pytest

from softbins import HistogramRegressor
from softbins.tabular.columns import Columns
from softbins.tabular.frames import column_names, frame_library, read_columns

DAY = datetime.date(2020, 1, 31)
QUICK = {"hidden": (16,), "max_epochs": 5, "random_state": 0, "members": 2, "trees": False}
MIXED = {"n": [1.0, 2.0], "t": ["1", "2"], "b": [True, False], "k": [5, 6]}


def polars(values, dtype):
    return pl.Series(values, dtype=dtype)


def one(column):
    """A frame with that one column."""
    frame = pl.DataFrame if isinstance(column, pl.Series) else pd.DataFrame
    return frame({"x": column})


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, np.array], ids=["pd", "pl", "np"])
def test_names_and_kinds_are_those_of_the_frame(frame):
    x = frame(np.ones((2, 2))) if frame is np.array else frame(MIXED)
    known = frame is not np.array
    assert frame_library(x) == {pd.DataFrame: "pandas", pl.DataFrame: "polars"}.get(frame)
    assert column_names(x) == (["n", "t", "b", "k"] if known else None)
    kinds = [column.kind for column in read_columns(x)]
    assert kinds == (["number", "category", "boolean", "number"] if known else ["number"] * 2)


def test_names_that_are_no_text_count_as_none():
    assert column_names(pd.DataFrame(np.ones((2, 2)))) is None
    assert column_names(pd.DataFrame({"a": [1], 5: [2]})) is None


# Columns of which nothing can be learned, and a part of what is said.
REFUSED = {
    "datetime64": (pd.to_datetime(["2020-01-31"]), "dates, times and durations are not taken"),
    "with a zone": (pd.to_datetime(["2020-01-31"]).tz_localize("UTC"), "year, month and weekday"),
    "timedelta": (pd.to_timedelta([1]), "dates, times and durations"),
    "objects of dates": (pd.Series([DAY], dtype=object), "dates, times and durations"),
    "polars date": (polars([DAY], pl.Date), "dates, times and durations"),
    "polars duration": (polars([datetime.timedelta(1)], pl.Duration), "dates, times"),
    "periods": (pd.period_range("2020", periods=1), "holds Period; need numbers, booleans or"),
    "lists": (pd.Series([[1]]), "holds list; need"),
    "polars lists": (polars([[1]], pl.List(pl.Int8)), "holds list; need"),
    "complex": (pd.Series([1j]), "holds complex; need"),
    "bytes": (pd.Series([b"a"]), "holds bytes; need"),
    "infinity": ([1.0, math.inf], ", row 1 (from 0): inf is infinity"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_columns_that_are_refused(case):
    column, message = REFUSED[case]
    frame = one(column)
    model = HistogramRegressor(**QUICK)
    for learn in (Columns.fit, lambda x: model.fit(x, np.arange(len(x)))):
        with pytest.raises(ValueError, match="^X: column 'x'") as caught:
            learn(frame)
        assert message in str(caught.value)
    assert not hasattr(model, "columns_")


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("dtype", "need 'from_dtype', None, or a list of columns, got 'dtype'"),
        (
            ["z"],
            "no column 'z'; give indices, names, or a mask of all 4 columns, which are named 'n",
        ),
        ([4], "no column 4; "),
        ([-1], "no column -1; "),
        ([True, False], "no column True; "),
        ([[0, 1]], r"no column \[0, 1\]; "),
        ([0.5], "no column 0.5; "),
    ],
    ids=str,
)
def test_wrong_categorical_features(choice, message):
    with pytest.raises(ValueError, match=f"^categorical_features: {message}"):
        Columns.fit(pd.DataFrame(MIXED), choice)


def test_names_need_a_frame():
    with pytest.raises(ValueError, match="no column 'a'; .* without names"):
        Columns.fit(np.zeros((3, 2)), ["a"])
