"""Run both programs of examples/rl with every value head, on both environments, with five seeds.

    python run.py [--processes N] [--head NAME ...] [--algorithm NAME ...] [--env NAME ...]

A run that is finished is kept in --store and not repeated, so that the queue can be broken off and
resumed. One seed of everything comes before the next one. `summary.py` makes the table and figure.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
STEPS = {"dqn": 50_000, "ppo": 100_000}
ENVIRONMENTS = ("CartPole-v1", "Acrobot-v1")
HEADS = ("l2", "two-hot", "hl-gauss", "hl-gauss-symlog", "hl-gauss-moving")
SEEDS = range(5)

sys.path.insert(0, str(ROOT / "examples" / "rl"))
os.environ["OMP_NUM_THREADS"] = "1"


class Run(NamedTuple):
    """One training of one program."""

    algorithm: str
    env: str
    head: str
    seed: int

    @property
    def file_name(self) -> str:
        """The name of its record."""
        return "-".join(map(str, self)) + ".json"

    def arguments(self, out: Path) -> list[str]:
        """What its program is called with."""
        choice = ["--env", self.env, "--head", self.head, "--seed", str(self.seed)]
        return [*choice, "--steps", str(STEPS[self.algorithm]), "--out", str(out)]


def plan(chosen: argparse.Namespace) -> list[Run]:
    """The runs that were asked for and are not in the store yet."""
    every = itertools.product(SEEDS, chosen.algorithm, chosen.env, chosen.head)
    runs = [Run(algorithm, env, head, seed) for seed, algorithm, env, head in every]
    return [run for run in runs if not (chosen.store / run.file_name).exists()]


def perform(run: Run, store: Path) -> None:
    """Run it, and keep its record once that is complete."""
    print(run.file_name, flush=True)
    unfinished = store / f"{run.file_name}.unfinished"
    importlib.import_module(run.algorithm).main(run.arguments(unfinished))
    unfinished.replace(store / run.file_name)


def arguments() -> argparse.Namespace:
    """The command line; what is not chosen is run in full."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", type=Path, default=ROOT / "results" / "rl")
    parser.add_argument("--processes", type=int, default=1, help="runs at the same time")
    parser.add_argument("--algorithm", nargs="+", choices=STEPS, default=list(STEPS))
    parser.add_argument("--env", nargs="+", choices=ENVIRONMENTS, default=ENVIRONMENTS)
    parser.add_argument("--head", nargs="+", choices=HEADS, default=HEADS)
    return parser.parse_args()


def main() -> None:
    """Run what is not in the store yet."""
    chosen = arguments()
    chosen.store.mkdir(parents=True, exist_ok=True)
    runs = plan(chosen)
    print(f"{len(runs)} runs to go", flush=True)
    with ProcessPoolExecutor(chosen.processes) as pool:
        list(pool.map(perform, runs, itertools.repeat(chosen.store)))


if __name__ == "__main__":
    main()
