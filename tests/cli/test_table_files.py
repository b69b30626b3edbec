"""Tables in files: what is read, what is refused and with which line, and what is written."""

import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from softbins._core import extras
from softbins.cli.table_columns import features
from softbins.cli.table_files import TableError, read_table, write_table
from tests.cli.runs import parquet

KINDS = ["t.csv", "t.csv.gz", "t.parquet", "t.pq", "t.parquet.gz", "T.CSV"]


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


def test_byte_order_marks_and_blank_lines_do_not_count(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbfa,b\r\n1, 2\r\n\r\n3,4\r\n")
    frame = read_table(tmp_path / "t.csv")
    assert features(frame, ["a", "b"]).to_numpy().tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(("name", "missing"), [("t.csv", "pandas"), ("t.parquet", "pyarrow")])
def test_a_missing_library_is_named_with_the_extra_that_has_it(
    tmp_path, monkeypatch, name, missing
):
    (tmp_path / name).write_bytes(GOOD)
    real = extras.importlib.import_module

    def without(module):
        if module.startswith(missing):
            raise ImportError(module)
        return real(module)

    monkeypatch.setattr(extras.importlib, "import_module", without)
    with pytest.raises(ImportError) as caught:
        read_table(tmp_path / name)
    assert str(caught.value) == f'{missing} is not installed: pip install "softbins[cli]"'
