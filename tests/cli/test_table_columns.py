"""Columns of tables: what becomes a feature or a target, and which cell is to blame if not."""

import datetime
import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from softbins.cli.inputs import read_training_data
from softbins.cli.reading import Table
from softbins.cli.table_columns import TableColumns, features_frame
from softbins.cli.table_files import TableError, read_table, write_table
from tests.cli.runs import parquet


def features(table, names, kinds=None):
    taken, problems = TableColumns(table).take_all(names, kinds)
    if problems:
        raise problems[0]
    return features_frame(taken)


def test_features_and_target_are_in_the_order_of_the_file(tmp_path):
    frame = pd.DataFrame({"b": [1, 2], "y": [5, 6], "a": [True, False]})
    write_table(frame, tmp_path / "t.csv")
    x, y, _ = read_training_data(tmp_path / "t.csv", "y")
    assert (y.dtype, list(x.columns)) == (np.float64, ["b", "a"])
    assert [str(dtype) for dtype in x.dtypes] == ["float64", "bool"]
    assert y.flags.writeable
    assert x.to_numpy(float).tolist() == [[1, 1], [2, 0]]
    assert y.tolist() == [5, 6]


def test_a_model_finds_its_columns_in_any_order_and_ignores_others():
    frame = pd.DataFrame({"note": ["x", "y"], "b": [3, 4], "a": [1, 2]})
    assert features(Table(frame), ["a", "b"]).to_numpy().tolist() == [[1, 3], [2, 4]]


def test_missing_columns_are_named_with_the_closest_that_exists():
    frame = Table(pd.DataFrame({"price": [1.0], "rooms": [2.0]}))
    with pytest.raises(TableError) as caught:
        features(frame, ["prise", "age", "rooms"])
    assert str(caught.value) == (
        "no columns 'prise' (did you mean 'price'?), 'age'; the table has 'price', 'rooms'"
    )
    with pytest.raises(TableError, match=r"^no column 'Price' \(did you mean 'price'\?\)"):
        TableColumns(frame).take("Price")
    wide = Table(pd.DataFrame(np.zeros((1, 30)), columns=[f"c{i}" for i in range(30)]))
    with pytest.raises(TableError, match="'c9' and 20 more$"):
        features(wide, ["zzz"])


# The cells of column x in a CSV file, and what is said about them.
BAD_CELLS = [
    (["1", "abc"], "row 2: 'abc' is not a number"),
    (["x", "1", "x", "x"], "row 1: 'x' is not a number (the first of 3 such rows)"),
    (["1", "2", "inf"], "row 3: 'inf' is not finite"),
    (["1", "-1e999"], "row 2: '-inf' is not finite"),
    (["2020-01-01", "1"], "row 1: '2020-01-01' is not a number"),
    (["1.5", '"1,5"'], "row 2: '1,5' is not a number"),
    (["1.5%", "1%", "1"], "row 3: '1' is not a number"),
    (["$1", "$1", "€1"], "row 3: '€1' is not a number"),
    (["-1", "--1", "-$-1"], "row 2: '--1' is not a number (the first of 2 such rows)"),
    (["1", "1_000"], "row 2: '1_000' is not a number"),
    (["1", '"1,23,456"'], "row 2: '1,23,456' is not a number"),
    (["1", "0x10"], "row 2: '0x10' is not a number"),
    (["1", "x" * 500], f"row 2: '{'x' * 40}' is not a number"),
    (["1", '"two\nlines"'], "row 2: 'two\\nlines' is not a number"),
]


def csv(path, cells):
    path.write_text("y,x\n" + "".join(f"0,{cell}\n" for cell in cells))
    return path


@pytest.mark.parametrize(("cells", "complaint"), BAD_CELLS)
def test_a_target_that_is_no_number_is_named(tmp_path, cells, complaint):
    with pytest.raises(TableError) as caught:
        TableColumns(read_table(csv(tmp_path / "t.csv", cells))).take("x", "number")
    assert str(caught.value) == f"column 'x', {complaint}; mend or remove the row"


# The cells of a feature in a CSV file: what they are without a model, and for a model that takes
# numbers, that takes booleans, and that takes categories; None is a gap.
NOT_DATES = ["2020-01-01"] * 8 + ["x"] * 2
FEATURES = {
    "numbers": (["1", "2.5"], [1, 2.5], [1, 2.5], [1, 2.5], ["1", "2.5"]),
    "gaps": (["1", "", " ", "NA"], [1, None, None, None], "same", "same", ["1", None, None, "NA"]),
    "nothing": (["", ""], [None, None], "same", "same", [None, None]),
    "words": (["1.50", "abc", "d"], ["1.50", "abc", "d"], "'abc' is not", "'abc' is not", "same"),
    "a slip": (["1.50", "abc"], "'abc' is not", "same", "same", ["1.50", "abc"]),
    "NA as a name": (["NA", "abc", ""], ["NA", "abc", None], "'abc' is", "'abc' is", "same"),
    "truth": (["True", "False"], [True, False], [1, 0], [True, False], ["True", "False"]),
    "truth with gaps": (["true", ""], [True, None], [1, None], [1, None], ["true", None]),
    "truth in words": (["tRue", ""], [True, None], "'tRue' is", [1, None], ["tRue", None]),
    "euros": (["€ 12", "€ 1.5", ""], [12, 1.5, None], "same", "same", ["€ 12", "€ 1.5", None]),
    "percent": (["12.5%", "-3 %"], [12.5, -3], "same", "same", ["12.5%", "-3 %"]),
    "infinity": (["1", "inf"], "'inf' is not finite", "same", "same", ["1", "inf"]),
    "dates": (["2020-01-01", "2020-02-01 10:00"], None, "'2020-0", "'2020-0", None),
    "two formats": (["31/01/2020", "1.2.2020 10:00"], "is no date such", "'31/", "'31/", None),
    "versions": (["1.2.3", "1.2.34", "10-12-15"], None, "'1.2.3' is", "'1.2.3' is", None),
    "few dates": (NOT_DATES, NOT_DATES, "'2020-01-01' is not", "'2020-01-01' is not", NOT_DATES),
}


@pytest.mark.parametrize("case", FEATURES)
@pytest.mark.parametrize("kind", ["", "number", "boolean", "category"])
def test_features_of_a_csv_file(tmp_path, case, kind):
    cells, *expected = FEATURES[case]
    found = expected[["", "number", "boolean", "category"].index(kind)]
    expected = expected[0] if found == "same" else found
    path = csv(tmp_path / "t.csv", cells)
    frame = read_table(path, text_columns=["x"] if kind == "category" else [])
    if isinstance(expected, str):
        with pytest.raises(TableError, match="^column 'x'") as caught:
            features(frame, ["x"], [kind])
        assert expected in str(caught.value)
    else:
        column = features(frame, ["x"], [kind])["x"].astype(object)
        values = [None if pd.isna(value) else value for value in column]
        assert values == (cells if expected is None else expected)


# Columns of a Parquet file: its values, and the feature or the complaint; None is a gap.
PARQUET_COLUMNS = [
    (pa.array([1, 2], pa.int8()), [1, 2]),
    (pa.array([True, False]), [1, 0]),
    (pa.array([1.5, 2], pa.float32()), [1.5, 2]),
    (pa.array([Decimal("1.25"), Decimal("2")]), [1.25, 2]),
    (pa.array(["1", "2.5"]), [1, 2.5]),
    (pa.array(["3", "3"]).dictionary_encode(), ["3", "3"]),
    (pa.array(["a", None]), ["a", None]),
    (pa.array([2**64 - 1, 0], pa.uint64()), [2.0**64, 0]),
    (pa.array([1e300, -2e300]), [1e300, -2e300]),
    (pa.array([1, None]), [1, None]),
    (pa.array([True, None]), [True, None]),
    (pa.array([0.0, math.nan]), [0, None]),
    (pa.array(["1", None]), [1, None]),
    (pa.array([None, None]), [None, None]),
    (pa.array([1.0, math.inf]), ", row 2: 'inf' is not finite"),
    (pa.array([0, None], pa.timestamp("s")), [pd.Timestamp(0), None]),
    (pa.array([0, None], pa.date32()), [datetime.date(1970, 1, 1), None]),
    (pa.array([0, None], pa.time32("s")), [datetime.time(), None]),
    (pa.array([0, None], pa.duration("s")), [pd.Timedelta(0), None]),
    (pa.array([[1], [2]]), ", row 1: '[1]' is not a number"),
]


@pytest.mark.parametrize(("column", "expected"), PARQUET_COLUMNS)
def test_columns_of_parquet_files_become_features_or_a_complaint(tmp_path, column, expected):
    (tmp_path / "t.parquet").write_bytes(parquet(pa.table({"x": column})))
    frame = read_table(tmp_path / "t.parquet")
    if isinstance(expected, list):
        column = features(frame, ["x"])["x"].astype(object)
        assert [None if pd.isna(value) else value for value in column] == expected
    else:
        with pytest.raises(TableError) as caught:
            features(frame, ["x"])
        assert f"column 'x'{expected}" in str(caught.value)
