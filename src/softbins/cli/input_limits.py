"""Tables that no machine could hold, refused before they are read.

A file of a few megabytes can ask for terabytes: zipped zeros, a line without an end, a Parquet
file that says it has billions of rows. `check_input` looks at a file in pieces, without keeping
any, and raises a `ValueError` that says what is too large.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from softbins._core.extras import optional_import
from softbins._core.memory import available_memory, gigabytes

# Memory that a table takes while it is read, for each byte of its text: the text itself, its
# cells as Python's strings, and columns made of them.
MEMORY_PER_BYTE = 8
# The same for each cell of a Parquet file: a number, and a copy of it.
MEMORY_PER_CELL = 16
MAX_COLUMNS = 100_000
MAX_LINE_BYTES = 2**25  # with the names of many columns, or with a long text in a cell
PIECE_BYTES = 2**22
GZIP_FORMAT = 31  # what zlib calls it


def check_input(path: Path, *, is_csv: bool, zipped: bool) -> None:
    """Raise `ValueError` if a table in a CSV or Parquet file is too large to be read.

    Whatever else is wrong with the file is left to those who read it.
    """
    if not path.is_file():  # a pipe can be read only once
        return
    most = available_memory() / MEMORY_PER_BYTE
    _check_size(path, path.stat().st_size, most)
    with suppress(OSError, EOFError, zlib.error), open(path, "rb") as file:
        pieces = _unzipped(file) if zipped else _pieces(file)
        if is_csv:
            _check_lines(path, pieces, most)
        else:
            _check_parquet(path, b"".join(_of_size(path, pieces, most)) if zipped else path)


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(PIECE_BYTES):
        yield piece


def _unzipped(file: BinaryIO) -> Iterator[bytes]:
    """The content of a gzip file of one or several members, twice as fast as `gzip` has it."""
    unzip, data = zlib.decompressobj(GZIP_FORMAT), file.read(PIECE_BYTES)
    while data:
        if piece := unzip.decompress(data, PIECE_BYTES):
            yield piece
        data = unzip.unconsumed_tail or unzip.unused_data or file.read(PIECE_BYTES)
        if unzip.eof:
            unzip, data = zlib.decompressobj(GZIP_FORMAT), data.lstrip(b"\0")


def _of_size(path: Path, pieces: Iterator[bytes], most: float) -> Iterator[bytes]:
    """The pieces, as long as they are not too many."""
    size = 0
    for piece in pieces:
        size += len(piece)
        _check_size(path, size, most, "at least ")
        yield piece


def _check_size(path: Path, size: float, most: float, least: str = "") -> None:
    if size > most:
        raise ValueError(
            f"{path}: {least}{gigabytes(size)} of table are too large for the memory, which would "
            f"hold {gigabytes(max(most, 0))}; take fewer rows or columns"
        )


def _check_lines(path: Path, pieces: Iterator[bytes], most: float) -> None:
    """Look at the length of every line, and at the number of names in the first."""
    line, columns, in_header = 0, 1, True
    for piece in _of_size(path, pieces, most):
        end = piece.find(b"\n")
        if in_header:
            columns += piece.count(b",", 0, end if end >= 0 else None)
            in_header = end < 0
            _check_columns(path, columns)
        if line + (end if end >= 0 else len(piece)) > MAX_LINE_BYTES:
            limit = f"longer than {MAX_LINE_BYTES // 2**20} MB"
            raise ValueError(f"{path}: a line is {limit}; is it a table with a row in each line?")
        line = line + len(piece) if end < 0 else len(piece) - piece.rfind(b"\n") - 1


def _check_columns(path: Path, columns: int) -> None:
    if columns > MAX_COLUMNS:
        raise ValueError(
            f"{path}: more than {MAX_COLUMNS} columns are too many; leave out those that say little"
        )


def _check_parquet(path: Path, source: Path | bytes) -> None:
    """Look at what a Parquet file says of itself, which costs it nothing to exaggerate."""
    parquet: Any = optional_import("pyarrow.parquet")
    try:
        found = parquet.read_metadata(io.BytesIO(source) if isinstance(source, bytes) else source)
        sizes = [found.row_group(i).total_byte_size for i in range(found.num_row_groups)]
    # Arrow raises anything for a damaged file, for which there are better words elsewhere.
    except Exception:
        return
    _check_columns(path, found.num_columns)
    need = max(MEMORY_PER_CELL * found.num_rows * found.num_columns, 2 * sum(sizes))
    there = max(available_memory(), 0)
    if need > there:
        raise ValueError(
            f"{path}: {found.num_rows} rows of {found.num_columns} columns need about "
            f"{gigabytes(need)} of memory, but {gigabytes(there)} are left; take fewer of them"
        )
