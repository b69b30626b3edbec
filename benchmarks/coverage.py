"""What predicted quantiles hold: the share of new targets between them, beside what they promise.

    python benchmarks/coverage.py [--preset fast] [--repetitions 40] [--jobs 2]
    python benchmarks/coverage.py --data FOLDER         the tables of benchmarks/accuracy

Each simulated table is one of six kinds of noise, with 100, 300 or 2000 rows to learn from and 2000
to judge by. Where a value has a probability of its own, such as whole numbers have, no interval can
hold exactly 90%: the share of its probability that lies between the two levels counts then
(`scores.reliability`). All goes to results/coverage.json, one kind and size after the other.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray

from softbins import HistogramRegressor, scores

Array = NDArray[np.float64]

KINDS = ("even", "uneven", "heavy-tailed", "zero-inflated", "counts", "bimodal")
ROWS, NEW_ROWS = (100, 300, 2000), 2000
PRESETS = ("default", "fast")
LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)
MIN_TEST_ROWS = 500
RESULT = Path(__file__).parent.parent / "results" / "coverage.json"


def simulated(kind: str, rows: int, random: np.random.Generator) -> tuple[Array, Array]:
    """Features (rows, 4) and targets (rows,) with one of the kinds of noise."""
    x = random.uniform(-1, 1, (rows, 4))
    signal, noise = np.sin(3 * x[:, 0]) + x[:, 1] ** 2, random.normal(size=rows)
    if kind == "even":
        return x, signal + 0.5 * noise
    if kind == "uneven":
        return x, signal + (0.1 + 0.9 * (x[:, 2] > 0) * np.abs(x[:, 0])) * noise
    if kind == "heavy-tailed":
        return x, signal + 0.3 * random.standard_t(2, size=rows)
    if kind == "zero-inflated":
        is_zero = random.uniform(size=rows) < 0.6 - 0.2 * x[:, 2]
        return x, np.where(is_zero, 0.0, np.exp(signal + 0.5 * noise))
    if kind == "counts":
        return x, random.poisson(np.exp(signal)).astype(float)
    side = np.where(random.uniform(size=rows) < 0.5, 2, -2) * (x[:, 2] > -0.5)
    return x, signal + side + 0.2 * noise


def held(kind: str, rows: int, preset: str, repetition: int) -> Array:
    """The share of new targets at each level, after one fit to a table of its own."""
    random = np.random.default_rng([KINDS.index(kind), rows, repetition])
    x, y = simulated(kind, rows, random)
    model = HistogramRegressor(preset=preset, random_state=repetition).fit(x, y)
    x, y = simulated(kind, NEW_ROWS, random)
    return scores.reliability(model.predict_distribution(x), y, LEVELS).observed


def simulated_row(parallel: Any, kind: str, rows: int, preset: str, repetitions: int) -> Any:
    """The mean and its standard error over so many tables."""
    each = (joblib.delayed(held)(kind, rows, preset, number) for number in range(repetitions))
    found = np.stack(parallel(each))
    return {
        "noise": kind,
        "rows": rows,
        "preset": preset,
        "repetitions": repetitions,
        "held": found.mean(0).tolist(),
        "standard error": (found.std(0, ddof=1) / np.sqrt(repetitions)).tolist(),
    }


def table_row(folder: Path, name: str, preset: str) -> Any:
    """The same for a development or held-out table, or None if it has too few test rows."""
    sys.path.insert(0, str(Path(__file__).parent / "accuracy"))
    import data

    split = data.split(*data.load(folder, name), 0)
    if len(split.y_test) < MIN_TEST_ROWS:
        return None
    model = HistogramRegressor(preset=preset, random_state=0).fit(split.x, split.y)
    found = scores.reliability(model.predict_distribution(split.x_test), split.y_test, LEVELS)
    about = {"table": name, "is held out": name in data.HELDOUT, "test rows": len(split.y_test)}
    return about | {"preset": preset, "held": found.observed.tolist()}


def table_names() -> Sequence[str]:
    """The tables of benchmarks/accuracy."""
    sys.path.insert(0, str(Path(__file__).parent / "accuracy"))
    import data

    return (*data.NAMES, *data.HELDOUT)


def keep(part: str, row: dict[str, Any]) -> None:
    """Write a row to the record, in the place of what was measured before, and print it."""
    print(row, flush=True)
    record = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    same = [name for name in ("noise", "rows", "table", "preset") if name in row]
    others = [r for r in record.get(part, []) if any(r[name] != row[name] for name in same)]
    record = {"levels": LEVELS} | record | {part: [*others, row]}
    partial = RESULT.with_suffix(".part")
    partial.write_text(json.dumps(record, indent=1) + "\n")
    partial.rename(RESULT)


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", action="append", choices=PRESETS)
    parser.add_argument("--repetitions", type=int, default=40, help="tables of each kind")
    parser.add_argument("--rows", action="append", type=int, choices=ROWS)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--data", type=Path, help="folder of the tables of benchmarks/accuracy")
    chosen = parser.parse_args()
    parallel = joblib.Parallel(chosen.jobs)
    for preset in chosen.preset or PRESETS:
        if chosen.data:
            each = (joblib.delayed(table_row)(chosen.data, name, preset) for name in table_names())
            for row in filter(None, parallel(each)):
                keep("tables", row)
            continue
        for rows in chosen.rows or ROWS:
            for kind in KINDS:
                row = simulated_row(parallel, kind, rows, preset, chosen.repetitions)
                keep("simulated", row)


if __name__ == "__main__":
    main()
