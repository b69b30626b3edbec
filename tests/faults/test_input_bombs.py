"""Files that ask for far more than they are: refused in seconds, in one line, before training."""

import gzip
import io
import re
import time
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from softbins.cli import input_limits
from softbins.tabular.base import StackedRegressor
from tests.cli.runs import run

LITTLE_MEMORY = 1e9
MAX_PROCESSOR_SECONDS = 5


def zipped(pieces, members=1):
    """A gzip file of several members, of which only the last is long."""
    file = io.BytesIO()
    for _ in range(members - 1):
        file.write(gzip.compress(b"a,y\n1,2\n") + b"\0" * 3)
    with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=1) as content:
        for piece in pieces:
            content.write(piece)
    return file.getvalue()


def zip_archive(name):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr(name, b"a,y\n" + ROWS * 200)
    return file.getvalue()


def parquet_of_many_rows(path):
    piece = pa.table({"a": np.zeros(2**20), "y": np.zeros(2**20)})
    with pa.parquet.ParquetWriter(path, piece.schema) as writer:
        for _ in range(64):
            writer.write_table(piece)


def parquet_of_many_columns(path):
    pa.parquet.write_table(pa.table({f"c{i}": [1.0] for i in range(3000)}), path)


def sparse(size, start=b""):
    def write(path):
        with open(path, "wb") as file:
            file.write(start)
            file.truncate(size)

    return write


ROWS = b"1,2\n" * 2**18
BOMBS = {
    "rows.csv.gz": lambda path: path.write_bytes(zipped([b"a,y\n", *[ROWS] * 200])),
    "members.csv.gz": lambda path: path.write_bytes(zipped([b"a,y\n", *[ROWS] * 200], members=3)),
    "zeros.parquet.gz": lambda path: path.write_bytes(zipped([bytes(2**20)] * 200)),
    "line.csv.gz": lambda path: path.write_bytes(zipped([b"a,y\n", *[bytes(2**20)] * 40])),
    "header.csv.gz": lambda path: path.write_bytes(zipped([b"name," * 2**18] * 2)),
    "header.csv": lambda path: path.write_bytes(b",".join(b"c%d" % i for i in range(10**6))),
    "line.csv": sparse(2**26, b"a,y\n1,2\n"),
    "nothing.csv": sparse(2**26),
    "large.csv": sparse(2**40),
    "large.parquet": sparse(2**40),
    "rows.csv.zip": lambda path: path.write_bytes(zip_archive("rows.csv")),
    "sheet.xlsx": lambda path: path.write_bytes(zip_archive("[Content_Types].xml")),
    "rows.parquet": parquet_of_many_rows,
    "columns.parquet": parquet_of_many_columns,
}
COMMANDS = {
    "fit": ["fit", "{}", "--target", "y", "-o", "new.model", "--max-seconds", "5"],
    "predict": ["predict", "some.model", "{}", "-o", "-"],
    "evaluate": ["evaluate", "some.model", "{}", "--target", "y"],
    "compare": ["compare", "{}", "--target", "y"],
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_one_line_within_seconds(name, folder, monkeypatch):
    def untimely(*_, **__):
        raise AssertionError("the input should have been checked before training")

    monkeypatch.setattr(StackedRegressor, "_fit_encoded", untimely)
    monkeypatch.setattr(input_limits, "available_memory", lambda: LITTLE_MEMORY)
    if name == "columns.parquet":
        monkeypatch.setattr(input_limits, "MAX_COLUMNS", 1000)
    BOMBS[name](folder / name)
    for command in COMMANDS.values():
        start = time.process_time()
        result = run(*[word.format(name) for word in command])
        assert time.process_time() - start < MAX_PROCESSOR_SECONDS
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith(f"softbins: {name}: ")
        assert result.stderr.count("\n") == 1
        assert re.search("too large|too many|a line is longer|need about", result.stderr)


def test_where_memory_is_large_a_bomb_is_known_by_how_far_it_unpacks(folder, monkeypatch):
    monkeypatch.setattr(input_limits, "available_memory", lambda: 1e15)
    (folder / "rows.csv.gz").write_bytes(gzip.compress(b"a,y\n" + ROWS * 140))
    assert 200 * (folder / "rows.csv.gz").stat().st_size < 2**27 < 140 * len(ROWS)
    result = run("look", "rows.csv.gz")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(
        "softbins: rows.csv.gz: unpacks to more than 200 times its size"
    )


def test_a_repetitive_table_of_some_size_is_read(folder):
    (folder / "zeros.csv.gz").write_bytes(zipped([b"a,y\n", b"0,0\n" * 2**18, b"1,1\n"]))
    assert (folder / "zeros.csv.gz").stat().st_size < 2**20 / 100
    assert run("look", "zeros.csv.gz").exit_code == 0


@pytest.mark.parametrize("seed", range(5))
def test_lines_of_all_lengths_are_measured_across_pieces(seed, monkeypatch):
    """The longest line decides, wherever pieces of the file begin and end."""
    generator = np.random.default_rng(seed)
    monkeypatch.setattr(input_limits, "PIECE_BYTES", int(generator.integers(1, 40)))
    lengths = generator.integers(0, 50, 30)
    content = b"\n".join(b"x" * length for length in lengths)
    for limit in range(int(lengths.max()) - 3, int(lengths.max()) + 3):
        monkeypatch.setattr(input_limits, "MAX_LINE_BYTES", limit)
        file = io.BytesIO(content)
        if lengths.max() > limit:
            with pytest.raises(ValueError, match="^a line is longer than"):
                input_limits.check_content(file, len(content), "csv")
        else:
            input_limits.check_content(file, len(content), "csv")
            assert file.read() == content


@pytest.mark.parametrize("kind", ["csv", "parquet", "feather", "json", "excel"])
def test_broken_files_are_left_to_those_who_read_them(kind):
    for content in (b"", b"PAR1", b"PK\x03\x04", b"a,y\n1,2"):
        file = io.BytesIO(content)
        input_limits.check_content(file, len(content), kind)
        assert file.read() == content
