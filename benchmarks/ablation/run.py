"""Fit HistogramRegressor without each of its parts, on every table.

    python run.py --data FOLDER [--table NAME]... [--part NAME]... [--split N] [--again]

Results go to records.json beside this file, and what is there is not repeated unless --again asks
for it. Times are those of the processor, on one thread, of fits that share nothing with another.
`table.py` makes the table.
"""

from __future__ import annotations

import argparse
import copy
import fcntl
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import tables
import torch
from variants import BY_NAME, NOTHING, STAGES, Variant

from softbins import HistogramRegressor, scores
from softbins.tabular import fit

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
        stages = Stages()
        for part in _due(chosen, table):
            record = judged(BY_NAME[part], split, chosen.split, stages)
            add({"table": table, "split": chosen.split, "part": part} | record)


def _due(chosen: argparse.Namespace, table: str) -> list[str]:
    """The parts that are not recorded yet; first the whole, if others keep what it finds."""
    known = set() if chosen.again else {_key(record) for record in recorded()}
    parts = [p for p in chosen.part or BY_NAME if (table, chosen.split, p) not in known]
    if any(BY_NAME[part].keeps for part in parts) and NOTHING not in parts:
        return [NOTHING, *parts]
    return parts


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder with the tables")
    parser.add_argument("--table", action="append", choices=tables.NAMES)
    parser.add_argument("--split", type=int, default=0, help="which random split, 0 by default")
    parser.add_argument("--part", action="append", choices=BY_NAME)
    parser.add_argument("--again", action="store_true", help="replace what is recorded")
    return parser.parse_args()


class Stages:
    """What each stage of the whole regressor's fit has found, for variants that keep some of it."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}

    @contextmanager
    def in_place(self, variant: Variant) -> Iterator[None]:
        """Inside, a fit of the whole is remembered, and one of a variant finds what it keeps."""
        watched = {name: self._remembered(name) for name in STAGES if variant.name == NOTHING}
        given = {name: self._given(name) for name in variant.keeps}
        with ExitStack() as stack:
            for name, function in (watched | given).items():
                stack.enter_context(patch.object(fit, name, function))
            yield

    def _remembered(self, name: str) -> Callable[..., Any]:
        function = getattr(fit, name)

        def remembered(*arguments: Any) -> Any:
            found = function(*arguments)
            self.found[name] = copy.deepcopy(found)
            return found

        return remembered

    def _given(self, name: str) -> Callable[..., Any]:
        return lambda *_: copy.deepcopy(self.found[name])


def judged(variant: Variant, split: tables.Split, seed: int, stages: Stages) -> Record:
    """Errors of one fit on the test rows, and its time."""
    start = time.process_time()
    with variant.in_place(), stages.in_place(variant):
        model = variant.regressor(seed).fit(split.x, split.y)
    seconds = time.process_time() - start
    error = model.predict(split.x_test) - split.y_test
    return {
        "rows": len(split.y),
        "test_rows": len(split.y_test),
        "seconds": None if variant.keeps else round(seconds, 2),
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
