"""What rows have to do with each other: groups, a time, or folds that somebody has chosen.

Rows that are held out judge a model. They must be as new to it as the rows that it will predict.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softbins._core.text import did_you_mean
from softbins.tabular.frames import as_frame

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Splits = list[tuple[Index, Index]]


@dataclass(frozen=True)
class RowOrder:
    """The groups (n,) of rows as numbers from 0, their times (n,), or pairs of rows to use.

    `text` says in words how rows are held out.
    """

    groups: NDArray[np.int64] | None = None
    time: Array | None = None
    splits: Splits | None = None
    text: str = "random"

    @property
    def is_random(self) -> bool:
        """Whether any row may be held out without any other."""
        return self.groups is None and self.time is None and self.splits is None

    @classmethod
    def of(cls, X: Any, y: Any, *, groups: Any, time: Any, folds: Any) -> RowOrder:
        """What was given, checked; `time` and `groups` are arrays or names of columns of X."""
        given = [name for name, part in (("groups", groups), ("time", time)) if part is not None]
        if folds is not None:
            if time is not None:
                raise ValueError("folds, time: give one of them; folds say the order themselves")
            return cls(splits=_splits(folds, X, y, _values("groups", groups, X)), text="given")
        if len(given) > 1:
            raise ValueError("groups, time: give one of them")
        if groups is not None:
            return cls(
                groups=_labels(_values("groups", groups, X), len(y)), text=_text(groups, "groups")
            )
        if time is not None:
            return cls(time=_times(_values("time", time, X), len(y)), text=_text(time, "time"))
        return cls()

    def rows(self, used: Any) -> RowOrder:
        """The same for some of the rows, by a mask, where there are no splits."""
        if used is ...:
            return self
        if self.splits is not None:
            raise ValueError("folds: cannot be given together with rows of weight 0; drop those")
        groups = None if self.groups is None else _codes(self.groups[used])
        return RowOrder(groups, None if self.time is None else self.time[used], None, self.text)


def _values(name: str, given: Any, X: Any) -> Any:
    """The values of a column of X, if its name was given."""
    if not isinstance(given, str):
        return given
    frame = as_frame(X)
    columns = [] if frame is None else [str(column) for column in frame.columns]
    if given not in columns:
        hint = did_you_mean(given, columns) or "; give an array, or a data frame as X"
        raise ValueError(f"{name}: X has no column {given!r}{hint}")
    return frame[given].to_numpy()


def _text(given: Any, kind: str) -> str:
    """How rows are held out, with the name of the column if there is one."""
    name = given if isinstance(given, str) else getattr(given, "name", None)
    return f"{kind}: {name}" if isinstance(name, str) else kind


def _labels(values: Any, rows: int) -> NDArray[np.int64]:
    labels = np.asarray(values)
    _check_length("groups", labels, rows)
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise ValueError("groups: some rows have none (NaN); give each row a group")
    return _codes(labels if labels.dtype.kind in "iufbUM" else labels.astype(str))


def _codes(labels: NDArray[Any]) -> NDArray[np.int64]:
    codes: NDArray[np.int64] = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    return codes


def _times(values: Any, rows: int) -> Array:
    """Times as numbers that rise with them."""
    times = np.asarray(values)
    _check_length("time", times, rows)
    if times.dtype.kind in "OU":
        times = _dates(times)
    if times.dtype.kind == "M":
        missing = np.isnat(times)
        numbers = times.astype("datetime64[ns]").astype(np.int64).astype(np.float64)
    else:
        numbers = times.astype(np.float64)
        missing = ~np.isfinite(numbers)
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        raise ValueError(f"time: row {row} has none; give each row a time")
    return numbers


def _dates(values: NDArray[Any]) -> NDArray[Any]:
    """Text or objects as dates, those with a zone as seconds since 1970."""
    try:
        if all(getattr(value, "tzinfo", None) is not None for value in values):
            return np.array([value.timestamp() for value in values])
        return values.astype("datetime64[ns]")
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"time: {str(values[0])!r} is no date such as 2026-01-31; give dates or numbers"
        ) from error


def _check_length(name: str, values: NDArray[Any], rows: int) -> None:
    if values.shape != (rows,):
        raise ValueError(f"{name}: need one for each of {rows} rows, got shape {values.shape}")


def _splits(folds: Any, X: Any, y: Any, groups: Any) -> Splits:
    """Pairs of training and held-out rows, of a splitter of scikit-learn or as they are."""
    is_splitter = hasattr(folds, "split") and not isinstance(folds, str)
    pairs = folds.split(X, y, groups) if is_splitter else folds
    if not isinstance(pairs, Iterable) or isinstance(pairs, str):
        raise ValueError(f"folds: need a splitter or pairs of indices, got {folds!r}")
    try:
        found = [tuple(_indices(part, len(y)) for part in pair) for pair in pairs]
    except (TypeError, ValueError) as error:
        raise ValueError(f"folds: need pairs of indices of rows ({error})") from error
    if not found or any(len(pair) != 2 for pair in found):
        raise ValueError("folds: need at least one pair of training and held-out rows")
    for number, (train, test) in enumerate(found):
        if len(train) == 0 or len(test) == 0:
            raise ValueError(f"folds: pair {number} has no rows on one of its sides")
        if len(np.intersect1d(train, test)):
            raise ValueError(f"folds: pair {number} has rows on both of its sides")
    return [(train, test) for train, test in found]


def _indices(part: Any, rows: int) -> Index:
    index = np.asarray(part)
    if index.dtype == bool:
        index = np.flatnonzero(index)
    if len(index) and not (index.dtype.kind in "iu" and 0 <= index.min() <= index.max() < rows):
        raise ValueError(f"need whole numbers from 0 to {rows - 1}")
    return index.astype(np.int64)
