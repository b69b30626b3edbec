"""Tables for the command line: CSV and Parquet files, their columns, and plain text."""

from __future__ import annotations

import difflib
import gzip
import io
import os
import warnings
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from softbins._extras import optional_import
from softbins._files import write_whole

if TYPE_CHECKING:
    import pandas

CSV, PARQUET = (".csv",), (".parquet", ".pq")
SUFFIXES = CSV + PARQUET
TRUTH = {"true": True, "false": False}
# Days as people write them, with a year of four digits: 1.2.3 may be a version, or a place.
DAY = r"\s*(\d{4}([./-])\d{1,2}\2\d{1,2}|\d{1,2}([./-])\d{1,2}\3\d{4})(\D.*)?"
DATED = 0.9  # share of a column's text that are dates, from which on it is not taken for names
NUMERIC = 0.5  # share of numbers from which on text is numbers, and a word among them a mistake
SHOWN = 40  # characters of a cell, and columns of a table, that an error shows at most

Array = NDArray[np.float64]


class TableError(ValueError):
    """A table that cannot be read, written or used, with one line that says why."""


# Files


def read_table(path: str | Path, text: Sequence[str] = ()) -> pandas.DataFrame:
    """The table in a .csv, .parquet or .pq file, or in a gzipped one (.csv.gz and so on).

    Cells of a CSV file keep their text unless a whole column is numeric, so that errors can show
    what stands in a cell that is not a number; those of the columns in `text` always keep it.
    Blank lines do not count as rows.
    """
    suffix, zipped = check_suffix(path)
    data = _content(Path(path), zipped)
    if not data.strip():
        raise TableError(f"{path}: the file is empty; need a header and at least one row")
    frame = _parsed(path, data, suffix, text)
    if not len(frame):
        raise TableError(f"{path}: no rows below the header; need at least one")
    frame.columns = frame.columns.astype(str)
    return frame


def write_table(frame: pandas.DataFrame, path: str | Path) -> None:
    """Write a table as its suffix says, whole or not at all."""
    suffix, zipped = check_suffix(path)
    data = csv_text(frame).encode() if suffix in CSV else _parquet_bytes(frame)
    write_whole(Path(path), gzip.compress(data, mtime=0) if zipped else data)


def write_text(text: str, path: str | Path) -> None:
    """Write text such as a page, whole or not at all."""
    write_whole(Path(path), text.encode())


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


def check_new_file(path: str | Path) -> None:
    """Raise unless a file can be written there; for those who work long before they write."""
    folder = Path(path).parent
    if Path(path).is_dir():
        raise TableError(f"{str(path)!r} is a folder; name a file in it")
    if not folder.is_dir():
        raise TableError(f"no folder {str(folder)!r}; make it first")
    if not os.access(folder, os.W_OK):
        raise TableError(f"may not write into folder {str(folder)!r}; choose another")
    if Path(path).exists() and not os.access(path, os.W_OK):
        raise TableError(f"{str(path)!r} is write-protected; choose another file")


def check_different(output: str | Path, *inputs: str | Path) -> None:
    """Raise if writing the output would replace a file that is about to be read."""
    for path in inputs:
        if os.path.exists(path) and os.path.exists(output) and os.path.samefile(path, output):
            raise TableError(f"{output}: is read as well; choose another file for the result")


def _content(path: Path, zipped: bool) -> bytes:
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if zipped else data
    except FileNotFoundError:
        raise TableError(f"{path}: no such file") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise TableError(f"{path}: broken gzip file ({error})") from error
    except OSError as error:
        raise TableError(f"{path}: cannot be read ({error.strerror})") from error


def _parsed(path: str | Path, data: bytes, suffix: str, text: Sequence[str]) -> Any:
    try:
        return _from_csv(data, text) if suffix in CSV else _from_parquet(data)
    except TableError as error:
        raise TableError(f"{path}: {error}") from error
    except UnicodeDecodeError as error:
        raise TableError(f"{path}: not UTF-8 text; save it as UTF-8 ({error})") from error
    except (ImportError, MemoryError):
        raise
    # Damage shows as whatever the readers trip over, down to a KeyError in pandas's metadata.
    except Exception as error:
        kind = "CSV" if suffix in CSV else "Parquet"
        raise TableError(f"{path}: broken {kind} file ({_first_line(error)})") from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _from_csv(data: bytes, text: Sequence[str]) -> Any:
    pandas = optional_import("pandas")
    header = pandas.read_csv(
        io.BytesIO(data), header=None, nrows=1, dtype=str, keep_default_na=False
    )
    _check_header(list(header.iloc[0]))
    how: dict[str, Any] = {"index_col": False, "keep_default_na": False, "low_memory": False}
    how["dtype"] = {name: str for name in header.iloc[0] if name in text}
    with warnings.catch_warnings():
        # Rows longer than the header would lose their last cells with a mere warning, and
        # without index_col=False their first cells would silently become row names.
        warnings.simplefilter("error", pandas.errors.ParserWarning)
        try:
            return pandas.read_csv(io.BytesIO(data), **how)
        except pandas.errors.ParserWarning:
            raise TableError("rows have more cells than the header has names") from None


def _from_parquet(data: bytes) -> Any:
    pandas, parquet = optional_import("pandas"), optional_import("pyarrow.parquet")
    # pandas would read duplicates as an obscure error, so that the names are checked first.
    _check_header(list(parquet.read_schema(io.BytesIO(data)).names))
    return pandas.read_parquet(io.BytesIO(data), engine="pyarrow").reset_index(drop=True)


def _parquet_bytes(frame: Any) -> bytes:
    optional_import("pyarrow")
    buffer = io.BytesIO()
    frame.to_parquet(buffer, engine="pyarrow", index=False)
    return buffer.getvalue()


def _check_header(names: list[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise TableError(f"duplicate column name {twice[0]!r}; rename one of them")
    if "" in names:
        # Usually row numbers that a program wrote; as a feature they would only mislead.
        raise TableError(f"column {names.index('') + 1} has no name; name it or remove it")
    separators = [mark for mark in (";", "\t", "|") if mark in names[0]]
    if len(names) == 1 and separators:
        raise TableError(f"cells are separated by {separators[0]!r}; save it with commas")


# Columns


def features_and_target(frame: pandas.DataFrame, target: str) -> tuple[Any, Array, list[str]]:
    """X (n, d) from all columns but one, y (n,) from that one, and the names of X's columns."""
    y = target_of(frame, target)
    names = [name for name in frame.columns if name != target]
    if not names:
        raise TableError(f"no columns besides the target {target!r}; need at least one feature")
    return features(frame, names), y, names


def target_of(frame: pandas.DataFrame, target: str) -> Array:
    """The target column, without gaps."""
    _check_present(frame, [target])
    return _numbers(frame[target], target)


def inputs(frame: pandas.DataFrame, names: Sequence[str] | None, kinds: Sequence[str]) -> Any:
    """The columns that a model knows, by name, or by position if it has learnt no names."""
    if names is not None:
        return features(frame, names, kinds)
    if len(frame.columns) != len(kinds):
        need = f"the model needs {len(kinds)} columns, without names"
        raise TableError(f"{need}; the table has {len(frame.columns)}")
    # An array, because scikit-learn warns of names that training did not have.
    return features(frame, list(frame.columns), kinds).to_numpy()


def features(
    frame: pandas.DataFrame, names: Sequence[str], kinds: Sequence[str] | None = None
) -> pandas.DataFrame:
    """The named columns in the order of their names; other columns do not matter.

    A column is numbers, truth or categories as its dtype says, and text as all its cells say,
    unless `kinds` says what a model takes it for.
    """
    _check_present(frame, names)
    columns = zip(names, kinds or [""] * len(names), strict=True)
    return optional_import("pandas").DataFrame(
        {name: _feature(frame[name], name, kind) for name, kind in columns}
    )


def _feature(column: Any, name: str, kind: str) -> Any:
    """A column as a model takes it, with gaps where cells are empty."""
    infer = optional_import("pandas").api.types.infer_dtype
    if column.dtype == object:
        # Such as booleans with an empty cell among them.
        column = column.convert_dtypes()
    held = infer(column, skipna=True)
    if held.startswith(("date", "time", "period")):
        raise _dates(name)
    if held == "string":
        column = column.mask(column.str.strip() == "")
        column = _truth(column, kind == "boolean") if kind in ("", "boolean") else column
    taken = held in ("categorical", "boolean") or column.dtype == "boolean"
    if kind in ("category", "empty") or (kind == "" and taken):
        return column
    if kind == "" and held == "string" and _share_of_numbers(column) < NUMERIC:
        return _words(column, name)
    return _numbers(column, name, gaps=True)


def _truth(column: Any, certain: bool) -> Any:
    """Text of nothing but true and false as booleans; if it must be that, such cells as 1 and 0."""
    words = column.str.strip().str.lower()
    if certain:
        return column.mask(words == "true", "1").mask(words == "false", "0")
    if column.isna().all() or not (words.isin(list(TRUTH)) | column.isna()).all():
        return column
    return words.map(TRUTH).astype("boolean")


def _share_of_numbers(column: Any) -> float:
    """Of the cells that are no gaps; an empty column counts as numbers."""
    known = _known(column).dropna()
    return float(_parsed_numbers(known).notna().mean()) if len(known) else 1.0


def _known(column: Any) -> Any:
    """The column without the words that people write where no number is known."""
    from softbins.tabular.frames import MISSING_WORDS

    return column.mask(column.astype(str).str.strip().str.lower().isin(MISSING_WORDS))


def _parsed_numbers(column: Any) -> Any:
    # Through text, because pandas takes dates for numbers of nanoseconds.
    return optional_import("pandas").to_numeric(column.astype(str), errors="coerce")


def _words(column: Any, name: str) -> Any:
    """Text that names categories, which dates do not."""
    words = column.dropna()
    dates = optional_import("pandas").to_datetime(
        words, errors="coerce", format="ISO8601", utc=True
    )
    if (dates.notna() | words.astype(str).str.fullmatch(DAY)).mean() > DATED:
        raise _dates(name)
    return column


def _dates(name: str) -> TableError:
    from softbins.tabular.frames import DATES_NOT_TAKEN

    return TableError(f"column {name!r}: {DATES_NOT_TAKEN}")


def _check_present(frame: Any, names: Sequence[str]) -> None:
    present = [str(name) for name in frame.columns]
    missing = [name for name in names if name not in present]
    if not missing:
        return
    close = {name: difflib.get_close_matches(name, present, n=1) for name in missing}
    listed = ", ".join(
        f"{name!r} (did you mean {close[name][0]!r}?)" if close[name] else f"{name!r}"
        for name in missing[:SHOWN]
    )
    noun = "column" if len(missing) == 1 else "columns"
    raise TableError(f"no {noun} {listed}; the table has {_short_list(present)}")


def _short_list(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:10])
    return shown if len(names) <= 10 else f"{shown} and {len(names) - 10} more"


def _numbers(column: Any, name: str, gaps: bool = False) -> Array:
    """One column as float64, with NaN for gaps if they are allowed; booleans are 0 and 1."""
    if column.dtype == object:
        column = column.convert_dtypes()
    if optional_import("pandas").api.types.is_numeric_dtype(column):
        values = column.to_numpy(dtype="float64", na_value=np.nan)
    else:
        values = _parsed_numbers(column).to_numpy(dtype="float64")
    fine = np.isfinite(values)
    if gaps and not fine.all():
        fine |= np.isnan(values) & _known(column).isna().to_numpy()
    wrong = np.flatnonzero(~fine)
    if len(wrong):
        raise TableError(_complaint(column, name, values, wrong))
    # A copy, because what pandas gives may be read-only, which torch does not take.
    return np.array(values, dtype=np.float64)


def _complaint(column: Any, name: str, values: Array, wrong: NDArray[np.int64]) -> str:
    row = int(wrong[0])
    text = str(column.iloc[row])
    if column.isna().iloc[row] or not text.strip():
        problem = "the cell is empty"
    elif np.isinf(values[row]):
        problem = f"{text!r} is not finite"
    else:
        problem = f"{text[:SHOWN]!r} is not a number"
    others = f" (the first of {len(wrong)} such rows)" if len(wrong) > 1 else ""
    return f"column {name!r}, row {row + 1}: {problem}{others}; mend or remove the row or column"


# Text
