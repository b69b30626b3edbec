"""Errors where targets have heavy tails or outliers, beside peers, on simulated tables.

    python benchmarks/heavy_tails.py [--method NAME]... [--again]    writes results/heavy_tails.json

There are ten tables of each kind, most of them of 300 rows, each judged by 2000 more of the same
kind. All have six numbers and a column of text. What is recorded is not fitted again unless --again
asks for it. Peers are those of benchmarks/accuracy, whose environment this needs.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

sys.path.append(str(Path(__file__).parent / "accuracy"))
import ours
import peers
from data import Split

Array = NDArray[np.float64]
Record = dict[str, Any]

RESULT = Path(__file__).parent.parent / "results" / "heavy_tails.json"
ROWS = (300, 300, 300, 300, 300, 300, 500, 500, 1000, 2000)  # of each kind's tables
TEST_ROWS = 2_000
METHODS = {
    "softbins": ours.default,
    **{
        name: peers.PEERS[name]
        for name in (
            "CatBoost",
            "LightGBM 500",
            "HistGradientBoosting",
            "XGBoost",
            "quantile-forest",
            "RealMLP",
            "xRFM",
        )
    },
}


# Tables


def columns(random: np.random.Generator, rows: int) -> tuple[pd.DataFrame, Array]:
    """Six numbers, a column of eight texts, and a signal of mean 0 and deviation 1 in them."""
    x = pd.DataFrame(random.normal(size=(rows, 6)), columns=[f"x{i}" for i in range(6)])
    kind = random.integers(8, size=rows)
    effect = np.linspace(-1, 1, 8)
    signal = np.sin(2 * x["x0"]) + x["x1"] * x["x2"] + 0.5 * x["x3"] + effect[kind]
    x["kind"] = np.array([f"kind {i}" for i in range(8)])[kind]
    return x, signal.to_numpy() / 1.47


def lognormal(random: np.random.Generator, rows: int) -> tuple[pd.DataFrame, Array]:
    """Logarithms of targets have a deviation of 2, and columns tell two thirds of the variance."""
    x, signal = columns(random, rows)
    noise = random.normal(size=rows)
    return x, np.exp(2 * (np.sqrt(2 / 3) * signal + np.sqrt(1 / 3) * noise))


def hundredfold(random: np.random.Generator, rows: int) -> tuple[pd.DataFrame, Array]:
    """Three in a hundred rows have a hundred times their target, and nothing tells which."""
    x, signal = columns(random, rows)
    y = np.exp(0.5 * signal + 0.3 * random.normal(size=rows))
    return x, np.where(random.random(rows) < 0.03, 100 * y, y)


def named(random: np.random.Generator, rows: int) -> tuple[pd.DataFrame, Array]:
    """Most of the hundredfold targets are those of two towns of forty."""
    x, signal = columns(random, rows)
    town = random.integers(40, size=rows)
    y = np.exp(0.5 * signal + 0.5 * random.normal(size=rows))
    chance = np.where(town < 2, 0.7, 0.002)
    x["town"] = np.array([f"town {i}" for i in range(40)])[town]
    return x, np.where(random.random(rows) < chance, 100 * y, y)


def pareto(random: np.random.Generator, rows: int) -> tuple[pd.DataFrame, Array]:
    """Targets have no variance: beyond a scale that columns tell they fall with the power 1.5."""
    x, signal = columns(random, rows)
    return x, np.exp(0.7 * signal) * (1 + random.pareto(1.5, size=rows))


def wrong_decimals(random: np.random.Generator, rows: int) -> tuple[pd.DataFrame, Array]:
    """One in a hundred targets was written ten or a hundred times too large, or too small."""
    x, signal = columns(random, rows)
    y = 20 + 5 * signal + 2 * random.normal(size=rows)
    wrong = random.choice([0.01, 0.1, 10.0, 100.0], size=rows)
    return x, np.where(random.random(rows) < 0.01, y * wrong, y)


KINDS: dict[str, Callable[[np.random.Generator, int], tuple[pd.DataFrame, Array]]] = {
    "lognormal": lognormal,
    "hundredfold rows": hundredfold,
    "named outliers": named,
    "Pareto": pareto,
    "wrong decimal points": wrong_decimals,
}


def simulated(kind: str, number: int) -> Split:
    """Training and test rows of one table."""
    rows = ROWS[number]
    x, y = KINDS[kind](np.random.default_rng(number), rows + TEST_ROWS)
    return Split(x[:rows], y[:rows], x[rows:], y[rows:])


# Errors


def errors(forecast: peers.Forecast, y: Array) -> dict[str, float]:
    """MAE and RMSE of the mean, and the MAE of the median where there is one."""
    assert forecast.mean is not None
    error = forecast.mean - y
    found = {"mae": float(np.abs(error).mean()), "rmse": float(np.sqrt(np.square(error).mean()))}
    if forecast.quantiles is not None:
        median = forecast.quantiles[:, np.searchsorted(peers.LEVELS, 0.5)]
        found["median_mae"] = float(np.abs(median - y).mean())
    return found


def recorded() -> list[Record]:
    """All records so far."""
    return json.loads(RESULT.read_text()) if RESULT.exists() else []


def add(record: Record) -> None:
    """Keep a record, in the place of an older one."""
    others = [other for other in recorded() if _key(other) != _key(record)]
    text = ",\n".join(json.dumps(each) for each in sorted([*others, record], key=_key))
    RESULT.write_text(f"[\n{text}\n]\n")


def _key(record: Record) -> tuple[str, int, str]:
    return record["kind"], record["table"], record["method"]


def main() -> None:
    """Fit what is not recorded yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", action="append", choices=METHODS)
    parser.add_argument("--again", action="store_true", help="replace what is recorded")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    known = set() if chosen.again else {_key(record) for record in recorded()}
    for method in chosen.method or METHODS:
        for kind in KINDS:
            for number in range(len(ROWS)):
                if (kind, number, method) not in known:
                    split = simulated(kind, number)
                    found = errors(METHODS[method](split, number), split.y_test)
                    add({"kind": kind, "table": number, "method": method} | found)


if __name__ == "__main__":
    main()
