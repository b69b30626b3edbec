"""Text that is dates or times of day, in one format throughout a column.

A format says the order and the mark: "year-month-day" (ISO 8601), "day.month.year",
"month/day/year" and so on; a time and a zone may follow, as in 2026-01-31T12:30+01:00. Times of
day alone are "hour:minute". Where the day and the month can be exchanged in every cell, nobody can
tell which is which, and somebody has to be asked; a point stands only between days and months in
this order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import NamedTuple

ISO, TIME_FORMAT = "year-month-day", "hour:minute"
# Text of which a larger share is dates is dates, and anything else in it is a mistake.
MIN_SHARE_OF_DATES = 0.9
MARKS = "-/."
DATE_FORMATS = tuple(
    order.replace(" ", mark)
    for mark in MARKS
    for order in ("year month day", "day month year", "month day year")
)

_CLOCK = (
    r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?"
    r"(?:\s*(?P<half>[AaPp])[Mm])?"
)
_ZONE = r"(?:\s*(?P<zone>[Zz]|[+-]\d{2}(?::?\d{2})?))?"
_DAY = r"(?P<first>\d{4}|\d{1,2})(?P<mark>[-/.])(?P<second_>\d{1,2})(?P=mark)(?P<third>\d{1,4})"
_TIME_WORD = re.compile(rf"\s*{_CLOCK}\s*", re.ASCII)
_DATE_WORD = re.compile(rf"\s*{_DAY}(?:(?:[Tt]|\s+){_CLOCK}{_ZONE})?\s*", re.ASCII)
_EPOCH = datetime(1970, 1, 1)


class Moment(NamedTuple):
    """Seconds since 1970 (in UTC if there is an offset) or midnight; the offset in seconds."""

    seconds: float
    offset: int | None = None


class DateTextError(ValueError):
    """A cell of a column of dates that is none, or may be two; `problem` follows the cell."""

    def __init__(self, word: str, problem: str) -> None:
        super().__init__(f"{word!r} {problem}")
        self.word, self.problem = word, problem


def find_format(words: Collection[str]) -> str | None:
    """The one format in which all of these different words are dates or times; None if none are.

    Raises `DateTextError` where most are and some are not, and where two formats give two dates.
    """
    known = {word: _readings(word) for word in words}
    dates = sum(bool(readings) for readings in known.values())
    if not dates or dates <= MIN_SHARE_OF_DATES * len(known):
        return None
    counts = Counter(name for readings in known.values() for name in readings)
    complete = [name for name, count in counts.items() if count == len(known)]
    if not complete:
        best = counts.most_common(1)[0][0]
        odd = next(word for word, readings in known.items() if best not in readings)
        raise DateTextError(odd, f"is no date such as the others, which are {best}; mend it")
    for word, readings in known.items() if len(complete) > 1 else ():
        if readings[complete[0]] != readings[complete[1]]:
            raise DateTextError(word, _doubt(readings))
    return sorted(complete)[0]


def parse(word: str, written: str) -> Moment:
    """The moment that a word means in that format, or in ISO 8601; raises `DateTextError`."""
    readings = _readings(word)
    iso = [] if written == TIME_FORMAT else [ISO]
    for name in (written, *iso):
        if name in readings:
            return readings[name]
    what = "time of day" if written == TIME_FORMAT else "date"
    raise DateTextError(word, f"is no {what} as in training, which had {written}; mend it")


def _doubt(readings: dict[str, Moment]) -> str:
    days = sorted(
        {f"{_EPOCH + timedelta(seconds=each.seconds):%Y-%m-%d}" for each in readings.values()}
    )
    return f"may be {' or '.join(days)}, and no other cell tells which; write dates as {days[0]}"


def _readings(word: str) -> dict[str, Moment]:
    """What a word means in each format that it may be in; empty for what is no date or time."""
    found = _TIME_WORD.fullmatch(word)
    try:
        if found:
            return {TIME_FORMAT: Moment(_clock_seconds(found))}
        found = _DATE_WORD.fullmatch(word)
        clock = _clock_seconds(found) if found and found["hour"] else 0.0
    except ValueError:
        return {}
    if not found:
        return {}
    offset = _offset(found["zone"])
    moments = {}
    for name, (year, month, day) in _orders(found).items():
        try:
            start = (datetime(year, month, day) - _EPOCH).total_seconds()
        except ValueError:  # the 31st of another order's month
            continue
        moments[name] = Moment(start + clock - (offset or 0), offset)
    return moments


def _orders(found: re.Match[str]) -> dict[str, tuple[int, int, int]]:
    """Year, month and day in each format that the digits allow."""
    mark, first, third = found["mark"], found["first"], found["third"]
    a, b, c = int(first), int(found["second_"]), int(third)
    if len(first) == 4 and len(third) <= 2:
        return {f"year{mark}month{mark}day": (a, b, c)}
    if len(first) > 2 or len(third) != 4:  # years have four digits: 1.2.3 may be a version
        return {}
    day_first = {f"day{mark}month{mark}year": (c, b, a)}
    return day_first if mark == "." else day_first | {f"month{mark}day{mark}year": (c, a, b)}


def _clock_seconds(found: re.Match[str]) -> float:
    hour, minute, second = (int(found[name] or 0) for name in ("hour", "minute", "second"))
    if found["half"]:
        if not 1 <= hour <= 12:
            raise ValueError
        hour = hour % 12 + 12 * (found["half"] in "Pp")
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError
    return 3600.0 * hour + 60 * minute + second + float(f"0.{found['fraction'] or 0}")


def _offset(zone: str | None) -> int | None:
    """The seconds that clocks of a zone such as Z, +01:00 or -0530 are ahead of UTC."""
    if zone is None:
        return None
    digits = zone[1:].replace(":", "").ljust(4, "0") if zone not in "Zz" else "0000"
    return (-1 if zone[0] == "-" else 1) * (3600 * int(digits[:2]) + 60 * int(digits[2:]))
