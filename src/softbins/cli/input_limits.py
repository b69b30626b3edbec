"""Tables that no machine could hold, refused before they are read.

A file of a few megabytes can ask for terabytes: packed zeros, a line without an end, a Parquet
file that says it has billions of rows. `check_size` and `check_unpacked` are asked while something
is unpacked, and `check_content` about a file that is not packed, which it looks at in pieces and
keeps none of them.
"""

from __future__ import annotations

import zipfile
from typing import IO, Any

from softbins._core.extras import optional_import
from softbins._core.memory import available_memory, gigabytes
from softbins.cli.table_errors import TableError

# Memory that a table takes while it is read, for each byte of its text: the text itself, its
# cells as Python's strings, and columns made of them.
MEMORY_PER_BYTE = 8
# The same for each cell of a Parquet file: a number, and a copy of it.
MEMORY_PER_CELL = 16
MAX_COLUMNS = 100_000
MAX_LINE_BYTES = 2**25  # with the names of many columns, or with a long text in a cell
PIECE_BYTES = 2**22
# Tables are packed to a tenth of their size or so. Small ones may be as repetitive as they like.
MAX_UNPACKED_RATIO = 200
ALWAYS_UNPACKED_BYTES = 2**27
SEPARATORS = (b",", b";", b"\t", b"|")


def most_bytes() -> float:
    """The size of the largest table that the memory would hold."""
    return available_memory() / MEMORY_PER_BYTE


def check_size(size: float, most: float, least: str = "") -> None:
    """Raise `TableError` if a table of so many bytes is larger than what the memory would hold."""
    if size > most:
        raise TableError(
            f"{least}{gigabytes(size)} of table are too large for the memory, which would hold "
            f"{gigabytes(max(most, 0))}; take fewer rows or columns"
        )


def check_unpacked(size: int, packed: int) -> None:
    """Raise `TableError` if so many packed bytes have become more than those of a table do."""
    if size > max(MAX_UNPACKED_RATIO * packed, ALWAYS_UNPACKED_BYTES):
        raise TableError(
            f"unpacks to more than {MAX_UNPACKED_RATIO} times its size, as tables do not; if it is "
            "one all the same, unpack it first"
        )


def check_content(file: IO[bytes], size: int, kind: str) -> None:
    """Raise `TableError` if a table of that kind, which is not packed, is too large to be read.

    Whatever else is wrong with the file is left to those who read it, from its start.
    """
    check_size(size, most_bytes())
    checks = {"csv": _check_lines, "parquet": _check_parquet, "excel": _check_workbook}
    if kind in checks:
        checks[kind](file)
    file.seek(0)


def _check_lines(file: IO[bytes]) -> None:
    """Look at the length of every line, and at the number of names in the first."""
    line, columns, in_header = 0, 1, True
    while piece := file.read(PIECE_BYTES):
        end = piece.find(b"\n")
        first = end if end >= 0 else len(piece)
        if in_header:
            columns += max(piece.count(mark, 0, first) for mark in SEPARATORS)
            in_header = end < 0
            _check_columns(columns)
        if line + first > MAX_LINE_BYTES:
            limit = f"longer than {MAX_LINE_BYTES // 2**20} MB"
            raise TableError(f"a line is {limit}; is it a table with a row in each line?")
        line = line + len(piece) if end < 0 else len(piece) - piece.rfind(b"\n") - 1


def _check_columns(columns: int) -> None:
    if columns > MAX_COLUMNS:
        text = f"more than {MAX_COLUMNS} columns are too many"
        raise TableError(f"{text}; leave out those that say little")


def _check_parquet(file: IO[bytes]) -> None:
    """Look at what a Parquet file says of itself, which costs it nothing to exaggerate."""
    parquet: Any = optional_import("pyarrow.parquet")
    try:
        found = parquet.read_metadata(file)
        sizes = [found.row_group(i).total_byte_size for i in range(found.num_row_groups)]
    # Arrow raises anything for a damaged file, for which there are better words elsewhere.
    except Exception:
        return
    _check_columns(found.num_columns)
    need = max(MEMORY_PER_CELL * found.num_rows * found.num_columns, 2 * sum(sizes))
    there = max(available_memory(), 0)
    if need > there:
        raise TableError(
            f"{found.num_rows} rows of {found.num_columns} columns need about {gigabytes(need)} "
            f"of memory, but {gigabytes(there)} are left; take fewer of them"
        )


def _check_workbook(file: IO[bytes]) -> None:
    """An Excel file is packed; no more is unpacked of it than it says of itself."""
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            check_size(sum(member.file_size for member in archive.infolist()), most_bytes())
