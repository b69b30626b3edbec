"""Moments in seconds, and zones by name with how far their clocks are ahead of UTC."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Moments that Python's calendar holds with any offset, in seconds since 1970.
FIRST_MOMENT, LAST_MOMENT = -62_135_510_400.0, 253_402_214_400.0
# All clocks that are set forward or back are so at a quarter of an hour.
QUARTER = 900
_FIXED = re.compile(r"(?:UTC)?([+-])(\d{2}):(\d{2})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_zone(name: str) -> tzinfo:
    """The zone of a name such as "Europe/Berlin", "UTC" or "+01:00", or `ValueError`."""
    fixed = _FIXED.fullmatch(name)
    try:
        if fixed:
            ahead = timedelta(hours=int(fixed[2]), minutes=int(fixed[3]))
            return timezone(-ahead if fixed[1] == "-" else ahead)
        if name == "UTC":
            return UTC
        from zoneinfo import ZoneInfo

        return ZoneInfo(name)
    # An unknown zone is a KeyError, and the name of a folder of zones an OSError.
    except (ValueError, KeyError, OSError) as error:
        raise ValueError(f"zone: none is known as {name!r}; install tzdata or use UTC") from error


def zone_name(zone: str | None) -> str | None:
    """The name of a zone if it can be found by it, "UTC" if not; None for none."""
    if zone is None:
        return None
    try:
        time_zone(zone)
    except ValueError:
        return "UTC"
    return zone


def name_of_zone(value: Any) -> str | None:
    """The zone of a date, None if it has none."""
    zone = getattr(value, "tzinfo", None)
    return None if zone is None or isinstance(value, time) else zone_name(str(zone))


def offset_name(offset: int) -> str:
    """The name of the zone that is so many seconds ahead of UTC."""
    if offset == 0:
        return "UTC"
    return f"{'-' if offset < 0 else '+'}{abs(offset) // 3600:02}:{abs(offset) // 60 % 60:02}"


def seconds_ahead(moments: Array, zone: str | None) -> Array:
    """How far a zone's clocks are ahead of UTC at these moments, in seconds."""
    if zone in (None, "UTC"):
        return np.zeros(len(moments))
    clock = time_zone(str(zone))
    quarters, places = np.unique(np.floor(moments / QUARTER), return_inverse=True)
    ahead = [_ahead(_EPOCH + timedelta(seconds=QUARTER * q), clock) for q in quarters.tolist()]
    return np.array(ahead, dtype=np.float64)[places]


def _ahead(moment: datetime, clock: tzinfo) -> float:
    offset = moment.astimezone(clock).utcoffset()
    return 0.0 if offset is None else offset.total_seconds()


def seconds_of(value: Any) -> float:
    """Seconds since 1970 of a date, in UTC if it has a zone; those of a time or a duration."""
    if isinstance(value, np.datetime64):
        value = value - np.datetime64(0, "s")
    if isinstance(value, np.timedelta64):
        return float(value / np.timedelta64(1, "s"))
    if isinstance(value, time):
        value = datetime.combine(_EPOCH, value.replace(tzinfo=None))
    elif isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if isinstance(value, timedelta):
        return value.total_seconds()
    aware: datetime = value.replace(tzinfo=UTC) if value.tzinfo is None else value
    return (aware - _EPOCH).total_seconds()
