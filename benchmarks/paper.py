"""What the paper costs: `make bench-paper` writes results/paper_cost.json.

Two parts. The paper's four methods on Bike Sharing, 5 runs of 500 epochs without early stopping,
with one worker and with two. And what every table would cost on CT Position and Song Year:
seconds for an epoch of a stack of five, measured on the simulated stand-ins, times the epochs
that the plan has.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from softbins.paper.data.datasets import load_dataset
from softbins.paper.run.plan import ARTEFACTS, SCALES, Run, artefact_runs, method_runs
from softbins.paper.run.stacks import make_stacks
from softbins.paper.run.store import Store
from softbins.paper.run.training import StackTraining
from softbins.paper.run.workers import run_all

RESULT = Path(__file__).parent.parent / "results" / "paper_cost.json"
FOUR = ("l2", "hl-gaussian", "hl-onebin", "l2-softmax")
PAPER = SCALES["paper"]


def bike_seconds(workers: int, epochs: int = 500) -> float:
    """Wall-clock seconds of the four methods from an empty store."""
    runs = [
        replace(run, patience=None, epochs=epochs)
        for method in FOUR
        for run in method_runs("bike", method, PAPER)
    ]
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        run_all(runs, Store(folder), workers=workers)
        return time.perf_counter() - start


def epoch_seconds(stack: tuple[Run, ...]) -> float:
    """Seconds for an epoch of a stack, from a few steps; the best of three."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = StackTraining(stack, Store(folder), load_dataset(stack[0].dataset)).trainer
        batches = trainer._batches()
        trainer.network.train()
        count = min(trainer.steps - 1, 20)

        def some() -> None:
            for _ in range(count):
                trainer._step(*next(batches))

        some()
        seconds = min(_timed(some) for _ in range(3) if trainer.steps > 4 * count)
        return seconds / count * trainer.steps


def _timed(call: Callable[[], None]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def core_hours(dataset: str, artefact: Any) -> float:
    """Predicted for all runs of an artefact; stacks that differ in a number only cost the same."""
    known: dict[Any, float] = {}
    total = 0.0
    for stack in make_stacks(artefact_runs(artefact, dataset, PAPER)):
        run = stack[0]
        if run.method == "linear":
            continue
        alike = replace(run, seed=0, parameters=_sized(run), representation="default", curves=False)
        key = (alike.method, alike.parameters, alike.hidden, alike.dropout, len(stack))
        if key not in known:
            members = tuple(replace(alike, seed=member.seed, held_out=False) for member in stack)
            known[key] = epoch_seconds(members)
        total += known[key] * run.epochs
    return total / 3600


def _sized(run: Run) -> Any:
    """The parameters that change the size of the network."""
    return tuple((name, value) for name, value in run.parameters if name in ("bins", "components"))


def main() -> None:
    """Measure and write."""
    torch.set_num_threads(1)
    record: dict[str, Any] = {"cores": os.cpu_count(), "bike": {}, "core_hours": {}}
    for workers in (2, 1):
        record["bike"][f"workers_{workers}"] = bike_seconds(workers)
        print(record["bike"], file=sys.stderr, flush=True)
    record["bike"]["speedup"] = record["bike"]["workers_1"] / record["bike"]["workers_2"]
    for dataset in ("ct-simulated", "song-simulated"):
        hours = {}
        for artefact in ARTEFACTS:
            if artefact_runs(artefact, dataset, PAPER):
                hours[artefact] = core_hours(dataset, artefact)
                print(dataset, artefact, f"{hours[artefact]:.1f} h", file=sys.stderr, flush=True)
        record["core_hours"][dataset] = hours
    RESULT.write_text(json.dumps(record, indent=2) + "\n")
    print(f"wrote {RESULT.name}")


if __name__ == "__main__":
    main()
