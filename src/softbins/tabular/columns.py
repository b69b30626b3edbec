"""The columns of X as they come, and what a network sees of them.

Numbers keep their value; a gap becomes the median of the training rows, beside a column that says
where gaps were if training had any. Booleans are 0 or 1. Each of a few categories gets a column of
its own; of many, the most frequent ones do, and the others share one beside the frequency. Nothing
here looks at a target. As for HistGradientBoostingRegressor, the dtypes of a DataFrame say what is
categorical, and a category that training has not seen counts as missing.
"""

from __future__ import annotations

import datetime
import hashlib
import math
import numbers
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Kind = Literal["number", "boolean", "category", "empty"]
Role = Literal["value", "missing", "category", "rare", "frequency"]
Label = str | float

OWN = 20  # categories that get a column each
KNOWN = 1000  # categories of a column that are remembered, so that a model file stays small
LARGEST = 1e38  # number that training, which is done in float32, can take
LONGEST = 80  # bytes of a label that are kept as they are
GAPS = ("", "na", "n/a", "nan", "null", "none")  # what people write where no number is known
DATES = (
    "dates, times and durations are not taken; turn them into numbers first, such as year, month "
    "and weekday, or seconds since a fixed day"
)
AS_CATEGORIES = "for categories pass a DataFrame with text, or give categorical_features"


class Origin(NamedTuple):
    """Where one input of the network comes from: a column of X, and what is told about it."""

    column: int
    role: Role
    label: Label | None = None


class _Cells(NamedTuple):
    """One column of X: what its dtype says, and float64 with NaN or objects with None."""

    kind: Kind
    values: NDArray[Any]


# Encoding


@dataclass(frozen=True)
class _Numeric:
    """A column of numbers or booleans, or one that was empty in training."""

    kind: Kind
    fill: float
    gaps: bool

    @classmethod
    def fit(cls, kind: Kind, values: Array) -> Self:
        known = values[~np.isnan(values)]
        if not len(known):
            return cls("empty", 0.0, True)
        return cls(kind, float(np.median(known)), len(known) < len(values))

    def origins(self, column: int) -> list[Origin]:
        value, flag = Origin(column, "value"), Origin(column, "missing")
        return [value, flag] if self.gaps else [value]

    def write(self, cells: _Cells, name: str, out: Array) -> None:
        if self.kind == "empty":
            # Whatever comes now, no weight has learnt what it means.
            out[:] = (0.0, 1.0)
            return
        values = _numbers(cells.values, self.kind, name)
        missing = np.isnan(values)
        out[:, 0] = np.where(missing, self.fill, values)
        out[:, 1:] = missing[:, None]


@dataclass(frozen=True)
class _Categorical:
    """A column of categories, most frequent first, either all text or all numbers."""

    kind: Kind
    labels: list[Label]
    counts: list[int]

    def __post_init__(self) -> None:
        if not self.labels or len(self.labels) != len(self.counts):
            raise ValueError(f"columns: {len(self.labels)} labels, {len(self.counts)} counts")

    @classmethod
    def fit(cls, values: list[Any]) -> Self:
        counts = Counter(_labels(values, all(_is_number(v) for v in values if v is not None)))
        del counts[None]
        # Equal counts by label, so that the order of the rows does not matter.
        ordered: list[Any] = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return cls("category", *map(list, zip(*ordered[:KNOWN], strict=True)))

    @property
    def own(self) -> int:
        """The number of categories that have an input each."""
        return len(self.labels) if len(self.labels) <= OWN else OWN - 1

    def origins(self, column: int) -> list[Origin]:
        shown = [Origin(column, "category", label) for label in self.labels[: self.own]]
        shared = [Origin(column, "rare"), Origin(column, "frequency")]
        return shown if self.own == len(self.labels) else shown + shared

    def write(self, cells: _Cells, name: str, out: Array) -> None:
        places: dict[Label | None, int] = {label: i for i, label in enumerate(self.labels)}
        labels = _labels(_objects(cells), isinstance(self.labels[0], float))
        codes = np.fromiter((places.get(label, -1) for label in labels), np.int64, len(labels))
        out[:] = 0.0
        rows = np.flatnonzero((codes >= 0) & (codes < self.own))
        out[rows, codes[rows]] = 1.0
        if self.own < len(self.labels):
            known = np.flatnonzero(codes >= 0)
            out[:, self.own] = codes >= self.own
            out[known, self.own + 1] = np.log1p(np.asarray(self.counts)[codes[known]])


@dataclass(frozen=True)
class Columns:
    """How each column of X becomes inputs of a network, learnt from training rows only."""

    names: list[str] | None
    parts: list[_Numeric | _Categorical]

    @classmethod
    def fit(cls, X: Any, categorical_features: Any = "from_dtype", rows: Any = ...) -> Self:
        """Learn from those rows of a DataFrame (pandas or polars) or an array (n, d)."""
        names, cells = _names(X), _cells(_bare(X))
        kinds = _kinds(cells, categorical_features, names)
        titles = [_title(names, index) for index in range(len(cells))]
        return cls(names, [_part(*each, rows) for each in zip(cells, kinds, titles, strict=True)])

    @property
    def kinds(self) -> list[Kind]:
        """What each column of X is taken for."""
        return [part.kind for part in self.parts]

    @property
    def origins(self) -> list[Origin]:
        """Where each input of the network comes from."""
        return [origin for i, part in enumerate(self.parts) for origin in part.origins(i)]

    def transform(self, X: Any) -> Array:
        """The inputs (n, len(origins)) for the rows of X, always finite."""
        if X.shape[1] != len(self.parts):
            raise ValueError(f"X: has {X.shape[1]} columns instead of {len(self.parts)}")
        origins, X = self.origins, _bare(X)
        same = set(self.kinds) == {"number"} and len(origins) == len(self.parts)
        same = same and isinstance(X, np.ndarray) and X.dtype == np.float64
        if same and (np.abs(X) <= LARGEST).all():
            return np.asarray(X)
        cells = _cells(X)
        out = np.empty((len(X), len(origins)))
        start = 0
        for index, (part, cell) in enumerate(zip(self.parts, cells, strict=True)):
            end = start + len(part.origins(index))
            part.write(cell, _title(self.names, index), out[:, start:end])
            start = end
        return out

    def to_json(self) -> dict[str, Any]:
        """Everything as plain JSON, for a model file."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """What `to_json` gave."""
        names, parts = value["names"], value["parts"]
        if names is not None and len(names) != len(parts):
            raise ValueError(f"columns: {len(names)} names for {len(parts)} columns")
        classes: dict[Kind, Any] = dict.fromkeys(("number", "boolean", "empty"), _Numeric)
        classes["category"] = _Categorical
        return cls(names, [classes[part["kind"]](**part) for part in parts])


def _part(cells: _Cells, kind: Kind, title: str, rows: Any) -> _Numeric | _Categorical:
    if kind != "category":
        return _Numeric.fit(kind, _numbers(cells.values, kind, title)[rows])
    values = _objects(_Cells(cells.kind, cells.values[rows]))
    if any(value is not None for value in values):
        return _Categorical.fit(values)
    return _Numeric("empty", 0.0, True)


def _kinds(cells: Sequence[_Cells], categorical: Any, names: Sequence[str] | None) -> list[Kind]:
    if isinstance(categorical, str):
        if categorical != "from_dtype":
            need = "'from_dtype', None, or a list of columns"
            raise ValueError(f"categorical_features: need {need}, got {categorical!r}")
        return [cell.kind for cell in cells]
    chosen = set() if categorical is None else _chosen(categorical, names or [], len(cells))
    others: list[Kind] = ["boolean" if cell.kind == "boolean" else "number" for cell in cells]
    return ["category" if index in chosen else kind for index, kind in enumerate(others)]


def _chosen(categorical: Any, names: Sequence[str], count: int) -> set[int]:
    """The indices that indices, names, or a mask mean."""
    listed = np.asarray(categorical)
    if listed.dtype == bool and listed.shape == (count,):
        listed = np.flatnonzero(listed)
    items = np.atleast_1d(listed).tolist()
    wrong = [i for i in items if type(i) is bool or (i not in range(count) and i not in names)]
    if wrong:
        known = f"named {', '.join(map(repr, names[:10]))}" if len(names) else "without names"
        raise ValueError(
            f"categorical_features: no column {wrong[0]!r}; give indices, names, or a mask of all "
            f"{count} columns, which are {known}"
        )
    return {list(names).index(item) if isinstance(item, str) else int(item) for item in items}


# Values


def _is_gap(value: Any) -> bool:
    """Whether nothing is known: None, NaN, or pandas's NA and NaT, without importing pandas."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and math.isnan(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (numbers.Real, Decimal)) and not isinstance(value, bool)


def _objects(cells: _Cells) -> list[Any]:
    """Values whose labels are to be found: None for gaps and infinity, and truth as truth."""
    nothing = (math.inf, -math.inf)
    values = [None if _is_gap(v) or v in nothing else v for v in cells.values.tolist()]
    if cells.kind != "boolean":
        return values
    return [value if value is None else bool(value) for value in values]


def _labels(values: list[Any], as_numbers: bool) -> list[Label | None]:
    """Numbers are compared as numbers and text as text; what is no number is unknown there."""
    label = _number_label if as_numbers else _text_label
    return [None if value is None else label(value) for value in values]


def _number_label(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _text_label(value: Any) -> str:
    """Text; 3 and 3.0 are both "3". The end of a long text becomes a digest of all of it."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    # Half a surrogate pair, which broken text may hold, cannot be written to a file.
    text = str(value).encode("utf-8", "backslashreplace")
    if len(text) > LONGEST:
        text = text[: LONGEST // 2] + hashlib.sha256(text).hexdigest()[: LONGEST // 2].encode()
    return text.decode("utf-8", "replace")


def _numbers(values: NDArray[Any], kind: Kind, title: str) -> Array:
    """Float64 with NaN for gaps; text of numbers is read."""
    floats = _parsed(values, kind, title) if values.dtype == object else values.astype(np.float64)
    wrong = np.abs(floats) > LARGEST
    if kind == "boolean":
        wrong |= ~np.isin(floats, (0.0, 1.0)) & ~np.isnan(floats)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        size = "infinity" if np.isinf(floats[row]) else f"larger than {LARGEST:g}"
        problem = "neither true nor false" if kind == "boolean" else size
        raise _refused(title, row, values[row], f"is {problem}; mend it or leave the row out")
    return floats


def _parsed(values: NDArray[Any], kind: Kind, title: str) -> Array:
    floats = np.empty(len(values))
    for row, value in enumerate(values):
        try:
            floats[row] = _number(value, kind)
        except (TypeError, ValueError, OverflowError):
            problem = f"is not a number; mend it, or {AS_CATEGORIES}"
            raise _refused(title, row, value, problem) from None
    return floats


def _number(value: Any, kind: Kind) -> float:
    if _is_gap(value):
        return math.nan
    if not isinstance(value, str):
        return float(value)
    word = value.strip().lower()
    if kind == "boolean" and word in ("true", "false"):
        return float(word == "true")
    if "_" in word:  # which Python, but nobody else, takes for a part of a number
        raise ValueError
    return math.nan if word in GAPS else float(word)


def _refused(title: str, row: int, value: Any, problem: str) -> ValueError:
    shown = repr(value.item() if isinstance(value, np.generic) else value)[:LONGEST]
    return ValueError(f"X: {title}, row {row} (from 0): {shown} {problem}")


# Arrays and frames


def _title(names: Sequence[str] | None, index: int) -> str:
    return f"column {index}" if names is None else f"column {names[index]!r}"


def _names(X: Any) -> list[str] | None:
    names = list(X.columns) if library_of(X) else []
    return names if names and all(isinstance(name, str) for name in names) else None


def library_of(X: Any) -> str | None:
    """The library that X is a DataFrame of, which is loaded then."""
    for name in ("pandas", "polars"):
        if name in sys.modules and isinstance(X, sys.modules[name].DataFrame):
            return name
    return None


def _bare(X: Any) -> Any:
    """A DataFrame of nothing but numbers as an array, which is much quicker to read."""
    library = library_of(X)
    if library == "pandas" and all(isinstance(t, np.dtype) and t.kind in "iuf" for t in X.dtypes):
        return X.to_numpy(np.float64)
    if library == "polars" and all(t.is_integer() or t.is_float() for t in X.dtypes):
        return X.cast(sys.modules["polars"].Float64).to_numpy()
    return X


def _cells(X: Any) -> list[_Cells]:
    library = library_of(X)
    if library is None:
        return [_Cells("number", column) for column in np.asarray(X).T]
    titles = [_title([str(name)], 0) for name in X.columns]
    if library == "pandas":
        return [_pandas_cells(X.iloc[:, i], title) for i, title in enumerate(titles)]
    return [_polars_cells(X.to_series(i), title) for i, title in enumerate(titles)]


def _pandas_cells(column: Any, title: str) -> _Cells:
    pandas, dtype = sys.modules["pandas"], column.dtype
    if isinstance(dtype, pandas.CategoricalDtype):
        return _inferred(column.tolist(), title, categorical=True)
    truth = pandas.api.types.is_bool_dtype(dtype)
    if dtype.kind in "mM":
        raise ValueError(f"X: {title}: {DATES}")
    if truth or (pandas.api.types.is_numeric_dtype(dtype) and dtype.kind != "c"):
        values = column.to_numpy(dtype="float64", na_value=np.nan)
        return _Cells("boolean" if truth else "number", values)
    return _inferred(column.tolist(), title)


def _polars_cells(column: Any, title: str) -> _Cells:
    polars, dtype = sys.modules["polars"], column.dtype
    if dtype.is_temporal():
        raise ValueError(f"X: {title}: {DATES}")
    if dtype.is_numeric() or dtype in (polars.Boolean, polars.Null):
        kind: Kind = "boolean" if dtype == polars.Boolean else "number"
        return _Cells(kind, column.cast(polars.Float64).to_numpy())
    return _inferred(column.to_list(), title)


def _inferred(values: list[Any], title: str, categorical: bool = False) -> _Cells:
    """What a column of Python objects is: text is categorical, and so is what says that it is."""
    cells = np.fromiter((None if _is_gap(v) else v for v in values), object, len(values))
    types = {type(value) for value in cells} - {type(None)}
    truth = {t for t in types if issubclass(t, (bool, np.bool_))}
    figures = {t for t in types - truth if issubclass(t, (numbers.Real, Decimal))}
    others = {t for t in types - truth - figures if not issubclass(t, str)}
    if categorical:
        return _Cells("category", cells)
    if any(issubclass(t, (datetime.date, datetime.time, datetime.timedelta)) for t in others):
        raise ValueError(f"X: {title}: {DATES}")
    if others:
        held = sorted(t.__name__ for t in others)[0]
        raise ValueError(f"X: {title}: holds {held}; need numbers, booleans or text")
    if truth or figures:
        kind: Kind = "boolean" if types == truth else "number" if types == figures else "category"
        return _Cells(kind, cells)
    return _Cells("category", cells)
