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

import numpy as np
from peak_memory import PeakMemory

from softbins import HistogramRegressor, NeuralRegressor

ROWS, FEATURES = 3_000_000, 20
MOST_COPIES, REST = 2.2, 700  # of the features in float32, and megabytes beside them
SONG_ROWS, SONG_FEATURES = 463_715, 90
SONG_LIMIT = 1200  # MB over the data itself
CASES = ("float32", "float64", "song")


def fit_table(dtype: str) -> None:
    generator = np.random.default_rng(0)
    x = generator.standard_normal((ROWS, FEATURES), dtype=np.float32).astype(dtype, copy=False)
    y = np.sin(x[:, 0]).astype(np.float64) + 0.1 * generator.standard_normal(ROWS)
    model = HistogramRegressor(preset="fast", random_state=0)
    limit = MOST_COPIES * 4e-6 * ROWS * FEATURES + REST
    measure(model, x, y, limit, f"{ROWS} x {FEATURES} in {dtype}")


def fit_song() -> None:
    generator = np.random.default_rng(0)
    x = generator.standard_normal((SONG_ROWS, SONG_FEATURES))
    y = 1922 + 89 * generator.random(SONG_ROWS)
    model = NeuralRegressor("hl-gaussian", (45,) * 4, max_epochs=1, random_state=0)
    measure(model, x, y, SONG_LIMIT, f"{SONG_ROWS} x {SONG_FEATURES}, plain network")


def measure(model, x, y, limit: float, name: str) -> None:
    memory = PeakMemory()
    model.fit(x, y)
    peak = memory.megabytes()
    kept = "ok" if peak <= limit else "MISSED"
    print(f"{name}: data {x.nbytes / 1e6:.0f} MB, peak of fit {peak} MB  <= {limit:.0f}  {kept}")


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
