"""How much faster a fit is with several jobs, trees and calibration included.

    python benchmarks/jobs.py --data folder      prints the table, writes results/jobs.json
    --jobs 1,2,4                                 the numbers of jobs (1,2)
    --tables bike,kin40k                         some of the tables
    --repeats 1                                  fits of each, of which the fastest counts (2)

`folder` has bike/hour.csv and bench/kin40k, as scripts/ and docs/measurements.md say; without it
tables of the same size are simulated. Each fit is a process of its own, pinned to as many cores as
it has jobs. Wall time is that of `fit` alone. On a machine with other work it says little, so that
the record also has the load and the processor's seconds: of all processes, where as many for two
jobs as for one mean that nothing waits busily and nothing is computed twice, and of the main thread
alone, which the jobs cannot share.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

TABLES = {"bike": (13_903, 12), "kin40k": (36_000, 8), "500 rows": (500, 10)}
RECORD = Path(__file__).parent.parent / "results" / "jobs.json"
LIMITS = {"bike": 1.8, "kin40k": 1.8, "500 rows": 1.0}  # two jobs, as times faster than one


def simulated(rows: int, columns: int) -> tuple[Any, Any]:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(rows, columns))
    smooth = x[:, 0] * x[:, 1] + np.sin(3 * x[:, 2])
    return x, smooth + 0.3 * generator.normal(size=rows)


def table(name: str, folder: Path | None) -> tuple[Any, Any]:
    """A table by its name: from the folder, or simulated at the same size."""
    if folder is not None and name == "bike":
        import pandas as pd

        frame = pd.read_csv(folder / "bike" / "hour.csv").iloc[: TABLES[name][0]]
        unused = ["instant", "dteday", "casual", "registered", "cnt"]
        return frame.drop(columns=unused).to_numpy(float), frame["cnt"].to_numpy(float)
    if folder is not None and name == "kin40k":
        found = sorted((folder / "bench" / "kin40k").glob("*.csv*"))
        if found:
            import pandas as pd

            values = pd.read_csv(found[0]).to_numpy(float)[: TABLES[name][0]]
            return values[:, :-1], values[:, -1]
    return simulated(*TABLES[name])


def measure(name: str, jobs: int, folder: Path | None) -> dict[str, float]:
    """One fit, in this process."""
    import warnings

    from softbins import HistogramRegressor

    os.sched_setaffinity(0, set(range(min(jobs, os.cpu_count() or 1))))
    warnings.simplefilter("ignore")
    x, y = table(name, folder)
    HistogramRegressor(hidden=(4,), members=2, max_epochs=1, n_jobs=jobs).fit(x[:100], y[:100])
    clocks = {
        "wall": time.perf_counter,
        "processor": lambda: sum(os.times()[:4]),  # of this process and of those that have ended
        "main_thread": time.thread_time,
    }
    start = {name: clock() for name, clock in clocks.items()}
    model = HistogramRegressor(random_state=0, n_jobs=jobs).fit(x, y)
    taken = {name: clock() - start[name] for name, clock in clocks.items()}
    return taken | {"check": float(model.predict(x[:100]).sum())}


def in_own_process(name: str, jobs: int, data: str | None) -> dict[str, float]:
    command = [sys.executable, __file__, "--one", name, "--jobs", str(jobs)]
    command += ["--data", data] if data else []
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data")
    parser.add_argument("--jobs", default="1,2")
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    folder = Path(asked.data) if asked.data else None
    if asked.one:
        print(json.dumps(measure(asked.one, int(asked.jobs), folder)))
        return
    rows = []
    for name in asked.tables.split(","):
        for jobs in map(int, asked.jobs.split(",")):
            found = [in_own_process(name, jobs, asked.data) for _ in range(asked.repeats)]
            best = min(found, key=lambda each: each["wall"])
            rows.append({"table": name, "jobs": jobs, "load": os.getloadavg()[0], **best})
            first = next(row for row in rows if row["table"] == name)
            if best["check"] != first["check"]:
                raise SystemExit(f"{name}: {jobs} jobs predict something else")
            faster = first["wall"] / best["wall"]
            print(
                f"{name:8s} {jobs} jobs: {best['wall']:.1f} s, {faster:.2f} times as fast; "
                f"processor {best['processor']:.1f} s, main thread {best['main_thread']:.1f} s; "
                f"load {rows[-1]['load']:.1f}",
                flush=True,
            )
    about = {"cores": os.cpu_count(), "machine": platform.machine(), "simulated": folder is None}
    RECORD.write_text(json.dumps(about | {"limits": LIMITS, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
