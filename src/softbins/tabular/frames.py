"""Reading the columns of a NumPy array, a pandas DataFrame or a polars DataFrame.

A column is read as its kind, which its dtype says, and its values; `to_numbers` turns values of
any dtype into floats. Neither pandas nor polars is imported here: whoever passes a DataFrame has
loaded its library already.
"""

from __future__ import annotations

import math
import numbers
import sys
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softbins._core.checks import DATE_TYPES, DATES_NOT_TAKEN

Array = NDArray[np.float64]
ColumnKind = Literal["number", "boolean", "category", "empty"]

MAX_ABSOLUTE_VALUE = 1e38  # networks are trained in float32, which ends a little above
MAX_SHOWN_CHARACTERS = 80
# What people write into a table where no value is known, in lower case.
MISSING_WORDS = ("", "na", "n/a", "nan", "null", "none")
HOW_TO_PASS_CATEGORIES = "for categories pass a DataFrame with text, or give categorical_features"


class ColumnValues(NamedTuple):
    """One column of a table: the kind that its dtype says, and its values (n,).

    Values are floats with NaN where one is missing, or objects with None.
    """

    kind: ColumnKind
    values: NDArray[Any]


# Tables


def frame_library(X: Any) -> str | None:
    """'pandas' or 'polars' for a DataFrame of that library, None for anything else."""
    for name in ("pandas", "polars"):
        library = sys.modules.get(name)  # None also where its import is blocked
        if library is not None and isinstance(X, library.DataFrame):
            return name
    return None


def column_names(X: Any) -> list[str] | None:
    """The names of a DataFrame's columns if all of them are text, None for anything else."""
    names = list(X.columns) if frame_library(X) else []
    return names if names and all(isinstance(name, str) for name in names) else None


def column_title(names: Sequence[str] | None, index: int) -> str:
    """A column as error messages call it: by its name, or else by its number."""
    return f"column {index}" if names is None else f"column {names[index]!r}"


def numeric_frame_to_array(X: Any) -> Any:
    """A DataFrame that holds only numbers as a float64 array, which is much quicker to read.

    Anything else is returned as it is.
    """
    library = frame_library(X)
    if library == "pandas" and all(isinstance(t, np.dtype) and t.kind in "iuf" for t in X.dtypes):
        return X.to_numpy(np.float64)
    if library == "polars" and all(t.is_integer() or t.is_float() for t in X.dtypes):
        return X.cast(sys.modules["polars"].Float64).to_numpy()
    return X


def read_columns(X: Any) -> list[ColumnValues]:
    """The columns of a DataFrame, or of an array (n, d), which count as numbers."""
    library = frame_library(X)
    if library is None:
        return [ColumnValues("number", column) for column in np.asarray(X).T]
    titles = [column_title([str(name)], 0) for name in X.columns]
    if library == "pandas":
        return [_read_pandas(X.iloc[:, i], title) for i, title in enumerate(titles)]
    return [_read_polars(X.to_series(i), title) for i, title in enumerate(titles)]


def stacked_tables(first: Any, second: Any) -> Any:
    """The rows of one table above those of another with the same columns."""
    library = frame_library(first)
    if library != frame_library(second):
        raise ValueError("background: need the same kind of table as X")
    if library == "pandas":
        return sys.modules["pandas"].concat([first, second], ignore_index=True)
    if library == "polars":
        return sys.modules["polars"].concat([first, second], how="vertical_relaxed")
    return np.concatenate([first, second])


def mixed_rows(X: Any, rows: NDArray[np.int64]) -> Any:
    """A table whose columns each have rows of their own, out of those of X: (n, d) numbers."""
    library = frame_library(X)
    if library is None:
        return X[rows, np.arange(rows.shape[1])]
    if library == "polars":
        columns = [X.to_series(i).gather(rows[:, i]) for i in range(rows.shape[1])]
        return sys.modules["polars"].DataFrame(columns)
    arrays = {i: X.iloc[:, i].array.take(rows[:, i]) for i in range(rows.shape[1])}
    return sys.modules["pandas"].DataFrame(arrays).set_axis(X.columns, axis=1)


def _read_pandas(column: Any, title: str) -> ColumnValues:
    pandas, dtype = sys.modules["pandas"], column.dtype
    if isinstance(dtype, pandas.CategoricalDtype):
        return ColumnValues("category", _objects_with_none(column.tolist()))
    is_boolean = pandas.api.types.is_bool_dtype(dtype)
    if dtype.kind in "mM":
        raise ValueError(f"X: {title}: {DATES_NOT_TAKEN}")
    if is_boolean or (pandas.api.types.is_numeric_dtype(dtype) and dtype.kind != "c"):
        values = column.to_numpy(dtype="float64", na_value=np.nan)
        return ColumnValues("boolean" if is_boolean else "number", values)
    return _read_objects(column.tolist(), title)


def _read_polars(column: Any, title: str) -> ColumnValues:
    polars, dtype = sys.modules["polars"], column.dtype
    if dtype.is_temporal():
        raise ValueError(f"X: {title}: {DATES_NOT_TAKEN}")
    if dtype.is_numeric() or dtype in (polars.Boolean, polars.Null):
        kind: ColumnKind = "boolean" if dtype == polars.Boolean else "number"
        return ColumnValues(kind, column.cast(polars.Float64).to_numpy())
    return _read_objects(column.to_list(), title)


def _read_objects(values: list[Any], title: str) -> ColumnValues:
    """A column of Python objects, whose kind follows from their types: text is a category."""
    objects = _objects_with_none(values)
    types = {type(value) for value in objects} - {type(None)}
    booleans = {t for t in types if issubclass(t, (bool, np.bool_))}
    numeric = {t for t in types - booleans if issubclass(t, (numbers.Real, Decimal))}
    others = {t for t in types - booleans - numeric if not issubclass(t, str)}
    if any(issubclass(t, DATE_TYPES) for t in others):
        raise ValueError(f"X: {title}: {DATES_NOT_TAKEN}")
    if others:
        found = sorted(t.__name__ for t in others)[0]
        raise ValueError(f"X: {title}: holds {found}; need numbers, booleans or text")
    if types and types == booleans:
        return ColumnValues("boolean", objects)
    return ColumnValues("number" if types and types == numeric else "category", objects)


def _objects_with_none(values: list[Any]) -> NDArray[Any]:
    return np.fromiter((None if is_missing(v) else v for v in values), object, len(values))


# Kinds


def column_kinds(
    columns: Sequence[ColumnValues], categorical_features: Any, names: Sequence[str] | None
) -> list[ColumnKind]:
    """The kind of every column, with those categorical that `categorical_features` names.

    'from_dtype' leaves the choice to the dtypes; None makes no column categorical.
    """
    if isinstance(categorical_features, str):
        if categorical_features != "from_dtype":
            need = "'from_dtype', None, or a list of columns"
            raise ValueError(f"categorical_features: need {need}, got {categorical_features!r}")
        return [column.kind for column in columns]
    chosen: set[int] = set()
    if categorical_features is not None:
        chosen = _column_indices(categorical_features, names or [], len(columns))
    others: list[ColumnKind] = [
        "boolean" if column.kind == "boolean" else "number" for column in columns
    ]
    return ["category" if index in chosen else kind for index, kind in enumerate(others)]


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
    # By name, because pandas may not be installed.
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
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
        raise _value_error(title, row, values[row], f"is {problem}; mend it or leave the row out")
    return floats


def _parse_objects(values: NDArray[Any], kind: ColumnKind, title: str) -> Array:
    floats = np.empty(len(values))
    for row, value in enumerate(values):
        try:
            floats[row] = _parse_number(value, kind)
        except (TypeError, ValueError, OverflowError):
            problem = f"is not a number; mend it, or {HOW_TO_PASS_CATEGORIES}"
            raise _value_error(title, row, value, problem) from None
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


def _value_error(title: str, row: int, value: Any, problem: str) -> ValueError:
    shown = repr(value.item() if isinstance(value, np.generic) else value)[:MAX_SHOWN_CHARACTERS]
    return ValueError(f"X: {title}, row {row} (from 0): {shown} {problem}")
