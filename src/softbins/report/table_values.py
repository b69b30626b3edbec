"""The columns of a table as a page shows them: names, values as text, and rows in groups."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softbins._core.text import number_text, shortened
from softbins.report.moved_columns import column_label
from softbins.tabular.frames import is_missing, read_columns, to_numbers

Array = NDArray[np.float64]
Index = NDArray[np.int64]

MAX_CHARACTERS_OF_NAME = 60
MISSING = "missing"
OTHERS = "others"


class Group(NamedTuple):
    """Rows that have something in common, and what that is."""

    label: str
    rows: Index


@dataclass(frozen=True)
class TableColumn:
    """A column of a table: its place, its name, and its value in each row as text.

    `numbers` are its values with NaN where one is missing; None for categories.
    """

    index: int
    name: str
    labels: list[str]
    numbers: Array | None

    def cell(self, row: int) -> float | str | None:
        """The value of a row for a table: a number, short text, or None if it is missing."""
        if self.numbers is not None:
            return None if np.isnan(self.numbers[row]) else float(self.numbers[row])
        return None if self.labels[row] == MISSING else shortened(self.labels[row], 40)

    @cached_property
    def frequent(self) -> list[str]:
        """The labels that occur, the most frequent first."""
        counts = Counter(self.labels)
        return sorted(counts, key=lambda label: (-counts[label], label))

    def places(self, max_points: int, max_categories: int) -> list[int]:
        """A row for each of some values of the column: in their order, or the most frequent."""
        if self.numbers is None:
            return [self.labels.index(label) for label in self.frequent[:max_categories]]
        known = np.flatnonzero(~np.isnan(self.numbers))
        if not len(known):
            return []
        order = known[np.argsort(self.numbers[known], kind="stable")]
        distinct = order[np.append(True, np.diff(self.numbers[order]) > 0)]
        if len(distinct) <= max_points:
            return [int(place) for place in distinct]
        levels = np.linspace(0.02, 0.98, max_points) * (len(order) - 1)
        values = self.numbers[order[levels.round().astype(int)]]
        starts = np.searchsorted(self.numbers[order], np.unique(values))
        return [int(place) for place in order[starts]]

    def groups(self, count: int) -> list[Group]:
        """All rows in up to `count` groups of similar values, and those without a value."""
        if self.numbers is not None:
            missing = np.flatnonzero(np.isnan(self.numbers))
            groups = groups_by_size(self.numbers, count)
            return [*groups, Group(MISSING, missing)] if len(missing) else groups
        named = self.frequent if len(self.frequent) <= count else self.frequent[: count - 1]
        labels = np.array([label if label in named else None for label in self.labels], object)
        groups = [Group(label, np.flatnonzero(labels == label)) for label in named]
        others = np.flatnonzero(labels == None)  # noqa: E711
        return [*groups, Group(OTHERS, others)] if len(others) else groups


def table_columns(model: Any, X: Any) -> list[TableColumn]:
    """The columns of a table that a model was given."""
    kinds = model.columns_.kinds
    result = []
    for index, (kind, column) in enumerate(zip(kinds, read_columns(X), strict=True)):
        name = shortened(plain_text(column_label(model, index)), MAX_CHARACTERS_OF_NAME)
        values = column.values
        if kind in ("number", "boolean"):
            values = to_numbers(values, kind, name)
        labels = [value_text(value, kind == "boolean") for value in values.tolist()]
        numbers = values if kind == "number" else None
        result.append(TableColumn(index, name, labels, numbers))
    return result


def groups_by_size(values: Array, count: int) -> list[Group]:
    """Rows in up to `count` groups of about the same number, from small values to large ones.

    Equal values are never parted, and rows without a value are in no group.
    """
    known = np.flatnonzero(~np.isnan(values))
    if not len(known):
        return []
    cuts = np.quantile(values[known], np.arange(1, count) / count, method="inverted_cdf")
    # A value that many rows share is a group of its own, and not the end of another one.
    number = np.searchsorted(np.unique(cuts), values[known], side="left")
    groups = [known[number == each] for each in np.unique(number)]
    return [Group(range_text(values[rows]), rows) for rows in groups]


def range_text(values: Array) -> str:
    """The smallest and the largest of some values, as text."""
    low, high = (number_text(float(end), 3) for end in (values.min(), values.max()))
    return low if low == high else f"{low} to {high}"


def value_text(value: Any, boolean: bool = False) -> str:
    """The value of a cell as text."""
    if is_missing(value):
        return MISSING
    if boolean:
        return "true" if value else "false"
    if isinstance(value, float):
        return number_text(value)
    return plain_text(str(value))


def plain_text(text: str) -> str:
    """Text on one line, without characters that cannot be shown or stored."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]+", " ", text)
