"""Columns of categories: what each becomes, and how values are labeled.

A few categories get a 0/1 feature each. Of many, only the most frequent do, unless targets say
something of all of them (`target_statistics`).
"""

from __future__ import annotations

import hashlib
import math
import numbers
from collections import Counter
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import NDArray

from softbins.tabular.defaults import DEFAULTS
from softbins.tabular.encoded_feature import Content, EncodedFeature, Label
from softbins.tabular.frames import Array, ColumnKind, ColumnValues, TemporalKind, is_missing

MAX_ONE_HOT_CATEGORIES = DEFAULTS.columns.max_one_hot_categories
MAX_LABEL_BYTES = 80  # of longer text, the second half is replaced by a digest


@dataclass(frozen=True)
class CategoryEncoder:
    """Encodes a column of categories, which are all text or all numbers.

    `labels` are the known categories, most frequent first, and `counts` how many training rows
    each had. Where there are too many for a feature each, `means`, `effects` and `slopes` along
    some of the other columns may say what targets have to do with each (see `target_statistics`),
    and take the place of such features; a category that is not known has 0 in all. The fields are
    the keys of a model file, which has the last five only if they are not the default.
    """

    kind: ColumnKind
    labels: list[Label]
    counts: list[int]
    max_one_hot: int = MAX_ONE_HOT_CATEGORIES
    means: list[float] | None = None
    effects: list[float] | None = None
    slopes: list[list[float]] = field(default_factory=list)
    slope_columns: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.labels or len(self.labels) != len(self.counts):
            raise ValueError(f"columns: {len(self.labels)} labels, {len(self.counts)} counts")
        self._check_statistics()

    def _check_statistics(self) -> None:
        if self.means is None and self.effects is None and not (self.slopes or self.slope_columns):
            return
        learnt = [len(each or []) for each in (self.means, self.effects, *self.slopes)]
        wanted = [len(self.labels)] * (2 + len(self.slope_columns))
        if learnt != wanted or not self.has_rare:
            what = "means and effects, and slopes of each column,"
            raise ValueError(f"columns: {learnt} {what} for {len(self.labels)} labels")

    @classmethod
    def fit(cls, values: list[Any], max_one_hot: int, max_known: int) -> Self:
        """Learn from the values of training rows, with None for missing ones."""
        counts = Counter(_labels(values, all(_is_number(v) for v in values if v is not None)))
        del counts[None]
        # Equal counts are ordered by label, so that the order of the rows does not matter.
        ordered: list[Any] = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        labels, frequencies = map(list, zip(*ordered[:max_known], strict=True))
        return cls("category", labels, frequencies, max_one_hot)

    @property
    def has_rare(self) -> bool:
        """Whether there are more categories than may have a feature each."""
        return len(self.labels) > self.max_one_hot

    @property
    def one_hot(self) -> int:
        """The number of categories that have a feature each."""
        if self.means is not None:
            return 0
        return self.max_one_hot - 1 if self.has_rare else len(self.labels)

    def knows(self, value: Any) -> bool:
        """Whether a value is one of the known categories."""
        return _labels([value], isinstance(self.labels[0], float))[0] in self.labels

    def features(self, column: int) -> list[EncodedFeature]:
        """What the column of that index becomes."""
        own = [EncodedFeature(column, "is_category", each) for each in self.labels[: self.one_hot]]
        if not self.has_rare:
            return own
        blind: list[Content] = ["is_rare_category", "category_frequency"]
        learnt: list[Content] = ["category_frequency", "category_mean", "category_effect"]
        about = blind if self.means is None else learnt
        slopes = [
            EncodedFeature(column, "category_slope", along=other) for other in self.slope_columns
        ]
        return own + [EncodedFeature(column, content) for content in about] + slopes

    def codes(self, column: ColumnValues, title: str) -> NDArray[np.int64]:
        """The place of each row's category among the labels, -1 for one that is not known."""
        places: dict[Label | None, int] = {label: i for i, label in enumerate(self.labels)}
        if column.kind in get_args(TemporalKind):
            raise ValueError(f"X: {title}: holds {column.kind}s, where training had categories")
        labels = _labels(category_values(column), isinstance(self.labels[0], float))
        return np.fromiter((places.get(label, -1) for label in labels), np.int64, len(labels))

    def encode(self, column: ColumnValues, title: str, out: Array) -> None:
        """Write the features of the column into `out` (n, features)."""
        codes = self.codes(column, title)
        out[:] = 0.0
        shown = np.flatnonzero((codes >= 0) & (codes < self.one_hot))
        out[shown, codes[shown]] = 1.0
        if self.has_rare:
            known = np.flatnonzero(codes >= 0)
            rare = np.arange(len(self.labels)) >= self.one_hot if self.means is None else None
            numbers = [rare, np.log1p(self.counts), self.means, self.effects, *self.slopes]
            found = [np.asarray(each)[codes[known]] for each in numbers if each is not None]
            out[known, self.one_hot :] = np.stack(found, 1)

    def to_json(self) -> dict[str, Any]:
        """Everything as plain JSON, for a model file."""
        value = asdict(self)
        if self.max_one_hot == MAX_ONE_HOT_CATEGORIES:
            del value["max_one_hot"]
        if self.means is None:
            del value["means"], value["effects"]
        if not self.slope_columns:
            del value["slopes"], value["slope_columns"]
        return value


# Labels


def category_values(column: ColumnValues) -> list[Any]:
    """A column's values as Python objects, with None for what is missing or infinite."""
    infinite = (math.inf, -math.inf)
    values = [None if is_missing(v) or v in infinite else v for v in column.values.tolist()]
    if column.kind != "boolean":
        return values
    # Booleans were read as 0.0 and 1.0, and are labeled "True" and "False".
    return [value if value is None else bool(value) for value in values]


def _is_number(value: Any) -> bool:
    return isinstance(value, (numbers.Real, Decimal)) and not isinstance(value, bool)


def _labels(values: list[Any], as_numbers: bool) -> list[Label | None]:
    """The label of each value, as numbers or as text; None for what is missing or no number."""
    if as_numbers:
        return [None if value is None else _number_label(value) for value in values]
    # Each text once: in large tables it comes again and again.
    texts = {value: _text_label(value) for value in set(values) if type(value) is str}
    return [
        texts[value] if type(value) is str else None if value is None else _text_label(value)
        for value in values
    ]


def _number_label(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _text_label(value: Any) -> str:
    """Text for any value: "3" for both 3 and 3.0; a digest replaces the end of long text."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    # Half of a surrogate pair, which broken text may hold, cannot be written to a file.
    text = str(value).encode("utf-8", "backslashreplace")
    if len(text) > MAX_LABEL_BYTES:
        half = MAX_LABEL_BYTES // 2
        text = text[:half] + hashlib.sha256(text).hexdigest()[:half].encode()
    return text.decode("utf-8", "replace")
