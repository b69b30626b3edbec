"""How fast fitted models predict, beside LightGBM with 500 trees in the same run.

    make bench        prints the table and writes results/prediction_speed.json

All models learn from the same 10 000 rows of 20 columns and predict 10 000 others, on one thread.
Times are the processor's, because other work on the machine then counts less. The contestants take
turns in short blocks, of which the fastest counts; for one row the median call of a block does.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from softbins import HistogramRegressor

ROWS, COLUMNS = 10_000, 20
BLOCKS = 7
CALLS_OF_A_BLOCK = 40  # for one row
RECORD = Path(__file__).parent.parent / "results" / "prediction_speed.json"
STARTS = {
    "import torch": "import torch",
    "import torch, sklearn.base": "import torch, sklearn.base",
    "HistogramRegressor": "from softbins import HistogramRegressor",
}

Predict = Callable[[Any], Any]


def table(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Steps, products, waves and noise in the first seven columns, nothing in the others."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(rows, COLUMNS))
    smooth = np.sin(2 * x[:, 0]) * x[:, 1] + 0.5 * x[:, 4] * x[:, 5] + np.abs(x[:, 3])
    steps = 2 * (x[:, 2] > 0.3) + np.floor(x[:, 6])
    return x, smooth + steps + 0.5 * generator.normal(size=rows)


def contestants(x: np.ndarray, y: np.ndarray) -> dict[tuple[str, str], Predict]:
    """Functions that predict, by the model and what they predict."""
    import lightgbm

    trees = lightgbm.LGBMRegressor(n_estimators=500, n_jobs=1, verbose=-1).fit(x, y)
    found: dict[tuple[str, str], Predict] = {("LightGBM 500", "means"): trees.predict}
    chosen: dict[str, dict[str, Any]] = {
        "softbins": {},
        "softbins fast": {"preset": "fast"},
        "softbins fast, no trees": {"preset": "fast", "trees": False},
    }
    for name, options in chosen.items():
        model = HistogramRegressor(random_state=0, **options).fit(x, y)
        found |= {(name, "means"): model.predict, (name, "intervals"): model.predict_interval}
        print(f"{name}: {model.network_.members} networks, {_trees(model)} trees", flush=True)
    return found


def _trees(model: HistogramRegressor) -> int:
    return 0 if model.forest_ is None else len(model.forest_.roots)


def seconds(call: Callable[[], Any]) -> float:
    """Processor seconds of a call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def measure(found: dict[tuple[str, str], Predict], x: np.ndarray) -> list[dict[str, Any]]:
    """Predictions in a second, and milliseconds for one row."""
    many = dict.fromkeys(found, float("inf"))
    single = dict.fromkeys(found, float("inf"))
    for _ in range(BLOCKS):
        for key, predict in found.items():
            many[key] = min(many[key], seconds(lambda f=predict: f(x)))
            calls = [seconds(lambda f=predict: f(x[:1])) for _ in range(CALLS_OF_A_BLOCK)]
            single[key] = min(single[key], statistics.median(calls))
    return [
        {
            "model": model,
            "what": what,
            "rows_per_second": round(len(x) / many[model, what]),
            "one_row_milliseconds": round(1e3 * single[model, what], 3),
        }
        for model, what in found
    ]


def starts() -> dict[str, float]:
    """Processor seconds until a new process has imported each of these, at best."""
    return {name: min(_start(code) for _ in range(5)) for name, code in STARTS.items()}


def _start(code: str) -> float:
    ending = "; import time; print(time.process_time())"
    done = subprocess.run(
        [sys.executable, "-c", code + ending], capture_output=True, text=True, check=True
    )
    return round(float(done.stdout), 2)


def main() -> None:
    torch.set_num_threads(1)
    found = contestants(*table(ROWS, seed=0))
    rows, started = measure(found, table(ROWS, seed=1)[0]), starts()
    for row in rows:
        print(" ".join(f"{value!s:>24}" for value in row.values()))
    print(started)
    RECORD.write_text(json.dumps({"rows": rows, "starts": started}, indent=2) + "\n")
    print(f"written to {RECORD.relative_to(Path.cwd())}")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
