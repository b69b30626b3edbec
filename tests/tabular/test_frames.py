"""Reading frames of any kind: what is refused, and which `categorical_features` are."""

import math
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from softbins import HistogramRegressor
from softbins.tabular.columns import Columns
from softbins.tabular.frames import as_frame, column_names, read_columns, take_rows

QUICK = {"hidden": (16,), "max_epochs": 5, "random_state": 0, "members": 2, "trees": False}
FRAMES = ("pandas", "polars", "pyarrow", "modin")
MIXED = {"n": [1.0, 2.0], "t": ["1", "2"], "b": [True, False], "k": [5, 6]}


def polars(values, dtype):
    return pl.Series(values, dtype=dtype)


def make_frame(kind, data):
    """A frame of that library."""
    if kind == "modin":  # which needs an older pandas
        return pytest.importorskip("modin.pandas", reason="modin is not installed").DataFrame(data)
    return {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[kind](data)


def one(column):
    """A frame with that one column."""
    frame = pl.DataFrame if isinstance(column, pl.Series) else pd.DataFrame
    return frame({"x": column})


@pytest.mark.parametrize("kind", FRAMES)
def test_names_and_kinds_are_those_of_the_frame(kind):
    x = make_frame(kind, MIXED)
    assert column_names(x) == ["n", "t", "b", "k"]
    kinds = [column.kind for column in read_columns(x)]
    assert kinds == ["number", "text", "boolean", "number"]
    assert list(read_columns(take_rows(x, np.array([1]))))[1].values.tolist() == ["2"]


def test_an_array_is_no_frame():
    x = np.ones((2, 2))
    assert as_frame(x) is None
    assert column_names(x) is None
    assert [column.kind for column in read_columns(x)] == ["number"] * 2
    assert take_rows(x, np.array([1])).tolist() == [[1.0, 1.0]]


def test_arrays_do_without_the_library_of_frames():
    program = (
        "import sys, numpy as np; from softbins.tabular.columns import Columns;"
        "Columns.fit(np.ones((3, 2))).transform(np.ones((1, 2))); print('narwhals' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (found.stdout, found.stderr) == ("False\n", "")


def test_a_lazy_frame_is_to_be_collected():
    with pytest.raises(ValueError, match="^X: is a lazy frame.*; collect it first"):
        Columns.fit(pl.LazyFrame(MIXED))


@pytest.mark.parametrize("kind", FRAMES)
def test_a_model_takes_frames_of_any_kind_and_answers_in_it(kind):
    rows = np.arange(40)
    data = {"n": rows % 7 + 0.5, "t": [f"{i % 3}" for i in rows], "b": rows % 2 == 0}
    x, reference = make_frame(kind, data), pd.DataFrame(data)
    model = HistogramRegressor(**QUICK).fit(x, rows)
    np.testing.assert_array_equal(model.predict(x), model.predict(reference))
    answer = model.predict_frame(x)
    assert type(answer) is type(x)
    found = [column.values for column in read_columns(answer)]
    np.testing.assert_array_equal(np.stack(found, 1), model.predict_frame(reference).to_numpy())


def test_two_columns_of_the_same_name_are_told_apart_by_their_places():
    x = pd.DataFrame([[1.0, "a"], [2.0, "b"]], columns=["x", "x"])
    assert [column.kind for column in read_columns(x)] == ["number", "text"]


def test_names_that_are_no_text_count_as_none():
    assert column_names(pd.DataFrame(np.ones((2, 2)))) is None
    assert column_names(pd.DataFrame({"a": [1], 5: [2]})) is None


# Columns of which nothing can be learned, and a part of what is said.
REFUSED = {
    "periods": (pd.period_range("2020", periods=1), "holds Period; need numbers, booleans,"),
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
