"""A table that is trained from disk: its own memory, and its speed beside a table in memory.

    python benchmarks/large_table.py [ROWS] [MEGABYTES] [FOLDER]

Parquet files of so many rows with 20 columns are written to a folder (20 million, and a new
temporary folder), fitted from there within so many megabytes (1200), and deleted. Memory is what
belongs to the process alone (RssAnon): pages of mapped files are the system's, which takes them
back when it needs room. The training is cut after ten minutes: it takes no more memory later. How
many rows networks learn from in a second is measured with a million rows, from disk and in memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from softbins import HistogramRegressor

ROWS, FEATURES, MEGABYTES = 20_000_000, 20, 1200
ROWS_OF_A_FILE = 1_000_000
ROWS_FOR_SPEED = 1_000_000
SECONDS = 600
MOST_MEGABYTES, LEAST_SPEED = 2000, 0.85
LOOK_EVERY = 0.05  # seconds


def write_files(folder: Path, rows: int) -> None:
    for number, start in enumerate(range(0, rows, ROWS_OF_A_FILE)):
        x, y = some_rows(number, min(ROWS_OF_A_FILE, rows - start))
        columns = {f"x{i}": x[:, i] for i in range(FEATURES)} | {"y": y}
        name = folder / f"{number:04}.parquet"
        pq.write_table(pa.table(columns), name, row_group_size=100_000, use_dictionary=False)


def some_rows(seed: int, rows: int):
    generator = np.random.default_rng(seed)
    x = generator.standard_normal((rows, FEATURES), dtype=np.float32)
    y = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * generator.standard_normal(rows)
    return x, y


class OwnMemory(threading.Thread):
    """Watches how much memory belongs to this process alone."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0.0
        self.start()

    def run(self) -> None:
        """Look again and again."""
        while True:
            self.peak = max(self.peak, own_megabytes())
            time.sleep(LOOK_EVERY)


def own_megabytes() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1.024e-3 * int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


def fit(folder: str, megabytes: float) -> dict[str, float]:
    """The whole regressor, as far as it comes."""
    before, start, watch = own_megabytes(), time.process_time(), OwnMemory()
    model = HistogramRegressor(preset="fast", max_seconds=SECONDS, random_state=0)
    model.fit(folder, target="y", memory=1e6 * megabytes)
    return {
        "megabytes_before": before,
        "own_megabytes": watch.peak,
        "processor_seconds": time.process_time() - start,
        "epochs": model.n_epochs_,
        **model.provenance_.scores,
    }


def speed(folder: str) -> float:
    """Rows a processor second in the second epoch, from disk if there is a folder."""
    seconds: list[float] = []
    model = HistogramRegressor(members=2, max_epochs=2, trees=False, random_state=0)
    model.set_params(progress=lambda *epoch: seconds.append(time.process_time()))
    if folder:
        model.fit(folder, target="y")
    else:
        model.fit(*some_rows(0, ROWS_FOR_SPEED))
    return ROWS_FOR_SPEED / (seconds[1] - seconds[0])


def run(*arguments: str):
    """One of these in a process of its own."""
    command = [sys.executable, __file__, *arguments]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def main(rows: str = str(ROWS), megabytes: str = str(MEGABYTES), folder: str | None = None) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as place:
        write_files(Path(place), int(rows))
        found = run("fit", place, megabytes)
    small = "ok" if found["own_megabytes"] <= MOST_MEGABYTES else "MISSED"
    print(found)
    print(f"own memory {found['own_megabytes']:.0f} MB <= {MOST_MEGABYTES}  {small}", flush=True)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        write_files(Path(place), ROWS_FOR_SPEED)
        ratio = run("speed", place) / run("speed", "")
    fast = "ok" if ratio >= LEAST_SPEED else "MISSED"
    print(f"speed of a table in memory times {ratio:.2f} >= {LEAST_SPEED}  {fast}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["fit", folder, megabytes]:
            print(json.dumps(fit(folder, float(megabytes))))
        case ["speed", folder]:
            print(json.dumps(speed(folder)))
        case arguments:
            main(*arguments)
