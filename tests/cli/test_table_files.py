"""Tables in files: what is read, what is refused and with which line, and what is written."""

import gzip
import io
import os
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from softbins._core import extras
from softbins.cli import table_files
from softbins.cli.reading import Reading
from softbins.cli.table_files import TableError, read_table, write_table
from tests.cli.runs import parquet

KINDS = ["t.csv", "t.tsv", "t.csv.gz", "t.parquet", "t.pq", "t.parquet.gz", "T.CSV"]


TWICE = parquet(pa.table([[1.0], [2.0]], names=["a", "a"]))
NO_ROWS = parquet(pa.table({"a": pa.array([], pa.float64())}))
GOOD = parquet(pa.table({"a": [1.0, 2.0]}))


def zipped(*members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in members:
            archive.writestr(name, "a,b\n1,2\n")
    return buffer.getvalue()


LOCKED = bytearray(zipped("t.csv"))
for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
    LOCKED[LOCKED.index(signature) + offset] |= 1  # the flag of an encrypted member

# A file's name and content, and what is said about it after its name.
UNREADABLE = [
    ("t.docx", b"a\n1\n", "unknown kind of table; use one of .csv, .tsv, .parquet, .pq, .feather"),
    ("table", b"a\n1\n", "unknown kind of table"),
    ("t.csv", b"", "the file is empty; need a header and at least one row"),
    ("t.csv", b"\n \n", "the file is empty"),
    ("t.csv.gz", gzip.compress(b"", mtime=0), "the file is empty"),
    ("t.parquet", b"", "the file is empty"),
    ("t.csv", b"a,b\n", "no rows below the header; need at least one"),
    ("t.json", b"[]", "no rows below the header"),
    ("t.parquet", NO_ROWS, "no rows below the header"),
    ("t.csv", b"a,b,a\n1,2,3\n", "duplicate column name 'a'; rename one of them"),
    ("t.csv", b"a,b,a,b\n1,2,3,4\n", "duplicate column names 'a', 'b'; each may stand only once"),
    (
        "t.csv",
        b"Sales\na,b,c\n1,2,3\n",
        "row 1 has 3 cells, but the header one name; ",
    ),
    ("t.json", b'[{"a": 1, "a": 2}]', "duplicate column name 'a'"),
    ("t.json", b'{"a": 1}\n{"a": 2}\n', "need a list of records"),
    ("t.parquet", TWICE, "duplicate column name 'a'"),
    ("t.csv", b"a,,b\n0,1,2\n", "column 2 has no name; name it or remove it"),
    ("t.csv", b"a,b;c\n1,2;3\n", "cells may be separated by ',' or ';'; give --sep"),
    ("t.csv", b"a,b\n1,2,3\n4,5,6\n", "row 1 has 3 cells, but the header 2 names; mend the row"),
    ("t.csv", b"a,b\n1,2\n3\n", "row 2 has 1 cells, but the header 2 names; mend the row"),
    ("t.csv", b'a,b\n1,2\n1,"2\n3,4\n', "broken CSV file (row 2 opens a quote that is never c"),
    ("t.csv", b"a\n\x81\n", "neither UTF-8 nor Latin-1 text; give its --encoding"),
    ("t.csv", b"a\n\0\0\0\n", "not text: it has zero bytes; give its --format or --encoding"),
    ("t.csv.gz", b"a\n1\n", "broken gzip file (Not a gzipped file"),
    ("t.csv.gz", gzip.compress(b"a\n1\n2\n", mtime=0)[:-9], "broken gzip file ("),
    ("t.csv.zip", b"a\n1\n", "broken zip file ("),
    ("t.csv.zip", zipped("1.csv", "2.csv"), "the zip archive holds 2 files ('1.csv', '2.csv');"),
    ("t.csv.zip", zipped(), "the zip archive holds no file; need one"),
    ("t.csv.zip", bytes(LOCKED), "the zip archive is protected by a password; unpack it first"),
    ("t.parquet", b"PAR1 something else", "broken Parquet file ("),
    ("t.parquet", GOOD[:-20], "broken Parquet file ("),
    ("t.feather", b"ARROW1 something else", "broken Feather file ("),
    ("t.json", b'{"a": [1]}', "need a list of records, such as "),
    ("t.json", b'[{"a": 1}', "broken JSON file ("),
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
    again = read_table(tmp_path / name).frame
    assert list(again.columns) == list(frame.columns)
    assert np.array_equal(again.to_numpy(), numbers)


# The same table in files that are only read.
FRAME = pd.DataFrame({"a": [1.5, 2.5], "b": ["x", "y"]})
READ = {
    "t.feather": lambda path: FRAME.to_feather(path),
    "t.json": lambda path: FRAME.to_json(path, orient="records"),
    "t.json.gz": lambda path: FRAME.to_json(path, orient="records"),
    "t.csv.zip": lambda path: FRAME.to_csv(path, index=False),
    "t.zip": lambda path: path.write_bytes(_archive_with_finder_files()),
    "t.xlsx": lambda path: FRAME.to_excel(path, index=False),
    "t.csv": lambda path: FRAME.to_csv(path),
}


def _archive_with_finder_files():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("folder/T.csv", FRAME.to_csv(index=False))
        archive.writestr("__MACOSX/folder/._T.csv", "not a table")
    return buffer.getvalue()


@pytest.mark.parametrize("name", READ)
def test_the_same_table_in_files_of_many_kinds(tmp_path, name):
    READ[name](tmp_path / name)
    table = read_table(tmp_path / name)
    assert table.frame.to_dict("list") == FRAME.to_dict("list")
    index = ["left out the first column, which has no name, as an index"]
    assert table.remarks == (index if name == "t.csv" else [])


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.zip", "t.parquet", "t.feather", "t.json"])
def test_standard_input_is_recognised_by_its_content(tmp_path, monkeypatch, name):
    writers = {**READ, "t.csv.gz": lambda path: FRAME.to_csv(path, index=False)}
    writers["t.parquet"] = lambda path: FRAME.to_parquet(path)
    writers[name](tmp_path / name)
    stream = io.TextIOWrapper(io.BytesIO((tmp_path / name).read_bytes()))
    monkeypatch.setattr("sys.stdin", stream)
    assert read_table("-").frame.to_dict("list") == FRAME.to_dict("list")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a,b\n")))
    with pytest.raises(TableError, match="^standard input: no rows below the header"):
        read_table("-")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\x1f\x8b and no more")))
    with pytest.raises(TableError, match="^standard input: broken gzip file"):
        read_table("-")


def test_a_format_can_be_given(tmp_path):
    FRAME.to_csv(tmp_path / "export.txt", index=False)
    found = read_table(tmp_path / "export.txt", Reading(format="csv"))
    assert found.frame.to_dict("list") == FRAME.to_dict("list")


def test_a_file_that_grows_while_it_is_read_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "1,2\n" * 1000)
    real = table_files.read_csv

    def slowly(*arguments):
        table = real(*arguments)
        with path.open("a") as file:
            file.write("3,4\n")
        return table

    monkeypatch.setattr(table_files, "read_csv", slowly)
    with pytest.raises(TableError, match="changed while it was read; try again when it is compl"):
        read_table(path)


def test_a_file_that_is_cut_while_it_is_read_is_not_called_broken(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "1,2\n" * 1000)
    real = table_files.read_csv

    def cut(*arguments):
        os.truncate(path, 2001)
        return real(*arguments)

    os.truncate(path, 2001)
    with pytest.raises(TableError, match="row 500 has 1 cells"):
        read_table(path)
    path.write_text("a,b\n" + "1,2\n" * 1000)
    monkeypatch.setattr(table_files, "read_csv", cut)
    with pytest.raises(TableError, match="changed while it was read"):
        read_table(path)


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


@pytest.mark.parametrize(
    ("name", "missing"), [("t.csv", "pandas"), ("t.parquet", "pyarrow"), ("t.xlsx", "openpyxl")]
)
def test_a_missing_library_is_named_with_the_extra_that_has_it(
    tmp_path, monkeypatch, name, missing
):
    (tmp_path / name).write_bytes(b"a\n1\n" if name == "t.csv" else GOOD)
    real = extras.importlib.import_module

    def without(module):
        if module.startswith(missing):
            raise ImportError(module)
        return real(module)

    monkeypatch.setattr(extras.importlib, "import_module", without)
    with pytest.raises(ImportError) as caught:
        read_table(tmp_path / name)
    extra = "excel" if missing == "openpyxl" else "cli"
    assert str(caught.value) == f'{missing} is not installed: pip install "softbins[{extra}]"'
