"""What a column of dates becomes: elapsed time, and the parts of the calendar that come again.

Elapsed days are a number that a trend can follow. It stays within the range of the training rows:
a date ten years later counts as the last one that was seen, so that nothing is extrapolated. Month,
day of the month, weekday (Monday is 0) and hour (10:30 is 10.5) are plain numbers, of which trees
cut ranges and networks make waves. A part is there if it varies in the training rows and these
last longer than it takes to come again: otherwise it only says once more how much time has passed,
and a model that took the one for the other would go wrong as soon as it does come again. So the
year is never there: elapsed time tells it. Parts are read off the clock of the column's zone, if
it has one, and elapsed time is that of UTC.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from datetime import datetime, time, timedelta
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from softbins.tabular.date_text import ISO, DateTextError, Moment, parse
from softbins.tabular.encoded_feature import DatePart, EncodedFeature
from softbins.tabular.frames import (
    MISSING_WORDS,
    MIXED_ZONES,
    Array,
    ColumnKind,
    ColumnValues,
    TemporalKind,
    cell_error,
    is_missing,
    read_objects,
)
from softbins.tabular.time_zones import (
    FIRST_MOMENT,
    LAST_MOMENT,
    offset_name,
    seconds_ahead,
    time_zone,
)

SECONDS_OF_DAY, SECONDS_OF_HOUR = 86_400, 3_600
DAYS_TO_COME_AGAIN: dict[DatePart, int] = {"month": 366, "day": 31, "weekday": 7, "hour": 1}
MONDAY_OF_1970 = 3  # the first of January was a Thursday


@dataclass(frozen=True)
class DateEncoder:
    """Encodes a column of dates, with or without a time of day.

    `fill` stands in for missing values, `low` and `high` are the ends of the training rows, all in
    seconds since 1970, and `gaps` says whether values were missing. `parts` are those that varied.
    `zone` is None for dates without one, and `written` is how text is written. The fields are the
    keys of a model file.
    """

    kind: ColumnKind
    fill: float
    gaps: bool
    low: float
    high: float
    parts: list[DatePart]
    zone: str | None = None
    written: str = ISO

    def __post_init__(self) -> None:
        if not self.low <= self.fill <= self.high:
            raise ValueError(f"columns: a date {self.fill} outside {self.low} to {self.high}")

    @classmethod
    def fit(cls, column: ColumnValues, written: str = ISO) -> Self:
        """Learn from the moments of training rows, some of which are not missing."""
        known = column.values[~np.isnan(column.values)].clip(FIRST_MOMENT, LAST_MOMENT)
        parts = calendar(known, column.zone)
        return cls(
            kind="date",
            # One that is there, because the mean of two may be a weekday or hour that is not.
            fill=float(np.quantile(known, 0.5, method="inverted_cdf")),
            gaps=len(known) < len(column.values),
            low=float(known.min()),
            high=float(known.max()),
            parts=[
                name
                for name, days in DAYS_TO_COME_AGAIN.items()
                if np.ptp(known) > days * SECONDS_OF_DAY and np.ptp(parts[name]) > 0
            ],
            zone=column.zone,
            written=written,
        )

    def features(self, column: int) -> list[EncodedFeature]:
        """What the column of that index becomes."""
        found = [EncodedFeature(column, "elapsed_days")]
        found += [EncodedFeature(column, part) for part in self.parts]
        return [*found, EncodedFeature(column, "is_missing")] if self.gaps else found

    def encode(self, column: ColumnValues, title: str, out: Array) -> None:
        """Write the features of the column into `out` (n, features)."""
        moments = self.moments(column, title)
        missing = np.isnan(moments)
        filled = np.where(missing, self.fill, moments)
        out[:, 0] = filled.clip(self.low, self.high) / SECONDS_OF_DAY
        parts = calendar(filled, self.zone)
        for place, name in enumerate(self.parts, start=1):
            out[:, place] = parts[name]
        if self.gaps:
            out[:, -1] = missing

    def moments(self, column: ColumnValues, title: str) -> Array:
        """The dates of a column in seconds since 1970, NaN for missing ones."""
        column = read_temporal(column, "date", title, self.written)
        if (column.zone is None) == (self.zone is None) or np.isnan(column.values).all():
            return column.values.clip(FIRST_MOMENT, LAST_MOMENT)
        now, then = ("no zone", "one") if column.zone is None else ("a zone", "none")
        raise ValueError(
            f"X: {title}: dates have {now}, where training had {then}; give them as in training"
        )

    def to_json(self) -> dict[str, Any]:
        """Everything as plain JSON, for a model file."""
        return asdict(self)


def calendar(moments: Array, zone: str | None) -> dict[str, Array]:
    """Month, day of the month, weekday and hour of moments, by the clock of a zone."""
    local = moments + seconds_ahead(moments, zone)
    days = np.floor(local / SECONDS_OF_DAY)
    dates = days.astype(np.int64).astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    parts = {
        "month": months.astype(np.int64) % 12 + 1,
        "day": (dates - months).astype(np.int64) + 1,
        "weekday": (days + MONDAY_OF_1970) % 7,
        "hour": (local - SECONDS_OF_DAY * days) / SECONDS_OF_HOUR,
    }
    return {name: values.astype(np.float64) for name, values in parts.items()}


def moment_text(moment: float, zone: str | None = None) -> str:
    """A moment as people write it, by the clock of its zone: 2026-01-31, or with 12:30 as well."""
    ahead = int(seconds_ahead(np.array([moment]), zone)[0])
    local = datetime(1970, 1, 1) + timedelta(seconds=round(moment) + ahead)
    if local.time() == time():
        return local.date().isoformat()
    return local.isoformat(" ", "seconds" if local.second else "minutes")


def iso_text(moment: float, zone: str | None) -> str:
    """A moment as ISO 8601 writes it: 2026-01-31T12:30:00+01:00 if there is a zone."""
    if zone is None:
        return moment_text(moment).replace(" ", "T")
    local = datetime.fromtimestamp(round(moment), time_zone(zone))
    return local.isoformat()


def clock_text(seconds: float) -> str:
    """A time of day as people write it: 12:30, or with seconds if they are not 0."""
    minutes, rest = divmod(round(seconds), 60)
    text = f"{minutes // 60:02}:{minutes % 60:02}"
    return f"{text}:{rest:02}" if rest else text


# Reading


def read_temporal(
    column: ColumnValues, kind: TemporalKind, title: str, written: str
) -> ColumnValues:
    """A column of dates, times or durations in seconds; text is read in that format."""
    if column.values.dtype == object and column.kind == "number":
        column = read_objects(column.values, title)
    if column.kind == kind:
        return column
    if column.kind == "text":
        return _parsed(column.values, kind, title, written)
    if all(is_missing(value) for value in column.values.tolist()):
        return ColumnValues(kind, np.full(len(column.values), np.nan))
    raise ValueError(f"X: {title}: holds no {kind}s, where training had some; give {kind}s")


def _parsed(values: NDArray[Any], kind: TemporalKind, title: str, written: str) -> ColumnValues:
    """The moments that text means, in the zone that it names, or UTC if it names several."""
    moments: dict[str | None, Moment] = {None: Moment(math.nan)}
    for word in (each for each in dict.fromkeys(values.tolist()) if each is not None):
        try:
            missing = word.strip().lower() in MISSING_WORDS
            moments[word] = moments[None] if missing else parse(word, written)
        except DateTextError as error:
            row = values.tolist().index(word)
            raise cell_error(title, row, word, error.problem) from None
    seconds = np.array([moments[word].seconds for word in values.tolist()], dtype=np.float64)
    offsets = {each.offset for each in moments.values() if not math.isnan(each.seconds)}
    if None in offsets and len(offsets) > 1:
        raise ValueError(f"X: {title}: {MIXED_ZONES}")
    zones = [offset_name(offset) for offset in offsets if offset is not None]
    return ColumnValues(kind, seconds, zones[0] if len(zones) == 1 else "UTC" if zones else None)
