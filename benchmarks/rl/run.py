"""Run both programs of examples/rl with every value head, on both environments, with five seeds.

    python run.py [--processes N] [--head NAME ...] [--algorithm NAME ...] [--env NAME ...]

A run that is finished is kept in --store and not repeated, so that the queue can be broken off and
resumed. One seed of everything comes before the next one. `summary.py` makes the table and figure.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
STEPS = {"dqn": 50_000, "ppo": 100_000}
ENVIRONMENTS = ("CartPole-v1", "Acrobot-v1")
HEADS = ("l2", "two-hot", "hl-gauss", "hl-gauss-symlog", "hl-gauss-moving")
SEEDS = range(5)


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

    def command(self, out: Path) -> list[str]:
        """What runs it in a process of its own."""
        program = ROOT / "examples" / "rl" / f"{self.algorithm}.py"
        choice = ["--env", self.env, "--head", self.head, "--seed", str(self.seed)]
        steps = ["--steps", str(STEPS[self.algorithm])]
        return [sys.executable, str(program), *choice, *steps, "--out", str(out)]


def plan(chosen: argparse.Namespace) -> list[Run]:
    """The runs that were asked for and are not in the store yet."""
    every = itertools.product(SEEDS, chosen.algorithm, chosen.env, chosen.head)
    runs = [Run(algorithm, env, head, seed) for seed, algorithm, env, head in every]
    return [run for run in runs if not (chosen.store / run.file_name).exists()]


def perform(run: Run, store: Path) -> None:
    """Run it, and keep its record once that is complete."""
    unfinished = store / f"{run.file_name}.unfinished"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        run.command(unfinished), env=environment, check=True, capture_output=True, text=True
    )
    unfinished.replace(store / run.file_name)
    print(run.file_name, *done.stdout.splitlines(), sep="; ", flush=True)


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
    with ThreadPoolExecutor(chosen.processes) as pool:
        list(pool.map(lambda run: perform(run, chosen.store), runs))


if __name__ == "__main__":
    main()
