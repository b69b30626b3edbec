"""Fit HistogramRegressor without each of its parts, on every table.

    python run.py --data FOLDER [--table NAME]... [--part NAME]... [--split N] [--again]

Results go to records.json beside this file, and what is there is not repeated unless --again asks
for it. Times are those of the processor, on one thread. `table.py` makes the table.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import time
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import tables
import torch
from variants import BY_NAME, Variant

from softbins import HistogramRegressor, scores

RECORDS = Path(__file__).parent / "records.json"
# Nominal coverages, among which the width at equal coverage is interpolated.
COVERAGES = (0.5, 0.6, 0.7, 0.75, 0.8, 0.84, 0.86, 0.88, 0.9, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98)

Record = dict[str, Any]


def main() -> None:
    """Fit what is not recorded yet, table by table."""
    chosen = _arguments()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for table in chosen.table or tables.NAMES:
        split = tables.split(*tables.load(chosen.data, table), chosen.split)
        for part in chosen.part or BY_NAME:
            key = table, chosen.split, part
            if chosen.again or key not in {_key(r) for r in recorded()}:
                record = judged(BY_NAME[part], split, chosen.split)
                add({"table": table, "split": chosen.split, "part": part} | record)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder with the tables")
    parser.add_argument("--table", action="append", choices=tables.NAMES)
    parser.add_argument("--split", type=int, default=0, help="which random split, 0 by default")
    parser.add_argument("--part", action="append", choices=BY_NAME)
    parser.add_argument("--again", action="store_true", help="replace what is recorded")
    return parser.parse_args()


def judged(variant: Variant, split: tables.Split, seed: int) -> Record:
    """Errors of one fit on the test rows, and its time."""
    start = time.process_time()
    with variant.in_place():
        model = variant.regressor(seed).fit(split.x, split.y)
    seconds = time.process_time() - start
    error = model.predict(split.x_test) - split.y_test
    return {
        "rows": len(split.y),
        "test_rows": len(split.y_test),
        "seconds": round(seconds, 2),
        "mae": float(np.abs(error).mean()),
        "rmse": float(np.sqrt(np.square(error).mean())),
        "crps": scores.crps(model.predict_distribution(split.x_test), split.y_test),
        "intervals": _intervals(model, split),
    }


def _intervals(model: HistogramRegressor, split: tables.Split) -> list[tuple[float, ...]]:
    """Nominal coverage, coverage and mean width of intervals, as far as held-out rows allow."""
    found = []
    for coverage in COVERAGES:
        try:
            low, high = model.predict_interval(split.x_test, coverage).T
        except ValueError:  # too few rows calibrate for so much
            break
        inside = (low <= split.y_test) & (split.y_test <= high)
        found.append((coverage, float(inside.mean()), float((high - low).mean())))
    return found


def recorded() -> list[Record]:
    """All records so far."""
    return json.loads(RECORDS.read_text()) if RECORDS.exists() else []


def add(record: Record) -> None:
    """Keep a record, in the place of an older one."""
    with RECORDS.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several runs may share the tables among them
        others = [other for other in recorded() if _key(other) != _key(record)]
        text = ",\n".join(json.dumps(each) for each in sorted([*others, record], key=_key))
        partial = RECORDS.with_suffix(".part")
        partial.write_text(f"[\n{text}\n]\n")
        partial.rename(RECORDS)


def _key(record: Record) -> tuple[str, int, str]:
    return record["table"], record["split"], record["part"]


if __name__ == "__main__":
    main()
