"""Peak memory of fitting large tables, over what the caller holds already.

    python benchmarks/memory.py

The regressor for tables learns from three million rows of 20 columns: its peak is to be at most
2.2 times the features in float32 and 0.7 GB for all else. The paper's network learns from a table
as large as Song Year: memory is to grow with the batch there, not with rows times bins, which
alone would take 185 MB. Each table has a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from softbins import HistogramRegressor, NeuralRegressor

ROWS, FEATURES = 3_000_000, 20
MOST_COPIES, REST = 2.2, 700  # of the features in float32, and megabytes beside them
SECONDS = 100  # after which the regressor stops, with what it has reached
SONG_ROWS, SONG_FEATURES = 463_715, 90
SONG_LIMIT = 1200  # MB over the data itself
CASES = ("float32", "float64", "song")


def megabytes(what: str) -> float:
    """A line of this process's status, such as VmRSS (now) or VmHWM (the peak so far)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1.024e-3 * next(int(line.split()[1]) for line in lines if line.startswith(what))


def fit_table(dtype: str) -> None:
    generator = np.random.default_rng(0)
    x = generator.standard_normal((ROWS, FEATURES), dtype=np.float32).astype(dtype, copy=False)
    y = np.sin(x[:, 0]).astype(np.float64) + 0.1 * generator.standard_normal(ROWS)
    model = HistogramRegressor(preset="fast", max_seconds=SECONDS, random_state=0)
    limit = MOST_COPIES * 4e-6 * ROWS * FEATURES + REST
    measure(model, x, y, limit, f"{ROWS} x {FEATURES} in {dtype}")


def fit_song() -> None:
    generator = np.random.default_rng(0)
    x = generator.standard_normal((SONG_ROWS, SONG_FEATURES))
    y = 1922 + 89 * generator.random(SONG_ROWS)
    model = NeuralRegressor("hl-gaussian", (45,) * 4, max_epochs=1, random_state=0)
    measure(model, x, y, SONG_LIMIT, f"{SONG_ROWS} x {SONG_FEATURES}, plain network")


def measure(model, x, y, limit: float, name: str) -> None:
    before = megabytes("VmRSS")
    model.fit(x, y)
    peak = megabytes("VmHWM") - before
    kept = "ok" if peak <= limit else "MISSED"
    print(
        f"{name}: data {x.nbytes / 1e6:.0f} MB, peak of fit {peak:.0f} MB  <= {limit:.0f}  {kept}"
    )


def main() -> None:
    match sys.argv[1:]:
        case ["song"]:
            fit_song()
        case [dtype]:
            fit_table(dtype)
        case _:
            for case in CASES:
                subprocess.run([sys.executable, __file__, case], check=True)


if __name__ == "__main__":
    main()
