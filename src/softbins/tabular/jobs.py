"""Work that is spread over the cores of a machine, or over a cluster.

Tasks compute with one thread each. On Linux they run in processes that are forked from this one
and see its table, elsewhere in joblib's threads, which share it: torch and scikit-learn let other
threads go on while they compute. Inside a `joblib.parallel_config` with a backend they run wherever
that backend runs them, and get the table through a memory map, or over the network, once for all
tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from numbers import Integral
from typing import Any, TypeVar

import joblib
import numpy as np
from joblib.parallel import ThreadingBackend, get_active_backend
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from softbins.nn.settings import Progress
from softbins.nn.stopping import Stop
from softbins.tabular.cluster import check_workers, clear_errors
from softbins.tabular.device import one_thread
from softbins.tabular.forked_jobs import can_fork, run_forked

Array = NDArray[np.generic]
Task = TypeVar("Task")
Result = TypeVar("Result")


def check_jobs(n_jobs: Any) -> None:
    """Raise unless it is a number of jobs: None, or a whole number other than 0."""
    whole = isinstance(n_jobs, Integral) and not isinstance(n_jobs, bool)
    if n_jobs is not None and not (whole and n_jobs != 0):
        raise ValueError(
            f"n_jobs: need a whole number of at least 1, -1 for all cores, or None, got {n_jobs!r}"
        )


def number_of_jobs(n_jobs: int | None) -> int:
    """How many jobs that means here.

    "All cores" is one where another joblib has spread its own work over them already.
    """
    check_jobs(n_jobs)
    backend, in_context = get_active_backend()
    wanted = in_context if n_jobs is None else n_jobs
    wanted = backend.default_n_jobs if wanted is None else wanted
    runner = get_active_backend(prefer="threads")[0]
    if wanted < 0 and (runner.nesting_level or 0) > 0:
        return 1
    return int(runner.effective_n_jobs(wanted))


def useful_jobs(n_jobs: int | None, n_rows: int, max_rows_in_turn: int) -> int | None:
    """The number of jobs for a table, which is 1 where threads would only wait for each other."""
    check_jobs(n_jobs)
    in_threads = has_shared_memory() and not may_fork()
    return 1 if in_threads and n_rows <= max_rows_in_turn else n_jobs


def has_shared_memory() -> bool:
    """Whether tasks see the memory of this process, which those of a cluster do not."""
    runner = get_active_backend(prefer="threads")[0]
    return bool(getattr(runner, "supports_sharedmem", False))


def may_fork() -> bool:
    """Whether tasks run in forked processes: where nobody has asked joblib for something else."""
    is_chosen = isinstance(get_active_backend()[0], ThreadingBackend) or not has_shared_memory()
    return can_fork() and not is_chosen


def refuse_other_processes() -> None:
    """Raise if tasks would run in processes that do not see a temporary file."""
    if not has_shared_memory():
        raise ValueError("X: a Parquet table is trained in this process; leave the cluster out")


@contextmanager
def scattered(arrays: Sequence[Array | None]) -> Iterator[None]:
    """Inside, every worker of a Dask cluster has these arrays; elsewhere nothing is needed.

    With one copy on each worker, none is lost if a worker is.
    """
    client = getattr(get_active_backend()[0], "client", None)
    if client is None:
        yield
        return
    check_workers(client)
    found = [array for array in arrays if array is not None]
    with joblib.parallel_config(backend="dask", client=client, scatter=found):
        yield


def run_tasks(
    function: Callable[..., Result],
    shared: Sequence[Any],
    tasks: Sequence[Task],
    *,
    n_jobs: int | None,
    progress: Sequence[Progress | None] | None = None,
    stop: Stop | None = None,
    forks: bool = True,
) -> list[Result]:
    """Call ``function(*shared, task, progress, stop)`` for every task, and return all results.

    `progress` has what each task is to call after every epoch, which reaches only tasks in forks
    or threads. If a task fails, or this is interrupted, the others are asked to stop. Tasks that
    need another device than the processor must not run in `forks`.
    """
    stop = Stop() if stop is None else stop
    shows = list(progress or [None] * len(tasks))
    jobs, run = min(number_of_jobs(n_jobs), len(tasks)), partial(_with_one_thread, function)
    try:
        if forks and jobs > 1 and may_fork():
            return run_forked(run, shared, tasks, shows, stop, jobs)
        return _run_in_joblib(run, shared, tasks, shows, stop, jobs)
    except BaseException:
        stop.ask()
        raise


def _run_in_joblib(
    function: Callable[..., Result],
    shared: Sequence[Any],
    tasks: Sequence[Task],
    shows: Sequence[Progress | None],
    stop: Stop,
    jobs: int,
) -> list[Result]:
    """The same in threads of this process, or wherever a chosen backend runs tasks."""
    told = shows if has_shared_memory() else [None] * len(tasks)
    spread = joblib.Parallel(jobs, prefer="threads", batch_size=1, mmap_mode="c")
    with clear_errors():
        found: list[Result] = spread(
            joblib.delayed(function)(*shared, task, show, stop)
            for task, show in zip(tasks, told, strict=True)
        )
    return found


def threads_for(n_jobs: int | None) -> int:
    """How many threads of this process that means: a cluster has none of them."""
    if has_shared_memory():
        return number_of_jobs(n_jobs)
    check_jobs(n_jobs)
    return int(joblib.cpu_count() if n_jobs is not None and n_jobs < 0 else n_jobs or 1)


def run_in_threads(
    function: Callable[[Task], Result], tasks: Sequence[Task], threads: int
) -> list[Result]:
    """Call a function for every task, in threads of this process."""
    spread = joblib.Parallel(threads, require="sharedmem", batch_size=1)
    found: list[Result] = spread(joblib.delayed(_with_one_thread)(function, t) for t in tasks)
    return found


def _with_one_thread(function: Callable[..., Result], *arguments: Any) -> Result:
    """What a function returns that computes in this thread alone.

    A limit of one thread means that OpenMP has no others, which would wait for work busily.
    """
    with one_thread(), _thread_pools().limit(limits=1, user_api="openmp"):
        return function(*arguments)


@cache
def _thread_pools() -> ThreadpoolController:
    """The thread pools of this process, those of torch and scikit-learn among them.

    To look for them takes longer than a small task.
    """
    import sklearn  # noqa: F401  (brings an OpenMP of its own, which trees use)

    return ThreadpoolController()
