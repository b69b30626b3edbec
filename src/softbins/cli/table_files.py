"""Tables in CSV_SUFFIXES and Parquet files: files become data frames, and data frames files."""

from __future__ import annotations

import gzip
import io
import warnings
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softbins._core.extras import optional_import
from softbins._core.files import write_whole
from softbins.cli.input_limits import check_input

if TYPE_CHECKING:
    import pandas

CSV_SUFFIXES, PARQUET_SUFFIXES = (".csv",), (".parquet", ".pq")
SUFFIXES = CSV_SUFFIXES + PARQUET_SUFFIXES


class TableError(ValueError):
    """A table that cannot be read, written or used, with one line that says why."""


def read_table(path: str | Path, text_columns: Sequence[str] = ()) -> pandas.DataFrame:
    """The table in a .csv, .parquet or .pq file, or in a gzipped one (.csv.gz and so on).

    Cells of a CSV file keep their text unless a whole column is numeric, so that errors can show
    what stands in a cell that is not a number; those of `text_columns` always keep it. Blank lines
    do not count as rows.
    """
    suffix, zipped = check_suffix(path)
    check_input(Path(path), is_csv=suffix in CSV_SUFFIXES, zipped=zipped)
    data = _file_content(Path(path), zipped)
    if not data.strip():
        raise TableError(f"{path}: the file is empty; need a header and at least one row")
    frame = _parsed_frame(path, data, suffix, text_columns)
    if not len(frame):
        raise TableError(f"{path}: no rows below the header; need at least one")
    frame.columns = frame.columns.astype(str)
    return frame


def write_table(frame: pandas.DataFrame, path: str | Path) -> None:
    """Write a table as its suffix says, whole or not at all."""
    suffix, zipped = check_suffix(path)
    data = csv_text(frame).encode() if suffix in CSV_SUFFIXES else _parquet_bytes(frame)
    write_whole(Path(path), gzip.compress(data, mtime=0) if zipped else data)


def csv_text(frame: pandas.DataFrame) -> str:
    """A table as CSV, without row numbers, with every digit of its numbers."""
    return str(frame.to_csv(index=False, lineterminator="\n"))


def check_suffix(path: str | Path) -> tuple[str, bool]:
    """The suffix that says how a table is stored, and whether it is gzipped as well."""
    name = Path(path).name.lower()
    zipped = name.endswith(".gz")
    suffix = Path(name.removesuffix(".gz")).suffix
    if suffix not in SUFFIXES:
        known = ", ".join(SUFFIXES)
        raise TableError(f"{path}: unknown kind of table; use one of {known}, or one with .gz")
    return suffix, zipped


def _file_content(path: Path, zipped: bool) -> bytes:
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if zipped else data
    except FileNotFoundError:
        raise TableError(f"{path}: no such file") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise TableError(f"{path}: broken gzip file ({error})") from error
    except OSError as error:
        raise TableError(f"{path}: cannot be read ({error.strerror})") from error


def _parsed_frame(path: str | Path, data: bytes, suffix: str, text_columns: Sequence[str]) -> Any:
    try:
        return _from_csv(data, text_columns) if suffix in CSV_SUFFIXES else _from_parquet(data)
    except TableError as error:
        raise TableError(f"{path}: {error}") from error
    except UnicodeDecodeError as error:
        raise TableError(f"{path}: not UTF-8 text; save it as UTF-8 ({error})") from error
    except (ImportError, MemoryError):
        raise
    # A damaged file makes the readers raise anything, down to a KeyError in pandas's metadata.
    except Exception as error:
        kind = "CSV" if suffix in CSV_SUFFIXES else "Parquet"
        raise TableError(f"{path}: broken {kind} file ({_first_line(error)})") from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _from_csv(data: bytes, text_columns: Sequence[str]) -> Any:
    pandas = optional_import("pandas")
    header = pandas.read_csv(
        io.BytesIO(data), header=None, nrows=1, dtype=str, keep_default_na=False
    )
    _check_header(list(header.iloc[0]))
    with warnings.catch_warnings():
        # Rows longer than the header would lose their last cells with a mere warning, and
        # without index_col=False their first cells would silently become row names.
        warnings.simplefilter("error", pandas.errors.ParserWarning)
        try:
            return pandas.read_csv(
                io.BytesIO(data),
                index_col=False,
                keep_default_na=False,
                low_memory=False,
                dtype={name: str for name in header.iloc[0] if name in text_columns},
            )
        except pandas.errors.ParserWarning:
            raise TableError("rows have more cells than the header has names") from None


def _from_parquet(data: bytes) -> Any:
    pandas, parquet = optional_import("pandas"), optional_import("pyarrow.parquet")
    # Checked first, because pandas raises an obscure error for names that occur twice.
    _check_header(list(parquet.read_schema(io.BytesIO(data)).names))
    return pandas.read_parquet(io.BytesIO(data), engine="pyarrow").reset_index(drop=True)


def _parquet_bytes(frame: Any) -> bytes:
    optional_import("pyarrow")
    buffer = io.BytesIO()
    frame.to_parquet(buffer, engine="pyarrow", index=False)
    return buffer.getvalue()


def _check_header(names: list[str]) -> None:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise TableError(f"duplicate column name {repeated[0]!r}; rename one of them")
    if "" in names:
        # Such a column usually holds row numbers, from which nothing can be learnt.
        raise TableError(f"column {names.index('') + 1} has no name; name it or remove it")
    separators = [mark for mark in (";", "\t", "|") if mark in names[0]]
    if len(names) == 1 and separators:
        raise TableError(f"cells are separated by {separators[0]!r}; save it with commas")
