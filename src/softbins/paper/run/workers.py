"""Workers: what a plan lists and the store lacks, trained on the cores of a machine or a cluster.

The runs become stacks, and each stack is a job for one worker. Repeating a command is how to
resume: what is in the store is skipped, what is damaged is set aside and made again, and a stack
that was interrupted goes on from its last checkpoint. Two commands on the same store share the
work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import joblib

from softbins.paper.run.healing import OnSetAside, heal_store
from softbins.paper.run.plan import Run
from softbins.paper.run.pool import Pool
from softbins.paper.run.stacks import Stack, describe_run, make_waves, unfinished_waves
from softbins.paper.run.store import Store
from softbins.paper.run.training import train_stack
from softbins.tabular.cluster import dask_cluster

OnFinished = Callable[[Stack], None]


def run_all(
    runs: Iterable[Run],
    store: Store,
    workers: int = 1,
    cluster: str | None = None,
    data: Path | None = None,
    on_finished: OnFinished = lambda stack: None,
    on_set_aside: OnSetAside = lambda line: None,
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
    on_set_aside : callable
        Called with a line for each damaged file, which is renamed, so that its run is made again.

    """
    count, chosen = 0, list(runs)
    heal_store((stack for wave in make_waves(chosen) for stack in wave), store, on_set_aside)
    folder = data and data.absolute()
    with _start_workers(workers, cluster) as train:
        for wave in unfinished_waves(chosen, store):
            busy = []
            for done in train([_Job(stack, store, folder) for stack in wave]):
                _tell(done, on_finished, on_set_aside)
                count += done.is_trained
                if not done.is_trained:
                    busy.append(_Job(done.stack, store, folder, wait=True))
            # Other processes are training these. Wait for them, and take over if one is killed.
            for done in train(busy):
                _tell(done, on_finished, on_set_aside)
    return count


class _Done(NamedTuple):
    """A stack, whether it is trained or left to another process, and what was set aside for it."""

    stack: Stack
    is_trained: bool
    set_aside: list[str]


@dataclass(frozen=True)
class _Job:
    """The training of a stack; with `wait`, after another process that is training it."""

    stack: Stack
    store: Store
    data_folder: Path | None
    wait: bool = False

    def __call__(self) -> _Done:
        lines: list[str] = []
        is_trained = train_stack(
            self.stack, self.store, self.data_folder, self.wait, on_set_aside=lines.append
        )
        return _Done(self.stack, is_trained, lines)

    def __str__(self) -> str:
        return describe_run(self.stack[0])


def _tell(done: _Done, on_finished: OnFinished, on_set_aside: OnSetAside) -> None:
    for line in done.set_aside:
        on_set_aside(line)
    if done.is_trained:
        on_finished(done.stack)


# Runs jobs and yields each as it ends.
Train = Callable[[Sequence[_Job]], Iterator[_Done]]


@contextmanager
def _start_workers(count: int, cluster: str | None) -> Iterator[Train]:
    """Start processes on this machine, none for one worker, or use those of a Dask cluster."""
    if cluster is not None:
        with _connect(cluster):
            yield _train_on_cluster
    elif count == 1:
        yield lambda jobs: (job() for job in jobs)
    else:
        with Pool[_Done](count) as pool:
            yield pool.run


def _train_on_cluster(jobs: Sequence[_Job]) -> Iterator[_Done]:
    parallel = joblib.Parallel(n_jobs=-1, return_as="generator_unordered", batch_size=1)
    yield from parallel(joblib.delayed(_Job.__call__)(job) for job in jobs)


@contextmanager
def _connect(cluster: str) -> Iterator[None]:
    """Let joblib use the workers of a Dask cluster."""
    with dask_cluster(cluster, "cluster") as distributed:
        try:
            yield
        except distributed.KilledWorker as error:
            advice = "repeat the command to go on from the last checkpoint"
            raise ChildProcessError(f"cluster: {error}; {advice}") from error
