"""Tables in files of many kinds: files become data frames, and data frames files."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from softbins._core.extras import optional_import
from softbins._core.files import write_whole
from softbins.cli.csv_files import UNNAMED, check_names, read_csv
from softbins.cli.excel_files import OLD_CONTAINER, read_excel
from softbins.cli.input_limits import check_content
from softbins.cli.opened_input import ZIP_MAGIC, OpenedInput, input_name, opened_input
from softbins.cli.reading import AS_FOUND, Reading, Table
from softbins.cli.table_errors import TableError as TableError

if TYPE_CHECKING:
    import pandas

# The kind of table that a suffix stands for, and the kinds that are written as well.
FORMATS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "feather",
    ".json": "json",
    ".xlsx": "excel",
    ".xls": "excel",
}
TITLES = {"csv": "CSV", "parquet": "Parquet", "feather": "Feather", "json": "JSON"}
READ_SUFFIXES = tuple(suffix for suffix in FORMATS if suffix != ".xls")
WRITTEN_SUFFIXES = (".csv", ".tsv", ".parquet", ".pq")
# How files begin that say themselves what they are.
MAGIC = {
    b"PAR1": "parquet",
    b"ARROW1": "feather",
    b"FEA1": "feather",
    ZIP_MAGIC: "excel",
    OLD_CONTAINER: "excel",
    b"[": "json",
}


def read_table(
    path: str | Path, reading: Reading = AS_FOUND, text_columns: Sequence[str] = ()
) -> Table:
    """The table in a file, or in standard input for "-".

    Cells keep their text unless a whole column is plain numbers, so that errors can show what
    stands in a cell that is not a number; those of `text_columns` always keep it. Blank lines do
    not count as rows. A first column without a name is left out, as an index.
    """
    try:
        with opened_input(path) as opened:
            kind = reading.format or _format(path, opened)
            if not opened.size:
                raise TableError("the file is empty; need a header and at least one row")
            check_content(opened.file, opened.size, kind)
            table = _parsed(kind, opened, reading, text_columns)
        return _without_unnamed(table)
    except TableError as error:
        raise TableError(f"{input_name(path)}: {error}") from error


def write_table(frame: pandas.DataFrame, path: str | Path) -> None:
    """Write a table as its suffix says, whole or not at all."""
    suffix, zipped = check_written_suffix(path)
    is_text = FORMATS[suffix] == "csv"
    sep = "\t" if suffix == ".tsv" else ","
    data = csv_text(frame, sep).encode() if is_text else _parquet_bytes(frame)
    write_whole(Path(path), gzip.compress(data, mtime=0) if zipped else data)


def csv_text(frame: pandas.DataFrame, sep: str = ",") -> str:
    """A table as CSV, without row numbers, with every digit of its numbers."""
    return str(frame.to_csv(index=False, lineterminator="\n", sep=sep))


def check_written_suffix(path: str | Path) -> tuple[str, bool]:
    """The suffix that says how a table is to be written, and whether it is gzipped as well."""
    name = Path(path).name.lower()
    suffix = Path(name.removesuffix(".gz")).suffix
    if suffix not in WRITTEN_SUFFIXES:
        known = ", ".join(WRITTEN_SUFFIXES)
        raise TableError(f"{path}: unknown kind of table; use one of {known}, or one with .gz")
    return suffix, name.endswith(".gz")


def _format(path: str | Path, opened: OpenedInput) -> str:
    """The kind of a table, which its suffix says, or its first bytes if it has no name."""
    if opened.name:
        kind = FORMATS.get(Path(opened.name).suffix)
        if kind is None:
            known = ", ".join(READ_SUFFIXES)
            need = f"use one of {known}, one of them with .gz or .zip, or give --format"
            raise TableError(f"unknown kind of table; {need}")
        return kind
    start = opened.file.read(1000).lstrip()
    opened.file.seek(0)
    return next((kind for magic, kind in MAGIC.items() if start.startswith(magic)), "csv")


def _parsed(kind: str, opened: OpenedInput, reading: Reading, text_columns: Sequence[str]) -> Table:
    try:
        if kind == "csv":
            return read_csv(opened, reading, text_columns)
        if kind == "excel":
            return read_excel(opened.file, reading)
        readers = {"parquet": _from_parquet, "feather": _from_feather, "json": _from_json}
        return Table(readers[kind](opened.file))
    except (TableError, ImportError, MemoryError):
        raise
    # A damaged file makes the readers raise anything, down to a KeyError in pandas's metadata.
    except Exception as error:
        problem = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise TableError(f"broken {TITLES.get(kind, 'Excel')} file ({problem})") from error


def _from_parquet(file: IO[bytes]) -> Any:
    optional_import("pandas")
    parquet = optional_import("pyarrow.parquet")
    # Checked first, because the reader raises an obscure error for names that occur twice.
    check_names(parquet.read_schema(file).names)
    file.seek(0)
    return parquet.read_table(file).to_pandas().reset_index(drop=True)


def _from_feather(file: IO[bytes]) -> Any:
    optional_import("pandas")
    table = optional_import("pyarrow.feather").read_table(file)
    check_names(table.column_names)
    return table.to_pandas().reset_index(drop=True)


def _from_json(file: IO[bytes]) -> Any:
    """A list of records, each with a value by name; what a record lacks is a gap."""
    pandas = optional_import("pandas")
    try:
        records = json.loads(file.read(), object_pairs_hook=_record)
    except json.JSONDecodeError as error:
        if error.msg != "Extra data":
            raise
        records = None  # a record in each line, without a list around them
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise TableError('need a list of records, such as [{"size": 80, "price": 12.5}, ...]')
    return pandas.DataFrame.from_records(records)


def _record(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    check_names([name for name, _ in pairs])
    return dict(pairs)


def _parquet_bytes(frame: Any) -> bytes:
    optional_import("pyarrow")
    buffer = io.BytesIO()
    frame.to_parquet(buffer, engine="pyarrow", index=False)
    return buffer.getvalue()


def _without_unnamed(table: Table) -> Table:
    """The table without an index, and without columns that have neither a name nor a value."""
    frame = table.frame
    if not len(frame):
        raise TableError("no rows below the header; need at least one")
    frame.columns = frame.columns.astype(str)
    unnamed = [name for name in frame.columns if name.startswith(UNNAMED) or not name.strip()]
    for name in unnamed:
        number = list(frame.columns).index(name)
        if number == 0 and len(frame.columns) > 1:
            table.remarks.append("left out the first column, which has no name, as an index")
        elif not _is_empty(frame[name]):
            raise TableError(f"column {number + 1} has no name; name it or remove it")
    table.frame = frame.drop(columns=unnamed)
    return table


def _is_empty(column: Any) -> bool:
    return bool((column.isna() | (column.astype(str).str.strip() == "")).all())
