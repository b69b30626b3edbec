"""How time and memory of a fit grow with rows, columns, bins, members and jobs, beside LightGBM.

    python benchmarks/scale.py               measures what is not in results/scale.json yet
    python benchmarks/scale.py --axis rows   the same for one axis only (may be repeated)
    python benchmarks/scale.py --draw        draws results/scale.svg, for the page on large tables

Tables are simulated: ten columns matter, targets have noise, and a table has 10 000 rows of 10
columns where an axis does not say otherwise. Fits are of the fast preset, and LightGBM has 500
trees. Each fit is a process of its own with one thread for each job. Times are of the processor,
but for jobs those of a clock on the wall; memory is the peak beside the table itself. A record is
written after each fit: to go on is to repeat the command.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray
from peak_memory import PeakMemory

RESULTS = Path(__file__).parent.parent / "results"
AXES = {
    "rows": (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000),
    "columns": (10, 50, 200, 500),
    "bins": (32, 128, 512),
    "members": (2, 4, 8, 16),
    "jobs": (1, 2),
}
WITH_LIGHTGBM = ("rows", "columns")
ROWS, COLUMNS, RELEVANT = 10_000, 10, 10
METHODS = ("softbins", "LightGBM")

Record = dict[str, Any]


def simulated(rows: int, columns: int) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Waves, a product and steps of ten columns, and noise of half their deviation."""
    generator = np.random.default_rng(0)
    x = generator.standard_normal((rows, columns), dtype=np.float32)
    y = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + (x[:, 3] > 0.5) + 0.3 * x[:, 4:RELEVANT].sum(1)
    return x, y + generator.standard_normal(rows)


def fit(method: str, axis: str, value: int) -> Record:
    """One fit, in this process."""
    x, y = simulated(value if axis == "rows" else ROWS, value if axis == "columns" else COLUMNS)
    model = lightgbm() if method == "LightGBM" else softbins(axis, value)
    memory = PeakMemory()
    clock = time.perf_counter if axis == "jobs" else time.process_time
    start = clock()
    model.fit(x, y)
    seconds = clock() - start
    return {
        "axis": axis,
        "value": value,
        "method": method,
        "seconds": round(seconds, 2),
        "megabytes": memory.megabytes(),
        "load": round(os.getloadavg()[0], 1),
    }


def softbins(axis: str, value: int) -> Any:
    from softbins import HistogramRegressor

    model = HistogramRegressor(preset="fast", random_state=0)
    names = {"bins": "bins", "members": "members", "jobs": "n_jobs"}
    return model.set_params(**{names[axis]: value}) if axis in names else model


def lightgbm() -> Any:
    from lightgbm import LGBMRegressor

    return LGBMRegressor(n_estimators=500, learning_rate=0.05, n_jobs=1, verbose=-1)


# Running, recording, drawing


def measure(axes: list[str], path: Path) -> None:
    """All fits of some axes that the record does not have."""
    for axis in axes:
        for value in AXES[axis]:
            for method in METHODS if axis in WITH_LIGHTGBM else METHODS[:1]:
                rows = json.loads(path.read_text()) if path.exists() else []
                if not any(key(row) == (axis, value, method) for row in rows):
                    rows.append(in_own_process(method, axis, value))
                    rows.sort(key=lambda row: order(*key(row)))
                    path.write_text(json.dumps(rows, indent=1) + "\n")
                    print(rows[[key(row) for row in rows].index((axis, value, method))], flush=True)


def key(row: Record) -> tuple[str, int, str]:
    return row["axis"], row["value"], row["method"]


def order(axis: str, value: int, method: str) -> tuple[int, int, int]:
    return list(AXES).index(axis), value, METHODS.index(method)


def in_own_process(method: str, axis: str, value: int) -> Record:
    command = [sys.executable, __file__, "--one", method, axis, str(value)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: Record = json.loads(done.stdout.splitlines()[-1])
    return found


def draw(rows: list[Record], path: Path) -> None:
    """Seconds above, memory below, an axis beside the other."""
    import matplotlib.pyplot as plt

    from softbins._core.figures import style

    names = {"seconds": "seconds", "megabytes": "megabytes"}
    with style():
        figure, places = plt.subplots(
            2, len(AXES), figsize=(10, 4.4), sharey="row", layout="constrained"
        )
        for column, axis in zip(places.T, AXES, strict=True):
            for place, (quantity, label) in zip(column, names.items(), strict=True):
                for method, line in zip(METHODS, ("-o", "--s"), strict=True):
                    some = [r for r in rows if r["axis"] == axis and r["method"] == method]
                    values = [r["value"] for r in some]
                    place.plot(values, [r[quantity] for r in some], line, ms=3, label=method)
                place.set(xscale="log", yscale="log")
                if axis == "rows":
                    place.set_ylabel(label)
                else:  # few values, which powers of ten do not name
                    place.set_xticks(AXES[axis], [str(value) for value in AXES[axis]])
                    place.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
            column[1].set_xlabel(axis)
        places[0, 0].legend(fontsize=8)
        figure.savefig(path, metadata={"Date": None, "Creator": None})
        plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--axis", action="append", choices=AXES)
    parser.add_argument("--draw", action="store_true")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    path = RESULTS / "scale.json"
    if asked.one:
        method, axis, value = asked.one
        print(json.dumps(fit(method, axis, int(value))))
        return
    if not asked.draw:
        measure(asked.axis or list(AXES), path)
    draw(json.loads(path.read_text()), RESULTS / "scale.svg")


if __name__ == "__main__":
    main()
