"""Columns of a data frame as what estimators take: X, y, and errors that name the cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from softbins._core.extras import optional_import
from softbins._core.text import did_you_mean
from softbins.cli.table_files import TableError

if TYPE_CHECKING:
    import pandas

Array = NDArray[np.float64]

TRUTH_WORDS = {"true": True, "false": False}
# Days with a year of four digits, in any order: 1.2.3 may be the number of a version or a section.
DAY_PATTERN = r"\s*(\d{4}([./-])\d{1,2}\2\d{1,2}|\d{1,2}([./-])\d{1,2}\3\d{4})(\D.*)?"
# Text of which a larger share is dates is refused, and not taken for names of categories.
MAX_DATES_AMONG_CATEGORIES = 0.9
# Text of which at least this share is numbers is numbers, and any word among them is a mistake.
MIN_NUMBERS_AMONG_NUMBERS = 0.5
# How much of a cell and of the list of columns an error shows.
MAX_CHARACTERS_SHOWN = 40
MAX_MISSING_COLUMNS_SHOWN = 40
MAX_COLUMNS_SHOWN = 10


def features_and_target(frame: pandas.DataFrame, target: str) -> tuple[pandas.DataFrame, Array]:
    """X (n, d) from all columns but one, and y (n,) from that one."""
    y = target_column(frame, target)
    names = [name for name in frame.columns if name != target]
    if not names:
        raise TableError(f"no columns besides the target {target!r}; need at least one feature")
    return features(frame, names), y


def target_column(frame: pandas.DataFrame, target: str) -> Array:
    """The numbers of the target column, in which no cell may be empty."""
    _check_present(frame, [target])
    return _numbers(frame[target], target)


def features_for_model(
    frame: pandas.DataFrame, names: Sequence[str] | None, kinds: Sequence[str]
) -> Any:
    """The columns that a model takes, by name, or by position if it was trained without names."""
    if names is not None:
        return features(frame, names, kinds)
    if len(frame.columns) != len(kinds):
        need = f"the model needs {len(kinds)} columns, without names"
        raise TableError(f"{need}; the table has {len(frame.columns)}")
    # Without names, because scikit-learn warns of names that training did not have.
    return features(frame, list(frame.columns), kinds).to_numpy()


def features(
    frame: pandas.DataFrame, names: Sequence[str], kinds: Sequence[str] | None = None
) -> pandas.DataFrame:
    """The columns of these names, in this order.

    Without `kinds`, the dtype of a column says whether it is numbers, booleans or categories, and
    for text all its cells together do. `kinds` are what a fitted model takes the columns for:
    "number", "boolean", "category" or "empty".
    """
    _check_present(frame, names)
    columns = zip(names, kinds or [""] * len(names), strict=True)
    return optional_import("pandas").DataFrame(
        {name: _feature(frame[name], name, kind) for name, kind in columns}
    )


def _feature(column: Any, name: str, kind: str) -> Any:
    """A column as a model takes it, with missing values where cells are empty."""
    infer = optional_import("pandas").api.types.infer_dtype
    if column.dtype == object:
        # Booleans with an empty cell among them are objects for pandas.
        column = column.convert_dtypes()
    content = infer(column, skipna=True)
    if content.startswith(("date", "time", "period")):
        raise _dates_error(name)
    if content == "string":
        column = column.mask(column.str.strip() == "")
        if kind in ("", "boolean"):
            column = _booleans(column, known_kind=kind == "boolean")
    not_numbers = content in ("categorical", "boolean") or column.dtype == "boolean"
    if kind in ("category", "empty") or (kind == "" and not_numbers):
        return column
    if kind == "" and content == "string" and not _mostly_numbers(column):
        return _categories(column, name)
    return _numbers(column, name, allow_missing=True)


def _booleans(column: Any, known_kind: bool) -> Any:
    """Text as booleans if every cell is true, false or empty, and as it is otherwise.

    Where booleans are known to be what a model takes, "true" and "false" become "1" and "0", so
    that any other word among them is an error.
    """
    words = column.str.strip().str.lower()
    if known_kind:
        return column.mask(words == "true", "1").mask(words == "false", "0")
    if column.isna().all() or not (words.isin(list(TRUTH_WORDS)) | column.isna()).all():
        return column
    return words.map(TRUTH_WORDS).astype("boolean")


def _mostly_numbers(column: Any) -> bool:
    """Whether enough of the cells that are not missing are numbers; true if all are missing."""
    known = _without_missing_words(column).dropna()
    return not len(known) or bool(
        _parsed_numbers(known).notna().mean() >= MIN_NUMBERS_AMONG_NUMBERS
    )


def _without_missing_words(column: Any) -> Any:
    """The column with missing values in place of words such as NA."""
    from softbins.tabular.frames import MISSING_WORDS

    return column.mask(column.astype(str).str.strip().str.lower().isin(MISSING_WORDS))


def _parsed_numbers(column: Any) -> Any:
    # Converted to text first, because pandas takes dates for numbers of nanoseconds.
    return optional_import("pandas").to_numeric(column.astype(str), errors="coerce")


def _categories(column: Any, name: str) -> Any:
    """The column as it is, unless its text is dates, which are refused."""
    words = column.dropna()
    dates = optional_import("pandas").to_datetime(
        words, errors="coerce", format="ISO8601", utc=True
    )
    is_date = dates.notna() | words.astype(str).str.fullmatch(DAY_PATTERN)
    if is_date.mean() > MAX_DATES_AMONG_CATEGORIES:
        raise _dates_error(name)
    return column


def _dates_error(name: str) -> TableError:
    from softbins.tabular.frames import DATES_NOT_TAKEN

    return TableError(f"column {name!r}: {DATES_NOT_TAKEN}")


def _check_present(frame: Any, names: Sequence[str]) -> None:
    present = [str(name) for name in frame.columns]
    missing = [name for name in names if name not in present]
    if not missing:
        return
    listed = ", ".join(
        f"{name!r}{did_you_mean(name, present)}" for name in missing[:MAX_MISSING_COLUMNS_SHOWN]
    )
    noun = "column" if len(missing) == 1 else "columns"
    raise TableError(f"no {noun} {listed}; the table has {_short_list(present)}")


def _short_list(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:MAX_COLUMNS_SHOWN])
    rest = len(names) - MAX_COLUMNS_SHOWN
    return shown if rest <= 0 else f"{shown} and {rest} more"


def _numbers(column: Any, name: str, allow_missing: bool = False) -> Array:
    """One column as float64; booleans are 0 and 1, and missing values NaN if they are allowed."""
    if column.dtype == object:
        column = column.convert_dtypes()
    if optional_import("pandas").api.types.is_numeric_dtype(column):
        values = column.to_numpy(dtype="float64", na_value=np.nan)
    else:
        values = _parsed_numbers(column).to_numpy(dtype="float64")
    valid = np.isfinite(values)
    if allow_missing and not valid.all():
        valid |= np.isnan(values) & _without_missing_words(column).isna().to_numpy()
    wrong = np.flatnonzero(~valid)
    if len(wrong):
        raise TableError(_invalid_cell(column, name, values, wrong))
    # Copied, because torch refuses read-only arrays, which pandas may give.
    return np.array(values, dtype=np.float64)


def _invalid_cell(column: Any, name: str, values: Array, wrong: NDArray[np.int64]) -> str:
    """What is wrong with the first of the wrong rows, and how many there are."""
    row = int(wrong[0])
    text = str(column.iloc[row])
    if column.isna().iloc[row] or not text.strip():
        problem = "the cell is empty"
    elif np.isinf(values[row]):
        problem = f"{text!r} is not finite"
    else:
        problem = f"{text[:MAX_CHARACTERS_SHOWN]!r} is not a number"
    others = f" (the first of {len(wrong)} such rows)" if len(wrong) > 1 else ""
    return f"column {name!r}, row {row + 1}: {problem}{others}; mend or remove the row or column"
