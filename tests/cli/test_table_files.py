"""Tables in files: what is read, what is refused and with which line, and what is written."""

import gzip
import io
import json
import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from softbins import _extras
from softbins._text import aligned, json_text, shown
from softbins.cli import table_files as tables
from softbins.cli.table_files import (
    TableError,
    features,
    features_and_target,
    read_table,
    write_table,
)

KINDS = ["t.csv", "t.csv.gz", "t.parquet", "t.pq", "t.parquet.gz", "T.CSV"]


def parquet(table):
    buffer = io.BytesIO()
    pa.parquet.write_table(table, buffer)
    return buffer.getvalue()


TWICE = parquet(pa.table([[1.0], [2.0]], names=["a", "a"]))
NO_ROWS = parquet(pa.table({"a": pa.array([], pa.float64())}))
GOOD = parquet(pa.table({"a": [1.0, 2.0]}))

# A file's name and content, and what is said about it after its name.
UNREADABLE = [
    ("t.xlsx", b"a\n1\n", "unknown kind of table; use one of .csv, .parquet, .pq, or one with .gz"),
    ("table", b"a\n1\n", "unknown kind of table"),
    ("t.csv", b"", "the file is empty; need a header and at least one row"),
    ("t.csv", b"\n \n", "the file is empty"),
    ("t.csv.gz", gzip.compress(b"", mtime=0), "the file is empty"),
    ("t.parquet", b"", "the file is empty"),
    ("t.csv", b"a,b\n", "no rows below the header; need at least one"),
    ("t.parquet", NO_ROWS, "no rows below the header"),
    ("t.csv", b"a,b,a\n1,2,3\n", "duplicate column name 'a'; rename one of them"),
    ("t.parquet", TWICE, "duplicate column name 'a'"),
    ("t.csv", b",a\n0,1\n", "column 1 has no name; name it or remove it"),
    ("t.csv", b"a;b\n1;2\n", "cells are separated by ';'; save it with commas"),
    ("t.csv", b"a,b\n1,2,3\n4,5,6\n", "rows have more cells than the header has names"),
    ("t.csv", b"a,b\n1,2\n3,4,5\n", "broken CSV file (Error tokenizing data"),
    ("t.csv", b'a,b\n1,"2\n', "broken CSV file (Error tokenizing data"),
    ("t.csv", b"a\n\xff\n", "not UTF-8 text; save it as UTF-8"),
    ("t.csv.gz", b"a\n1\n", "broken gzip file (Not a gzipped file"),
    ("t.csv.gz", gzip.compress(b"a\n1\n2\n", mtime=0)[:-9], "broken gzip file ("),
    ("t.parquet", b"PAR1 something else", "broken Parquet file ("),
    ("t.parquet", GOOD[:-20], "broken Parquet file ("),
]


@pytest.mark.parametrize(("name", "content", "line"), UNREADABLE)
def test_a_file_that_is_no_table_is_refused_with_one_line(tmp_path, name, content, line):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(TableError) as caught:
        read_table(path)
    assert str(caught.value).startswith(f"{path}: {line}")
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(TableError, match=r"missing\.csv: no such file$"):
        read_table(tmp_path / "missing.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(TableError, match=r"folder\.csv: cannot be read \(Is a directory\)$"):
        read_table(tmp_path / "folder.csv")


@pytest.mark.parametrize("name", KINDS)
def test_what_was_written_is_read_bit_for_bit(tmp_path, name):
    scales = 10.0 ** np.arange(-100, 100, 4).reshape(50, 1)
    numbers = scales * np.random.default_rng(0).normal(size=(50, 2))
    frame = pd.DataFrame(numbers, columns=["a", "ü, with a comma"])
    write_table(frame, tmp_path / name)
    again = read_table(tmp_path / name)
    assert list(again.columns) == list(frame.columns)
    assert np.array_equal(features(again, list(frame.columns)).to_numpy(), numbers)


def test_equal_tables_give_equal_files(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0]})
    for name in KINDS:
        first, second = tmp_path / f"1{name}", tmp_path / f"2{name}"
        write_table(frame, first)
        write_table(frame, second)
        assert first.read_bytes() == second.read_bytes(), name


def test_a_table_that_cannot_be_written_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("old")
    with monkeypatch.context() as broken:
        broken.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space")))
        with pytest.raises(OSError, match="No space"):
            write_table(pd.DataFrame({"a": [1.0]}), path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(TableError, match="unknown kind of table"):
        write_table(pd.DataFrame({"a": [1.0]}), tmp_path / "t.json")


# Columns


def test_features_and_target_are_in_the_order_of_the_file():
    frame = pd.DataFrame({"b": [1, 2], "y": [5, 6], "a": [True, False]})
    x, y, names = features_and_target(frame, "y")
    assert (y.dtype, names, list(x.columns)) == (np.float64, ["b", "a"], ["b", "a"])
    assert [str(dtype) for dtype in x.dtypes] == ["float64", "bool"]
    assert y.flags.writeable
    assert x.to_numpy(float).tolist() == [[1, 1], [2, 0]]
    assert y.tolist() == [5, 6]


def test_a_model_finds_its_columns_in_any_order_and_ignores_others():
    frame = pd.DataFrame({"note": ["x", "y"], "b": [3, 4], "a": [1, 2]})
    assert features(frame, ["a", "b"]).to_numpy().tolist() == [[1, 3], [2, 4]]


def test_missing_columns_are_named_with_the_closest_that_exists():
    frame = pd.DataFrame({"price": [1.0], "rooms": [2.0]})
    with pytest.raises(TableError) as caught:
        features(frame, ["prise", "age", "rooms"])
    assert str(caught.value) == (
        "no columns 'prise' (did you mean 'price'?), 'age'; the table has 'price', 'rooms'"
    )
    with pytest.raises(TableError, match=r"^no column 'Price' \(did you mean 'price'\?\)"):
        features_and_target(frame, "Price")
    wide = pd.DataFrame(np.zeros((1, 30)), columns=[f"c{i}" for i in range(30)])
    with pytest.raises(TableError, match="'c9' and 20 more$"):
        features(wide, ["zzz"])
    with pytest.raises(TableError, match="no columns besides the target 'y'"):
        features_and_target(pd.DataFrame({"y": [1.0]}), "y")


# The cells of column x in a CSV file, and what is said about them.
BAD_CELLS = [
    (["1", "abc"], "row 2: 'abc' is not a number"),
    (["1", "", "2"], "row 2: the cell is empty"),
    (["1", "  "], "row 2: the cell is empty"),
    (["nan", "1"], "row 1: 'nan' is not a number"),
    (["NA", "1", "NA", "NA"], "row 1: 'NA' is not a number (the first of 3 such rows)"),
    (["1", "2", "inf"], "row 3: 'inf' is not finite"),
    (["1", "-1e999"], "row 2: '-inf' is not finite"),
    (["2020-01-01", "1"], "row 1: '2020-01-01' is not a number"),
    (["1", '"1,5"'], "row 2: '1,5' is not a number"),
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
        features_and_target(read_table(csv(tmp_path / "t.csv", cells)), "x")
    assert str(caught.value) == f"column 'x', {complaint}; mend or remove the row or column"


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
    "truth with gaps": (["true", ""], [True, None], "'true' is", [1, None], ["true", None]),
    "infinity": (["1", "inf"], "'inf' is not finite", "same", "same", ["1", "inf"]),
    "dates": (["2020-01-01", "2020-02-01T10:00Z"], "dates, times", "'2020-0", "'2020-0", None),
    "days": (["31/01/2020", "1.2.2020 10:00", " 2020.1.2"], "dates, ti", "'31/", "'31/", None),
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
    frame = read_table(path, ["x"] if kind == "category" else [])
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
    (pa.array([0, 1], pa.timestamp("s")), ": dates, times and durations are not taken"),
    (pa.array([0, 1], pa.date32()), ": dates, times and durations are not taken"),
    (pa.array([0, 1], pa.duration("s")), ": dates, times and durations are not taken"),
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


def test_byte_order_marks_and_blank_lines_do_not_count(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbfa,b\r\n1, 2\r\n\r\n3,4\r\n")
    frame = read_table(tmp_path / "t.csv")
    assert features(frame, ["a", "b"]).to_numpy().tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(("name", "missing"), [("t.csv", "pandas"), ("t.parquet", "pyarrow")])
def test_a_missing_library_is_named_with_the_extra_that_has_it(
    tmp_path, monkeypatch, name, missing
):
    (tmp_path / name).write_bytes(GOOD)
    real = _extras.importlib.import_module

    def without(module):
        if module.startswith(missing):
            raise ImportError(module)
        return real(module)

    monkeypatch.setattr(_extras.importlib, "import_module", without)
    with pytest.raises(ImportError) as caught:
        read_table(tmp_path / name)
    assert str(caught.value) == f'{missing} is not installed: pip install "softbins[cli]"'


# Places and text


def test_places_that_cannot_be_written_are_known_before(tmp_path, monkeypatch):
    tables.check_new_file(tmp_path / "new.csv")
    with pytest.raises(TableError, match="is a folder; name a file in it"):
        tables.check_new_file(tmp_path)
    with pytest.raises(TableError, match=r"no folder '.*missing'; make it first"):
        tables.check_new_file(tmp_path / "missing" / "new.csv")
    (tmp_path / "old.csv").touch()
    # Who runs the tests may be allowed everything, so that the answer of the system is given here.
    monkeypatch.setattr("os.access", lambda path, mode: path == tmp_path)
    with pytest.raises(TableError, match=r"old\.csv' is write-protected"):
        tables.check_new_file(tmp_path / "old.csv")
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(TableError, match="may not write into folder"):
        tables.check_new_file(tmp_path / "new.csv")


def test_an_output_may_not_be_an_input_by_any_name(tmp_path):
    data, link = tmp_path / "data.csv", tmp_path / "link.csv"
    data.touch()
    link.symlink_to(data)
    tables.check_different(tmp_path / "other.csv", data)
    tables.check_different("-", data)
    with pytest.raises(TableError, match="is read as well"):
        tables.check_different(link, data)


def test_text_for_people_and_for_programs():
    assert aligned([["a", "b"], ["long", "c"]]) == "a     b\nlong  c"
    assert shown({"low": 0.123456, "sizes": [1, 2]}) == "low 0.1235, sizes 1, 2"
    strange = {"a": math.nan, "b": [math.inf, 1], "c": (1.5, None)}
    assert json.loads(json_text(strange)) == {"a": None, "b": [None, 1], "c": [1.5, None]}
