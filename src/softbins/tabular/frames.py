"""Reading the columns of a NumPy array, or of a data frame of any kind that narwhals knows.

A column is read as its kind, which its dtype says, and its values; `to_numbers` turns values of
any dtype into floats. No library of frames is imported here: whoever passes one has loaded it.
"""

from __future__ import annotations

import datetime
import math
import numbers
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from softbins.tabular.time_zones import name_of_zone, seconds_of, zone_name

Array = NDArray[np.float64]
TemporalKind = Literal["date", "time", "duration"]
ColumnKind = Literal["number", "boolean", "category", "empty", TemporalKind, "ignored"]
# Of text, its words tell what it is.
ReadKind = Literal[ColumnKind, "text"]

KINDS_OF_TYPES: dict[ReadKind, tuple[type, ...]] = {
    "boolean": (bool, np.bool_),
    "duration": (datetime.timedelta, np.timedelta64),  # which NumPy takes for a number
    "number": (numbers.Real, Decimal),
    "text": (str,),
    "date": (datetime.date, np.datetime64),
    "time": (datetime.time,),
}
MIXED_ZONES = "some dates have a zone and some have none; give all of them one, or none"

MAX_ABSOLUTE_VALUE = 1e38  # networks are trained in float32, which ends a little above
MAX_SHOWN_CHARACTERS = 80
MAX_COPIED_NUMBERS = 2**22  # of a data frame that is copied at once, 32 MB in float64
# What people write into a table where no value is known, in lower case.
MISSING_WORDS = ("", "na", "n/a", "nan", "null", "none")
HOW_TO_PASS_CATEGORIES = "for categories pass a DataFrame with text, or give categorical_features"


class ColumnValues(NamedTuple):
    """One column of a table: the kind that its dtype says, and its values (n,).

    Values are floats with NaN where one is missing, or objects with None. Dates are seconds since
    1970, in UTC if there is a `zone`; times of day and durations are seconds.
    """

    kind: ReadKind
    values: NDArray[Any]
    zone: str | None = None


# Tables


def as_frame(X: Any) -> Any:
    """A data frame of any library as one of narwhals, None for anything else."""
    if not hasattr(type(X), "columns"):
        return None
    import narwhals as nw  # which arrays do without

    if hasattr(X, "set_axis") and not X.columns.is_unique:
        X = X.set_axis(range(X.shape[1]), axis=1)  # columns are told apart by their places
    frame = nw.from_native(X, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        raise ValueError("X: is a lazy frame, of which nothing is known yet; collect it first")
    return frame if isinstance(frame, nw.DataFrame) else None


def column_names(X: Any) -> list[str] | None:
    """The names of a DataFrame's columns if all of them are text, None for anything else."""
    frame = as_frame(X)
    names = [] if frame is None else list(frame.columns)
    return names if names and all(isinstance(name, str) for name in names) else None


def column_title(names: Sequence[str] | None, index: int) -> str:
    """A column as error messages call it: by its name, or else by its number."""
    return f"column {index}" if names is None else f"column {names[index]!r}"


def numeric_frame_to_array(X: Any) -> Any:
    """A small DataFrame that holds only numbers as a float64 array, which is quicker to read.

    Anything else is returned as it is, large frames because all of it would be copied.
    """
    frame = as_frame(X)
    if frame is not None and math.prod(frame.shape) > MAX_COPIED_NUMBERS:
        return X
    if frame is None or not all(t.is_integer() or t.is_float() for t in frame.schema.values()):
        return X
    import narwhals as nw

    return frame.select(nw.all().cast(nw.Float64)).to_numpy()


def read_columns(X: Any) -> Iterator[ColumnValues]:
    """The columns of a DataFrame, or of an array (n, d), which count as numbers, one by one."""
    frame = as_frame(X)
    if frame is None:
        yield from (ColumnValues("number", column) for column in np.asarray(X).T)
        return
    for index, name in enumerate(frame.columns):
        yield _read(frame[:, index], column_title([str(name)], 0))


def take_rows(X: Any, index: NDArray[np.int64]) -> Any:
    """Some rows of an array or a data frame."""
    frame = as_frame(X)
    return X[index] if frame is None else frame[index].to_native()


def rows_between(X: Any, rows: slice) -> Any:
    """Rows of an array or a data frame that follow each other, without a copy."""
    frame = as_frame(X)
    return X[rows] if frame is None else frame[rows].to_native()


def _read(column: Any, title: str) -> ColumnValues:
    """A column of narwhals."""
    import narwhals as nw

    dtype = column.dtype
    if isinstance(dtype, (nw.Datetime, nw.Date)):
        zone = zone_name(getattr(dtype, "time_zone", None))
        return ColumnValues("date", 1e-6 * _floats(column.dt.timestamp("us")), zone)
    if isinstance(dtype, nw.Duration):
        return ColumnValues("duration", 1e-6 * _floats(column.dt.total_microseconds()))
    if dtype.is_numeric() or dtype == nw.Boolean:
        return ColumnValues("boolean" if dtype == nw.Boolean else "number", _floats(column))
    objects = objects_with_none(column.to_list())
    if isinstance(dtype, (nw.Categorical, nw.Enum)):
        return ColumnValues("category", objects)
    return read_objects(objects, title)


def _floats(column: Any) -> Array:
    import narwhals as nw

    values: Array = column.cast(nw.Float64).to_numpy()
    return values


def read_objects(values: NDArray[Any], title: str) -> ColumnValues:
    """A column of Python objects, whose kind follows from their types."""
    types = {type(value) for value in values if not is_missing(value)}
    kinds = {_kind_of(each, title) for each in types}
    if not kinds & set(get_args(TemporalKind)):
        return ColumnValues(kinds.pop() if len(kinds) == 1 else "category", values)
    if len(kinds) > 1:
        raise ValueError(f"X: {title}: holds {' and '.join(sorted(kinds))} values; need one kind")
    zones = {name_of_zone(value) for value in values if not is_missing(value)}
    if None in zones and len(zones) > 1:
        raise ValueError(f"X: {title}: {MIXED_ZONES}")
    seconds = np.array([np.nan if is_missing(value) else seconds_of(value) for value in values])
    return ColumnValues(kinds.pop(), seconds, zones.pop() if len(zones) == 1 else "UTC")


def _kind_of(kind: type, title: str) -> ReadKind:
    """What a value of a type is."""
    for name, types in KINDS_OF_TYPES.items():
        if issubclass(kind, types):
            return name
    need = "need numbers, booleans, text, dates, times or durations"
    raise ValueError(f"X: {title}: holds {kind.__name__}; {need}")


def objects_with_none(values: list[Any]) -> NDArray[Any]:
    """Values as an array of objects, with None for those that are missing."""
    return np.fromiter((None if is_missing(v) else v for v in values), object, len(values))


# Kinds


def categorical_columns(
    categorical_features: Any, names: Sequence[str] | None, count: int
) -> set[int] | None:
    """The indices of the columns that `categorical_features` names.

    None for 'from_dtype', which leaves the choice to the dtypes; None makes no column categorical.
    """
    if categorical_features is None:
        return set()
    if not isinstance(categorical_features, str):
        return _column_indices(categorical_features, names or [], count)
    if categorical_features != "from_dtype":
        need = "'from_dtype', None, or a list of columns"
        raise ValueError(f"categorical_features: need {need}, got {categorical_features!r}")
    return None


def column_kind(kind: ReadKind, index: int, chosen: set[int] | None, title: str) -> ReadKind:
    """The kind of a column whose dtype says `kind`, where the `chosen` ones are categorical."""
    is_temporal = kind in get_args(TemporalKind)
    if chosen is None or (index not in chosen and (is_temporal or kind == "boolean")):
        return kind
    if index not in chosen:
        return "number"
    if is_temporal:
        found = f"{title} holds {kind}s"
        raise ValueError(f"categorical_features: {found}; leave it out or make it text")
    return "category"


def _column_indices(categorical_features: Any, names: Sequence[str], count: int) -> set[int]:
    """The indices of columns that are given by index, by name, or by a mask of all columns."""
    given = np.asarray(categorical_features)
    if given.dtype == bool and given.shape == (count,):
        given = np.flatnonzero(given)
    items = np.atleast_1d(given).tolist()
    unknown = [i for i in items if type(i) is bool or (i not in range(count) and i not in names)]
    if unknown:
        present = f"named {', '.join(map(repr, names[:10]))}" if len(names) else "without names"
        raise ValueError(
            f"categorical_features: no column {unknown[0]!r}; give indices, names, or a mask of "
            f"all {count} columns, which are {present}"
        )
    return {list(names).index(item) if isinstance(item, str) else int(item) for item in items}


# Values


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or pandas's NA or NaT."""
    if type(value) is str:  # millions of them, in large tables
        return False
    # By name, because pandas may not be installed.
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(value))
    return isinstance(value, (float, np.floating)) and math.isnan(value)


def to_numbers(values: NDArray[Any], kind: ColumnKind, title: str) -> Array:
    """The values of a column of numbers or booleans as float64, with NaN for missing ones.

    Text is parsed. `title` is what error messages call the column.
    """
    if values.dtype == object:
        floats = _parse_objects(values, kind, title)
    else:
        floats = values.astype(np.float64)
    wrong = np.abs(floats) > MAX_ABSOLUTE_VALUE
    if kind == "boolean":
        wrong |= ~np.isin(floats, (0.0, 1.0)) & ~np.isnan(floats)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        size = "infinity" if np.isinf(floats[row]) else f"larger than {MAX_ABSOLUTE_VALUE:g}"
        problem = "neither true nor false" if kind == "boolean" else size
        raise cell_error(title, row, values[row], f"is {problem}; mend it or leave the row out")
    return floats


def _parse_objects(values: NDArray[Any], kind: ColumnKind, title: str) -> Array:
    floats = np.empty(len(values))
    for row, value in enumerate(values):
        try:
            floats[row] = _parse_number(value, kind)
        except (TypeError, ValueError, OverflowError):
            problem = f"is not a number; mend it, or {HOW_TO_PASS_CATEGORIES}"
            raise cell_error(title, row, value, problem) from None
    return floats


def _parse_number(value: Any, kind: ColumnKind) -> float:
    if is_missing(value):
        return math.nan
    if not isinstance(value, str):
        return float(value)
    word = value.strip().lower()
    if kind == "boolean" and word in ("true", "false"):
        return float(word == "true")
    if "_" in word:  # Python reads 1_000 as a number, tables do not mean one by it
        raise ValueError
    return math.nan if word in MISSING_WORDS else float(word)


def cell_error(title: str, row: int, value: Any, problem: str) -> ValueError:
    """The complaint about a cell of a column, with its row and its value."""
    shown = repr(value.item() if isinstance(value, np.generic) else value)[:MAX_SHOWN_CHARACTERS]
    return ValueError(f"X: {title}, row {row} (from 0): {shown} {problem}")
