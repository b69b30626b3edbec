"""Run what a plan lists: stacks of runs, on this machine's cores or on a Dask cluster.

Repeating the command is how to resume: what is in the store is skipped, and a stack that was
interrupted goes on from its last checkpoint.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import joblib

from softbins._extras import optional_import
from softbins.paper.data.datasets import original_name
from softbins.paper.run.plan import Run
from softbins.paper.run.store import Store
from softbins.paper.run.training import is_finished, train_stack

DATASET_SIZES = {"bike": 17379, "ct": 53500, "song": 515345}
MAX_EPOCH_MULTIPLICATIONS = (
    5e11  # multiplications of a stack in an epoch: about half a minute on a core
)

Stack = tuple[Run, ...]
OnFinished = Callable[[Stack], None]


def make_stacks(runs: Iterable[Run]) -> list[Stack]:
    """Runs that differ in their seed only, together; the longest work first.

    Grouped splits differ in their number of batches, and so stay alone. Large networks on many
    rows are cut into smaller stacks: they gain little from each other, and a checkpoint can only be
    taken after an epoch.
    """
    groups: dict[Any, list[Run]] = {}
    for run in runs:
        groups.setdefault(run if run.split == "grouped" else run.configuration, []).append(run)
    found = [sorted(group, key=lambda run: run.seed) for group in groups.values()]
    return sorted((stack for group in found for stack in _cut(group)), key=stack_cost, reverse=True)


def _cut(runs: Sequence[Run]) -> list[Stack]:
    size = max(1, int(MAX_EPOCH_MULTIPLICATIONS / _epoch(runs[0])))
    return [tuple(runs[start : start + size]) for start in range(0, len(runs), size)]


def stack_cost(stack: Stack) -> float:
    """Roughly how much work a stack is, in multiplications."""
    run = stack[0]
    return len(stack) * run.epochs * _epoch(run) * (1.5 if run.curves else 1.0)


def _epoch(run: Run) -> float:
    """Of one run in one epoch: multiplications for each row, and the rows."""
    sizes = (32, *run.hidden, 100 if run.method.startswith(("hl", "mdn")) else 32)
    products = sum(a * b for a, b in pairwise(sizes)) + 10_000
    return products * min(DATASET_SIZES[original_name(run.dataset)], run.rows or math.inf)


def make_waves(runs: Iterable[Run]) -> list[list[Stack]]:
    """First what stands alone, then what starts from another run's hidden layers."""
    chosen = list(dict.fromkeys(runs))
    later = [run for run in chosen if run.source() is not None]
    sources = [source for source in (run.source() for run in later) if source is not None]
    first = list(dict.fromkeys([run for run in chosen if run.source() is None] + sources))
    return [wave for wave in (make_stacks(first), make_stacks(later)) if wave]


def unfinished_waves(runs: Iterable[Run], store: Store) -> list[list[Stack]]:
    """What is left to do. Weights are only missed where some run needs them."""
    planned = make_waves(runs)
    left = [[stack for stack in wave if not _done(stack, store)] for wave in planned]
    if len(left) == 2 and left[1]:
        needed = {run.source() for stack in left[1] for run in stack}
        left[0] = [
            stack
            for stack in planned[0]
            if not _done(stack, store) or (needed & set(stack) and not is_finished(stack, store))
        ]
    return [wave for wave in left if wave]


def _done(stack: Stack, store: Store) -> bool:
    return all(store.has(run) for run in stack)


def run_all(
    runs: Iterable[Run],
    store: Store,
    workers: int = 1,
    cluster: str | None = None,
    data: Path | None = None,
    on_finished: OnFinished = lambda stack: None,
) -> int:
    """Train everything that is not in the store yet; returns how many stacks that was."""
    count, data = 0, data and data.absolute()
    with _backend(cluster):
        for wave in unfinished_waves(runs, store):
            busy = []
            for stack, done in _each(wave, store, workers, cluster, data, wait=False):
                if done:
                    count += 1
                    on_finished(stack)
                else:
                    busy.append(stack)
            # Another process is at these: wait for it, and take over should it be killed.
            for stack, _ in _each(busy, store, workers, cluster, data, wait=True):
                on_finished(stack)
    return count


def _each(
    wave: Sequence[Stack],
    store: Store,
    workers: int,
    cluster: str | None,
    data: Path | None,
    wait: bool,
) -> Iterator[tuple[Stack, bool]]:
    """The stacks of a wave as they end."""
    jobs = -1 if cluster else min(workers, len(wave) or 1)
    parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
    yield from parallel(joblib.delayed(_job)(stack, store, data, wait) for stack in wave)


def _job(stack: Stack, store: Store, data: Path | None, wait: bool) -> tuple[Stack, bool]:
    return stack, train_stack(stack, store, data, wait)


@contextmanager
def _backend(cluster: str | None) -> Iterator[None]:
    """Joblib's own processes, or those of a running Dask cluster."""
    if cluster is None:
        yield
        return
    distributed = optional_import("distributed", "cluster")
    try:
        client = distributed.Client(cluster, timeout="5s")
    except (OSError, ValueError) as error:
        reason = f"cluster: nobody answers at {cluster}; start a scheduler with `dask scheduler`"
        raise OSError(reason) from error
    with client, joblib.parallel_config(backend="dask"):
        yield
