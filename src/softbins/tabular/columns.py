"""What each column of a table becomes before a network sees it.

A number keeps its value. Where it is missing, the median of the training rows stands in, and if
training rows had missing values, a second feature says where. A boolean is 0 or 1. Each of a few
categories gets a 0/1 feature of its own; of many, only the most frequent do, and the others share
one, next to a feature with the category's frequency. Dates are elapsed time and the parts of the
calendar that vary. Text that is a name, another one in nearly every row, is left out. Nothing here
looks at a target: what targets say of many categories, `target_statistics` adds. As in
HistGradientBoostingRegressor, the dtypes of a DataFrame say what is categorical, and a category
that training rows did not have counts as missing.

    columns = Columns.fit(X_train)
    features = columns.transform(X_test)  # (n, len(columns.encoded_features)), always finite
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import NDArray

from softbins.tabular.categories import (
    MAX_ONE_HOT_CATEGORIES,
    CategoryEncoder,
    category_values,
)
from softbins.tabular.date_text import TIME_FORMAT, DateTextError
from softbins.tabular.dates import DateEncoder, read_temporal
from softbins.tabular.defaults import DEFAULTS
from softbins.tabular.encoded_feature import EncodedFeature
from softbins.tabular.frames import (
    MAX_ABSOLUTE_VALUE,
    Array,
    ColumnKind,
    ColumnValues,
    ReadKind,
    TemporalKind,
    categorical_columns,
    cell_error,
    column_kind,
    column_names,
    column_title,
    numeric_frame_to_array,
    read_columns,
    to_numbers,
)
from softbins.tabular.text_kind import LeftOut, TextKind, text_kind, text_layout

MAX_KNOWN_CATEGORIES = DEFAULTS.columns.max_known_categories


@dataclass(frozen=True)
class NumericEncoder:
    """Encodes a column of numbers or booleans, or one that was empty in training.

    Times of day and durations are numbers of seconds. `fill` stands in for missing values, and
    `gaps` says whether training rows had any. The fields are the keys of a model file.
    """

    kind: ColumnKind
    fill: float
    gaps: bool

    @classmethod
    def fit(cls, kind: ColumnKind, values: Array) -> Self:
        """Learn from the values of training rows, with NaN for missing ones."""
        known = values[~np.isnan(values)]
        if not len(known):
            return cls.for_empty_column()
        return cls(kind, float(np.median(known)), len(known) < len(values))

    @classmethod
    def for_empty_column(cls) -> Self:
        """An encoder for a column that no training row has a value in."""
        return cls("empty", 0.0, True)

    def features(self, column: int) -> list[EncodedFeature]:
        """What the column of that index becomes."""
        value, flag = EncodedFeature(column, "value"), EncodedFeature(column, "is_missing")
        return [value, flag] if self.gaps else [value]

    def encode(self, column: ColumnValues, title: str, out: Array) -> None:
        """Write the features of the column into `out` (n, features)."""
        if self.kind == "empty":
            # No weight has learned what a value here would mean: all count as missing.
            out[:] = (0.0, 1.0)
            return
        values = column_numbers(column, self.kind, title)
        missing = np.isnan(values)
        out[:, 0] = np.where(missing, self.fill, values)
        out[:, 1:] = missing[:, None]

    def to_json(self) -> dict[str, Any]:
        """Everything as plain JSON, for a model file."""
        return asdict(self)


@dataclass(frozen=True)
class LeftOutEncoder:
    """Stands for a column of names or of free text, of which nothing is learnt.

    The fields are the keys of a model file.
    """

    kind: ColumnKind
    left_out: LeftOut

    def features(self, column: int) -> list[EncodedFeature]:
        """What the column of that index becomes: nothing."""
        return []

    def encode(self, column: ColumnValues, title: str, out: Array) -> None:
        """Write nothing, whatever the column holds."""

    def to_json(self) -> dict[str, Any]:
        """Everything as plain JSON, for a model file."""
        return asdict(self)


Encoder = NumericEncoder | CategoryEncoder | DateEncoder | LeftOutEncoder
ENCODERS: dict[ColumnKind, type[Encoder]] = {
    "number": NumericEncoder,
    "boolean": NumericEncoder,
    "empty": NumericEncoder,
    "time": NumericEncoder,
    "duration": NumericEncoder,
    "category": CategoryEncoder,
    "date": DateEncoder,
    "ignored": LeftOutEncoder,
}


@dataclass(frozen=True)
class Columns:
    """How each column of X becomes features for a network, learned from training rows only.

    There is one encoder for each column, and names if X is a DataFrame with names of text.
    """

    names: list[str] | None
    encoders: list[Encoder]

    @classmethod
    def fit(
        cls,
        X: Any,
        categorical_features: Any = "from_dtype",
        used_rows: Any = ...,
        *,
        max_one_hot: int = MAX_ONE_HOT_CATEGORIES,
        max_known: int = MAX_KNOWN_CATEGORIES,
    ) -> Self:
        """Learn from a DataFrame of any library or an array (n, d).

        `used_rows`, an index or a mask (n,), says which rows to learn from: all by default. A
        column of more than `max_one_hot` categories has one feature less than that for its most
        frequent ones, and the most frequent `max_known` are remembered.
        """
        names, limits = column_names(X), (max_one_hot, max_known)
        chosen = categorical_columns(categorical_features, names, X.shape[1])
        encoders: list[Encoder] = []
        for index, column in enumerate(read_columns(numeric_frame_to_array(X))):
            title = column_title(names, index)
            kind = column_kind(column.kind, index, chosen, title)
            encoders.append(_fit_encoder(kind, column, title, used_rows, limits))
        return cls(names, encoders)

    @property
    def kinds(self) -> list[ColumnKind]:
        """What each column of X is taken for."""
        return [encoder.kind for encoder in self.encoders]

    @cached_property
    def encoded_features(self) -> list[EncodedFeature]:
        """What each feature that `transform` returns is."""
        return [each for i, encoder in enumerate(self.encoders) for each in encoder.features(i)]

    def transform(self, X: Any) -> Array:
        """The features (n, len(encoded_features)) for the rows of X, always finite."""
        if X.shape[1] != len(self.encoders):
            raise ValueError(f"X: has {X.shape[1]} columns instead of {len(self.encoders)}")
        X = numeric_frame_to_array(X)
        if isinstance(X, np.ndarray) and X.dtype.kind in "biuf":
            X = X.astype(np.float64, copy=False)
        if self._leaves_unchanged(X):
            return np.asarray(X)
        out = np.empty((len(X), len(self.encoded_features)))
        start = 0
        for index, (encoder, column) in enumerate(zip(self.encoders, read_columns(X), strict=True)):
            end = start + len(encoder.features(index))
            encoder.encode(column, column_title(self.names, index), out[:, start:end])
            start = end
        return out

    def rare_codes(self, X: Any) -> dict[int, NDArray[np.int64]]:
        """For each column with more categories than have a feature each, those of the rows of X."""
        categories = {i: e for i, e in enumerate(self.encoders) if isinstance(e, CategoryEncoder)}
        many = {i: encoder for i, encoder in categories.items() if encoder.has_rare}
        columns = list(read_columns(numeric_frame_to_array(X))) if many else []
        return {i: e.codes(columns[i], column_title(self.names, i)) for i, e in many.items()}

    def column_features(self, X: Any) -> Iterator[NDArray[np.floating]]:
        """The features (n, k) of each column in turn; 0 and 1 of categories in float32."""
        for index, (encoder, column) in enumerate(zip(self.encoders, read_columns(X), strict=True)):
            dtype = np.float32 if isinstance(encoder, CategoryEncoder) else np.float64
            out = np.empty((len(column.values), len(encoder.features(index))), dtype)
            encoder.encode(column, column_title(self.names, index), out)
            yield out

    def _leaves_unchanged(self, X: Any) -> bool:
        """Whether X holds only numbers, none of them missing, so that it is its own encoding."""
        if set(self.kinds) != {"number"} or len(self.encoded_features) != len(self.encoders):
            return False
        floats = isinstance(X, np.ndarray) and X.dtype == np.float64
        return floats and bool((np.abs(X) <= MAX_ABSOLUTE_VALUE).all())

    def to_json(self) -> dict[str, Any]:
        """Everything as plain JSON, for a model file."""
        return {"names": self.names, "parts": [encoder.to_json() for encoder in self.encoders]}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Columns from what `to_json` returned."""
        names, parts = value["names"], value["parts"]
        if names is not None and len(names) != len(parts):
            raise ValueError(f"columns: {len(names)} names for {len(parts)} columns")
        return cls(names, [ENCODERS[part["kind"]](**part) for part in parts])


# Fitting


def _fit_encoder(
    kind: ReadKind, column: ColumnValues, title: str, used_rows: Any, limits: tuple[int, int]
) -> Encoder:
    """The encoder of a column of that kind; `limits` are those of categories."""
    used = column._replace(values=column.values[used_rows])
    text = _text_kind(kind, used.values, column, title)
    if text.left_out is not None:
        return LeftOutEncoder("ignored", text.left_out)
    if text.kind == "category":
        return _category_encoder(category_values(used), *limits)
    if text.kind == "date":
        dates = read_temporal(used, "date", title, text.written)
        empty = np.isnan(dates.values).all()
        return NumericEncoder.for_empty_column() if empty else DateEncoder.fit(dates, text.written)
    # All rows, so that a complaint counts them as the table does.
    floats = column_numbers(column, text.kind, title)
    return NumericEncoder.fit(text.kind, floats[used_rows])


def _text_kind(kind: ReadKind, used: NDArray[Any], column: ColumnValues, title: str) -> TextKind:
    """What a column of that kind is, with these values in the rows that are used."""
    words = used.tolist() if "text" in (kind, column.kind) else []
    try:
        if kind == "text":
            return text_kind(words)
        # Text that is no category is numbers, unless it is dates.
        if kind == "number" and column.kind == "text" and text_layout(words) is not None:
            return text_kind(words)
    except DateTextError as error:
        row = column.values.tolist().index(error.word)
        problem = f"{error.problem}, or name the column in categorical_features"
        raise cell_error(title, row, error.word, problem) from None
    return TextKind(kind)


def column_numbers(column: ColumnValues, kind: ColumnKind, title: str) -> Array:
    """The values of a column of numbers, booleans, times or durations; NaN for missing ones."""
    if kind == "time" or column.kind == kind == "duration":
        return read_temporal(column, kind, title, TIME_FORMAT).values
    if column.kind in get_args(TemporalKind):
        had = {"boolean": "booleans"}.get(kind, f"{kind}s")
        raise ValueError(f"X: {title}: holds {column.kind}s, where training had {had}")
    return to_numbers(column.values, kind, title)


def _category_encoder(values: list[Any], max_one_hot: int, max_known: int) -> Encoder:
    if all(value is None for value in values):
        return NumericEncoder.for_empty_column()
    return CategoryEncoder.fit(values, max_one_hot, max_known)
