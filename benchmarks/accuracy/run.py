"""Fit every peer and softbins on every table and split, each in a process of its own.

    python run.py --data FOLDER [--set NAME] [--method NAME]... [--table NAME]... [--split N]...

What is finished is kept in --store and not repeated, so that a run can be broken off. Times are
those of the processor on one core, so that other work on the machine does not count; libraries have
been loaded before, by a fit to a few rows. A fit is ended after --minutes and recorded as capped.
`table.py` makes the table.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import resource
import signal
import time
from pathlib import Path
from typing import Any

import data
import numpy as np
import ours
import peers

WARM_UP = 50  # rows
METHODS = {**peers.PEERS, **ours.METHODS}


def main() -> None:
    """Run what is not in the store yet."""
    chosen = _arguments()
    chosen.store.mkdir(parents=True, exist_ok=True)
    for seed, method, table in _plan(chosen):
        path = chosen.store / f"{_file_name(method)}-{table}-{seed}.npz"
        if not path.exists():
            _one(path, method, table, seed, chosen)


def _plan(chosen: argparse.Namespace) -> list[tuple[int, str, str]]:
    """Split, method and table of every fit: one split of all tables after the other."""
    methods, tables = chosen.method or METHODS, chosen.table or data.SETS[chosen.set]
    splits = {table: chosen.split or range(data.n_splits(chosen.data, table)) for table in tables}
    seeds = sorted(set().union(*splits.values()))
    return [(s, method, t) for s in seeds for method in methods for t in tables if s in splits[t]]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder with the tables")
    parser.add_argument("--store", type=Path, default=Path("build/accuracy"))
    parser.add_argument("--method", action="append", choices=METHODS)
    parser.add_argument("--set", choices=data.SETS, default="development", help="of tables")
    tables = [name for names in data.SETS.values() for name in names]
    parser.add_argument("--table", action="append", choices=tables, help="instead of a set")
    parser.add_argument(
        "--split", action="append", type=int, help="0, 1 and 2, small tables 3 and 4 too"
    )
    parser.add_argument("--minutes", type=float, default=15.0)
    return parser.parse_args()


def _file_name(method: str) -> str:
    return method.lower().replace(" ", "_")


def _one(path: Path, method: str, table: str, seed: int, chosen: argparse.Namespace) -> None:
    about = {"method": method, "table": table, "split": seed}
    process = multiprocessing.get_context("fork").Process(target=_fit, args=(path, about, chosen))
    process.start()
    process.join()
    if process.exitcode == -signal.SIGXCPU:
        _write(path, about | {"capped": chosen.minutes}, {})
    elif process.exitcode:
        print(f"{method} on {table}, split {seed}: failed", flush=True)
        return
    seconds = json.loads(str(np.load(path)["about"])).get("seconds")
    took = "capped" if seconds is None else seconds
    print(f"{method} on {table}, split {seed}: {took}", flush=True)


def _fit(path: Path, about: dict[str, Any], chosen: argparse.Namespace) -> None:
    import torch

    torch.set_num_threads(1)
    split = data.split(*data.load(chosen.data, about["table"]), about["split"])
    _warm_up(about, split)
    limit = math.ceil(time.process_time() + 60 * chosen.minutes)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 60))
    start = time.process_time()
    forecast = METHODS[about["method"]](split, about["split"])
    about["seconds"] = round(time.process_time() - start, 1)
    # In float64: the ends of an interval of whole numbers are targets, and have to hold them.
    arrays = {name: np.float64(v) for name, v in forecast._asdict().items() if v is not None}
    _write(path, about, arrays | {"y": split.y_test})


def _warm_up(about: dict[str, Any], split: data.Split) -> None:
    METHODS[about["method"]](data.Split(*(part[:WARM_UP] for part in split)), about["split"])
    about["warm"] = True


def _write(path: Path, about: dict[str, Any], arrays: dict[str, Any]) -> None:
    partial = path.with_suffix(".part")
    with partial.open("wb") as file:
        np.savez(file, about=json.dumps(about), **arrays)
    partial.rename(path)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
