"""Peak memory of fitting large tables, over what the caller holds already.

    python benchmarks/memory.py [float32 | float64 | song | csv]

The regressor for tables learns from three million rows of 20 columns: its peak is to be at most
2.2 times the features in float32 and 0.7 GB for all else. The paper's network learns from a table
as large as Song Year: memory is to grow with the batch there, not with rows times bins, which
alone would take 185 MB. And the command line learns from 315 MB of CSV, with all cores, and
predicts them: its whole process is to take at most 4 times the numbers in the file as float64.
Each table has a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from peak_memory import PeakMemory

from softbins import HistogramRegressor, NeuralRegressor

ROWS, FEATURES = 3_000_000, 20
MOST_COPIES, REST = 2.2, 700  # of the features in float32, and megabytes beside them
SONG_ROWS, SONG_FEATURES = 463_715, 90
SONG_LIMIT = 1200  # MB over the data itself
CSV_ROWS, CSV_FEATURES, MOST_TIMES_THE_NUMBERS = 1_600_000, 20, 4
CASES = ("float32", "float64", "song", "csv")


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


def write_csv(path: str) -> None:
    generator = np.random.default_rng(0)
    x = generator.standard_normal((CSV_ROWS, CSV_FEATURES))
    y = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + generator.standard_normal(CSV_ROWS)
    pd.DataFrame(x.round(6)).add_prefix("x").assign(y=y.round(6)).to_csv(path, index=False)


def run_commands() -> None:
    """The peak of `softbins fit` and `softbins predict` on a large CSV file.

    The file is written elsewhere: Linux counts what a process has when it starts another one as the
    memory of the new one.
    """
    with tempfile.TemporaryDirectory() as folder:
        data, model, output = (Path(folder, name) for name in ("x.csv", "model", "y.csv"))
        subprocess.run([sys.executable, __file__, "write", data], check=True)
        limit = MOST_TIMES_THE_NUMBERS * 8e-6 * CSV_ROWS * (CSV_FEATURES + 1)
        for preset in ("fast", "default"):
            fit = ["fit", data, "--target", "y", "-o", model, "--force", "--preset", preset]
            say(f"fit --preset {preset}, {data.stat().st_size / 1e6:.0f} MB of CSV", fit, limit)
        say("predict", ["predict", model, data, "-o", output], limit)


def say(name: str, command: list[str | Path], limit: float) -> None:
    """Run a command and print the peak of its memory."""
    with subprocess.Popen([sys.executable, "-m", "softbins", *command]) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    peak = 1.024e-3 * used.ru_maxrss
    kept = "ok" if peak <= limit and process.returncode == 0 else "MISSED"
    print(f"softbins {name}: peak {peak:.0f} MB  <= {limit:.0f}  {kept}")


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
        case ["csv"]:
            run_commands()
        case ["write", path]:
            write_csv(path)
        case [dtype]:
            fit_table(dtype)
        case _:
            for case in CASES:
                subprocess.run([sys.executable, __file__, case], check=True)


if __name__ == "__main__":
    main()
