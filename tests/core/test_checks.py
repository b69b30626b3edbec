"""One place decides what a column of numbers is, and says what is wrong with one that is not."""

import decimal
import fractions
import math

import numpy as np
import pandas
import polars
import pytest
import torch

from softbins._core.checks import (
    as_floats,
    numeric_array,
    numeric_column,
    require_number,
    weight_column,
)

COLUMNS = {
    "list": [1, 2.5, 3],
    "tuple": (1, 2.5, 3),
    "array": np.array([1, 2.5, 3]),
    "float32": np.array([1, 2.5, 3], dtype=np.float32),
    "objects": np.array([1, fractions.Fraction(5, 2), decimal.Decimal(3)], dtype=object),
    "read-only": np.broadcast_to(np.array([1, 2.5, 3]), (3,)),
    "tensor": torch.tensor([1, 2.5, 3]),
    "tensor with gradient": torch.tensor([1, 2.5, 3], requires_grad=True),
    "bfloat16": torch.tensor([1, 2.5, 3], dtype=torch.bfloat16),
    "tensors": [torch.tensor(1.0), torch.tensor(2.5), torch.tensor(3.0)],
    "pandas": pandas.Series([1, 2.5, 3], index=[7, 8, 9]),
    "pandas nullable": pandas.Series([1, 2.5, 3], dtype="Float64"),
    "polars": polars.Series([1.0, 2.5, 3.0]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_every_kind_of_column_becomes_float64(name):
    found = numeric_column("y", COLUMNS[name], 3)
    assert (type(found), found.dtype) == (np.ndarray, np.float64)
    assert found.tolist() == [1.0, 2.5, 3.0]


def test_whole_numbers_and_booleans_are_numbers():
    assert numeric_column("y", [True, False]).tolist() == [1.0, 0.0]
    assert numeric_column("y", np.array([3], dtype=np.uint8)).tolist() == [3.0]


def test_the_result_is_a_copy():
    given = np.array([1.0, 2.0])
    numeric_column("y", given)[0] = 9.0
    assert given.tolist() == [1.0, 2.0]


BAD = {
    "empty": ([], "y: need at least one row, got none"),
    "a number": (3.0, r"y: need one number for each row, got shape \(\)"),
    "a table": ([[1.0, 2.0]], r"y: need one number for each row, got shape \(1, 2\)"),
    "too short": ([1.0, 2.0], "y: need one number for each of 3 rows, got 2"),
    "NaN": ([1.0, math.nan, 2.0], r"y: 1 of 3 values are NaN or infinite, .* index 1 \(nan\); lea"),
    "infinite": ([1.0, 2.0, -math.inf], r"y: 1 of 3 .* index 2 \(-inf\); leave those rows out"),
    "None": ([1.0, None, 2.0], r"y: 1 of 3 values are NaN or infinite, .* index 1 \(nan\)"),
    "text": ([1.0, "two", 3.0], "y: need an array of numbers but got 'two' at index 1"),
    "text of numbers": (["1", "2", "3"], "y: .* got '1' at index 0; convert it to a number"),
    "bytes": ([b"1", b"2", b"3"], "y: .* got b'1' at index 0"),
    "objects": (np.array([1, {}, 2], dtype=object), "y: .* got {} at index 1"),
    "complex": ([1.0, 2j, 3.0], "y: .* got 2j at index 1"),
    "dates": (
        np.array(["2020-01-01"] * 3, "datetime64[D]"),
        "y: dates, times and durations are not",
    ),
    "missing": (pandas.Series([1, None, 2], dtype="Int64"), "y: .* index 1"),
    "ragged": ([[1.0], [1.0, 2.0]], "y: need an array of numbers .*inhomogeneous"),
    "too large": ([10**400, 1, 2], "y: .* at index 0"),
    "polars text": (polars.Series(["a", "b", "c"]), "y: .* got 'a' at index 0"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_column_of_numbers_is_refused_with_its_place(name):
    values, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        numeric_column("y", values, 3)


def test_gaps_may_be_allowed_but_not_infinity():
    found = numeric_column("x", [1.0, None, math.nan], allow_nan=True)
    assert np.array_equal(found, [1.0, math.nan, math.nan], equal_nan=True)
    with pytest.raises(ValueError, match=r"x: 1 of 3 values are infinite, .* index 2 \(inf\); cut"):
        numeric_column("x", [1.0, math.nan, math.inf], allow_nan=True, hint="cut it off")


def test_arrays_of_any_shape_name_the_index_in_all_dimensions():
    assert numeric_array("x", [[1, 2], [3, 4]]).shape == (2, 2)
    assert numeric_array("x", np.empty((0, 2), dtype=object)).shape == (0, 2)
    with pytest.raises(ValueError, match=r"x: 2 of 4 .* index \(0, 1\) \(nan\)"):
        numeric_array("x", [[1, math.nan], [3, math.inf]])
    with pytest.raises(ValueError, match=r"x: .* got 'b' at index \(1, 0\)"):
        numeric_array("x", np.array([[1, 2], ["b", 3]], dtype=object))
    with pytest.raises(ValueError, match=r"x: need an array of numbers but got 'a'; convert"):
        numeric_array("x", "a")


def test_floats_need_not_be_finite():
    assert as_floats("x", [1, math.inf, None])[1] == math.inf


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -2.0], r"w: 1 of 2 values are negative, the first at index 1 \(-2\); weights must"),
        ([0, 0], "w: all weights are zero, .* give some row a weight above 0"),
        ([1.0, math.nan], "w: 1 of 2 values are NaN or infinite, .* give every row a weight"),
        ([1.0], "w: need one number for each of 2 rows, got 1"),
    ],
)
def test_weights_are_not_negative_and_not_all_zero(weights, message):
    with pytest.raises(ValueError, match=message):
        weight_column("w", weights, 2)


def test_weights_may_be_zero_for_some_rows():
    assert weight_column("w", [0, 3], 2).tolist() == [0.0, 0.75]


@pytest.mark.parametrize("unit", [5e-324, 1e-300, 0.1, 1.0, 2.0**1021])
def test_weights_keep_their_ratios_to_the_last_bit(unit):
    found = weight_column("w", [0, unit, 3 * unit, 7 * unit], 4)
    assert np.array_equal(found / found[1], np.array([0, unit, 3 * unit, 7 * unit]) / unit)
    assert 0.5 <= found.max() < 1


@pytest.mark.parametrize("value", [True, "1", None, math.nan, math.inf, -1.0, 0])
def test_a_number_that_breaks_its_rule_is_refused(value):
    with pytest.raises(ValueError, match=r"rate: must be a number, positive, got "):
        require_number("rate", value)
