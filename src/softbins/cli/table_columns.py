"""Columns of a table as what estimators take: X, y, and errors that name the cell."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softbins._core.extras import optional_import
from softbins._core.text import did_you_mean
from softbins.cli.decimal_marks import DecimalMarks
from softbins.cli.number_text import number_cells
from softbins.cli.reading import Table
from softbins.cli.table_errors import ColumnError, TableError
from softbins.tabular.date_text import DateTextError
from softbins.tabular.text_kind import REASONS, text_kind

Array = NDArray[np.float64]

TRUTH_WORDS = {"true": True, "false": False}
# What pandas calls the content of columns that are more than numbers.
KINDS_OF_CONTENT = {
    "categorical": "category",
    "boolean": "boolean",
    "datetime64": "date",
    "datetime": "date",
    "date": "date",
    "time": "time",
    "timedelta64": "duration",
    "timedelta": "duration",
}
# Kinds whose cells an estimator reads itself, be they text or not.
KINDS_AS_THEY_ARE = ("category", "empty", "date", "time", "ignored")
# Text of which at least this share is numbers is numbers, and any word among them is a mistake.
MIN_NUMBERS_AMONG_NUMBERS = 0.5
# How much of a cell and of the list of columns an error shows.
MAX_CHARACTERS_SHOWN = 40
MAX_MISSING_COLUMNS_SHOWN = 40
MAX_COLUMNS_SHOWN = 10


@dataclass(frozen=True)
class TakenColumn:
    """A column as an estimator takes it, with missing values where cells are empty.

    `kind` is one of `tabular.frames.ColumnKind`. `spelling` says what was unusual about text that
    is numbers, `share_of_numbers` how much of it is, and `remark` how dates are written, or why
    nothing is learnt from a column.
    """

    name: str
    kind: str
    values: Any
    spelling: tuple[str, ...] = ()
    share_of_numbers: float = 0.0
    remark: str = ""


class TableColumns:
    """The columns of a table, read one by one with what all of them say about decimal marks."""

    def __init__(self, table: Table, decimal: str | None = None) -> None:
        self.frame = table.frame
        self._styles = {
            name: number_cells(self.frame[name]).style()
            for name in self.frame.columns
            if _has_text(self.frame[name])
        }
        marks = DecimalMarks(decimal, table.decimals, table.point_by_default)
        self._marks = marks.with_styles(self._styles.values())

    def take(self, name: str, kind: str = "") -> TakenColumn:
        """The column of that name, or `ColumnError`.

        Without `kind`, the dtype of a column says whether it is numbers, booleans or categories,
        and for text all its cells together do. `kind` is what a fitted model takes it for.
        """
        check_present(self.frame, [name])
        column = self.frame[name]
        if name in self._styles:
            return self._take_text(column, name, kind)
        if column.isna().all():
            return TakenColumn(name, "empty", column.astype("float64"))
        content = optional_import("pandas").api.types.infer_dtype(column, skipna=True)
        own_kind = KINDS_OF_CONTENT.get(content, "number")
        if column.dtype == object and own_kind in ("boolean", "number"):
            # Booleans with an empty cell among them are objects for pandas.
            column = column.convert_dtypes()
        if kind in KINDS_AS_THEY_ARE or (own_kind != "number" and kind in ("", own_kind)):
            return TakenColumn(name, kind or own_kind, column)
        if own_kind in ("date", "time", "duration"):
            problem = f"holds {own_kind}s, and not {kind}s"
            raise ColumnError(name, f"column {name!r}: {problem}; give it as in training", problem)
        return TakenColumn(name, "number", _native_numbers(column, name))

    def has_no_number(self, name: str) -> bool:
        """Whether a column is text without any number in it."""
        return name in self._styles and self._styles[name].share == 0

    def take_all(
        self, names: Sequence[str], kinds: Sequence[str] | None = None, release: bool = False
    ) -> tuple[list[TakenColumn], list[ColumnError]]:
        """The columns of these names that can be taken, and what is wrong with the others.

        With `release`, columns leave the frame as they are taken, which saves memory.
        """
        check_present(self.frame, names)
        taken, problems = [], []
        for name, kind in zip(names, kinds or [""] * len(names), strict=True):
            try:
                taken.append(self.take(name, kind))
            except ColumnError as problem:
                problems.append(problem)
            if release:
                del self.frame[name]
        return taken, problems

    def _take_text(self, column: Any, name: str, kind: str) -> TakenColumn:
        share = self._styles[name].share
        if kind in ("number", "duration") or (kind == "" and share >= MIN_NUMBERS_AMONG_NUMBERS):
            return self._take_numbers(column, name)
        column = column.mask(column.astype("str").str.strip() == "")
        if kind in KINDS_AS_THEY_ARE:
            return TakenColumn(name, kind, column)
        truth = _truth_words(column)
        if kind == "boolean":
            column = column.mask(truth.notna(), truth.astype("float64").astype("str"))
            return self._take_numbers(column, name)
        if truth.notna().any() and (truth.notna() | column.isna()).all():
            return TakenColumn(name, "boolean", truth)
        return _words(column, name, share)

    def _take_numbers(self, column: Any, name: str) -> TakenColumn:
        cells = number_cells(column)
        values = _numbers_beside_text(column)
        is_number = ~np.isnan(values) | cells.fits[cells.best_decimal]
        wrong = ~is_number & (cells.is_word | _other_objects(column))
        if wrong.any():
            raise _invalid_cell(column, name, np.flatnonzero(wrong))
        decimal = self._marks.decimal_of(cells.style(), name)
        values = np.where(cells.is_word, cells.numbers(decimal), values)
        kind = "empty" if np.isnan(values).all() else "number"
        return TakenColumn(name, kind, values, tuple(cells.spelling(decimal)))


def features_frame(columns: Sequence[TakenColumn]) -> Any:
    """X as a data frame."""
    values = {column.name: column.values for column in columns}
    return optional_import("pandas").DataFrame(values, copy=False)


def _has_text(column: Any) -> bool:
    if column.dtype == object:
        return any(isinstance(value, str) for value in column)
    pandas = optional_import("pandas")
    is_category = isinstance(column.dtype, pandas.CategoricalDtype)
    return not is_category and bool(pandas.api.types.is_string_dtype(column))


def _truth_words(column: Any) -> Any:
    """Booleans where a cell is true or false in any case, missing elsewhere."""
    return column.astype("str").str.strip().str.lower().map(TRUTH_WORDS).astype("boolean")


def _words(column: Any, name: str, share_of_numbers: float) -> TakenColumn:
    """A column of text as it is, with what it is: categories, dates, or names that are left out."""
    words = [cell if isinstance(cell, str) else None for cell in column]
    try:
        found = text_kind(words)
    except DateTextError as error:
        row = words.index(error.word)
        brief = f"row {row + 1}: {error.word[:MAX_CHARACTERS_SHOWN]!r} {error.problem}"
        raise ColumnError(name, f"column {name!r}, {brief}", brief) from error
    if any(cell is None and known for cell, known in zip(words, column.notna(), strict=True)):
        return TakenColumn(name, "category", column, (), share_of_numbers)  # numbers beside text
    remark = found.written if found.kind in ("date", "time") else ""
    if found.left_out is not None:
        remark = f"left out: {REASONS[found.left_out]}"
    return TakenColumn(name, found.kind, column, (), share_of_numbers, remark)


def _numbers_beside_text(column: Any) -> Array:
    """The cells that are numbers and no text, NaN for all others."""
    if column.dtype != object:
        return np.full(len(column), np.nan)
    kinds = (int, float, Decimal, np.number)
    return np.array([float(cell) if isinstance(cell, kinds) else np.nan for cell in column])


def _other_objects(column: Any) -> NDArray[np.bool_]:
    """Which cells are neither text nor missing; of these only numbers can be taken."""
    if column.dtype != object:
        return np.zeros(len(column), dtype=bool)
    is_text = np.array([isinstance(cell, str) for cell in column], dtype=bool)
    is_known: NDArray[np.bool_] = column.notna().to_numpy()
    return ~is_text & is_known


def _native_numbers(column: Any, name: str) -> Array:
    """A column without text as float64; booleans are 0 and 1."""
    try:
        values: Array = column.to_numpy(dtype="float64", na_value=np.nan)
    except (TypeError, ValueError):
        values = _numbers_beside_text(column.astype(object))
        raise _invalid_cell(column, name, np.flatnonzero(np.isnan(values))) from None
    wrong = np.flatnonzero(np.isinf(values))
    if len(wrong):
        raise _invalid_cell(column, name, wrong)
    return values


def _invalid_cell(column: Any, name: str, wrong: NDArray[np.int64]) -> ColumnError:
    """What is wrong with the first of the wrong rows, and how many there are."""
    row = int(wrong[0])
    text = str(column.iloc[row]).strip()
    is_infinite = text.lower().lstrip("+-") in ("inf", "infinity")
    problem = "is not finite" if is_infinite else "is not a number"
    brief = f"row {row + 1}: {text[:MAX_CHARACTERS_SHOWN]!r} {problem}"
    others = f" (the first of {len(wrong)} such rows)" if len(wrong) > 1 else ""
    return ColumnError(name, f"column {name!r}, {brief}{others}; mend or remove the row", brief)


def columns_refused(problems: Sequence[ColumnError], may_drop: bool) -> TableError:
    """One error for all columns that cannot be taken, with the option that leaves them out."""
    names = [problem.name for problem in problems]
    way_out = f", or leave {{}} out: --drop {shlex.quote(joined_names(names))}" if may_drop else ""
    if len(problems) == 1:
        return TableError(f"{problems[0]}{way_out.format('the column')}")
    listed = ", ".join(f"{problem.name!r} ({problem.brief})" for problem in problems)
    way_out = way_out.format("them")
    return TableError(f"{len(problems)} columns cannot be taken: {listed}; mend them{way_out}")


def joined_names(names: Sequence[str]) -> str:
    """Names with commas between them, and in quotes where they have commas themselves."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()


def check_present(frame: Any, names: Sequence[str]) -> None:
    """Raise for names that no column has, with the closest that exist."""
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
