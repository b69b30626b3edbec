"""Workers: what a plan lists and the store lacks, trained on the cores of a machine or a cluster.

The runs become stacks, and each stack is a job for one worker. Repeating a command is how to
resume: what is in the store is skipped, and a stack that was interrupted goes on from its last
checkpoint. Two commands on the same store share the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import joblib

from softbins._core.extras import optional_import
from softbins.paper.run.plan import Run
from softbins.paper.run.stacks import Stack, unfinished_waves
from softbins.paper.run.store import Store
from softbins.paper.run.training import train_stack

OnFinished = Callable[[Stack], None]


def run_all(
    runs: Iterable[Run],
    store: Store,
    workers: int = 1,
    cluster: str | None = None,
    data: Path | None = None,
    on_finished: OnFinished = lambda stack: None,
) -> int:
    """Train everything that is not in the store yet, and return how many stacks that was.

    Parameters
    ----------
    runs : iterable of Run
        What to train. Runs whose hidden layers others start from are added.
    store : Store
        Where the records are, and are written.
    workers : int
        How many processes train at the same time, unless there is a cluster.
    cluster : str, optional
        The address of a Dask scheduler, whose workers then train.
    data : path, optional
        The folder of fetched datasets, if it is not the default one.
    on_finished : callable
        Called with each stack as it ends.

    """
    count = 0
    jobs = _Jobs(store, -1 if cluster else workers, data and data.absolute())
    with _backend(cluster):
        for wave in unfinished_waves(runs, store):
            busy = []
            for stack, is_trained in jobs.train(wave, wait=False):
                if is_trained:
                    count += 1
                    on_finished(stack)
                else:
                    busy.append(stack)
            # Other processes are training these. Wait for them, and take over if one is killed.
            for stack, _ in jobs.train(busy, wait=True):
                on_finished(stack)
    return count


@dataclass(frozen=True)
class _Jobs:
    """How stacks are given to joblib; `workers` is -1 for as many as its backend has."""

    store: Store
    workers: int
    data_folder: Path | None

    def train(self, stacks: Sequence[Stack], wait: bool) -> Iterator[tuple[Stack, bool]]:
        """Train stacks; yields each as it ends, and whether it was trained by these workers."""
        n_jobs = self.workers if self.workers < 0 else min(self.workers, len(stacks) or 1)
        parallel = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)
        job = joblib.delayed(_train_job)
        yield from parallel(job(stack, self.store, self.data_folder, wait) for stack in stacks)


def _train_job(
    stack: Stack, store: Store, data_folder: Path | None, wait: bool
) -> tuple[Stack, bool]:
    return stack, train_stack(stack, store, data_folder, wait)


@contextmanager
def _backend(cluster: str | None) -> Iterator[None]:
    """Use the workers of a running Dask cluster, or joblib's own processes without one."""
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
