"""Tasks in processes that are forked from this one.

A forked process sees the memory of its parent as it was, without a copy: tables need not travel,
and nothing has to be imported. Unlike threads, processes do not wait for each other's Python.
Results come back as bytes, and what a task tells of its progress through a pipe.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import multiprocessing
import pickle
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from softbins.nn.settings import Progress
from softbins.nn.stopping import Stop

SECONDS_BETWEEN_LOOKS = 0.05
DIE_WITH_PARENT = 1  # Linux's PR_SET_PDEATHSIG


def can_fork() -> bool:
    """Whether processes can be forked here.

    Only on Linux, where other libraries are made for it, and from the main thread, which seldom
    has another one's lock. A worker of multiprocessing may not have processes of its own.
    """
    is_main = threading.current_thread() is threading.main_thread()
    return sys.platform == "linux" and is_main and not multiprocessing.current_process().daemon


class SharedFlag:
    """A bit that a process and those forked from it share, in the place of `threading.Event`.

    It has no lock, which a process could hold when it is killed.
    """

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 1)

    def is_set(self) -> bool:
        """Whether any process has set it."""
        return self._memory[0] == 1

    def set(self) -> None:
        """Set it in all processes."""
        self._memory[0] = 1


@dataclass(frozen=True)
class _Work:
    """What forked processes find in their memory."""

    function: Callable[..., Any]
    shared: Sequence[Any]
    tasks: Sequence[Any]
    shows: Sequence[Progress | None]
    stop: Stop
    reader: Connection
    writer: Connection


def run_forked(
    function: Callable[..., Any],
    shared: Sequence[Any],
    tasks: Sequence[Any],
    shows: Sequence[Progress | None],
    stop: Stop,
    jobs: int,
) -> list[Any]:
    """Call ``function(*shared, task, show, stop)`` for every task, and return all results.

    `shows` are called here, in the thread that waits for the tasks.
    """
    context = multiprocessing.get_context("fork")
    reader, writer = context.Pipe(duplex=False)
    heard = stop.within(math.inf, SharedFlag())
    work = _Work(function, shared, tasks, shows, heard, reader, writer)
    with reader, writer, ProcessPoolExecutor(jobs, context, _begin, (work,)) as pool:
        try:
            with _without_warnings_of_forks():
                futures = [pool.submit(_run_task, number) for number in range(len(tasks))]
            _wait_for(futures, work, stop)
            return [pickle.loads(future.result()) for future in futures]
        except BaseException as error:
            heard.ask()
            reader.close()  # so that nobody waits for it to be read
            pool.shutdown(cancel_futures=True)
            if isinstance(error, BrokenProcessPool):
                raise ChildProcessError(
                    "n_jobs: one of the processes was killed, as the system does when memory is "
                    "short; use fewer jobs"
                ) from None
            raise


@contextmanager
def _without_warnings_of_forks() -> Iterator[None]:
    """Inside, nobody warns of forks from a process with threads.

    Python, from 3.12 on, and JAX do, for locks that another thread may hold. What is forked here
    computes with one thread and calls neither.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*multi-?threaded.*", DeprecationWarning)
        warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
        yield


def _wait_for(futures: Sequence[Future[bytes]], work: _Work, stop: Stop) -> None:
    """Until all tasks have ended or one has failed, tell of their progress, and of a stop."""
    waiting = set(futures)
    while waiting:
        done, waiting = wait(waiting, SECONDS_BETWEEN_LOOKS, FIRST_COMPLETED)
        while work.reader.poll():
            number, call = work.reader.recv()
            show = work.shows[number]
            assert show is not None
            show(*call)
        if work.stop.asked:  # here, or in a forked process
            work.stop.ask()
            stop.ask()
        for future in done:
            future.result()


# In the forked processes

_work: _Work


def _begin(work: _Work) -> None:
    global _work
    _work = work
    work.reader.close()
    # The parent decides what Ctrl-C means. If it is killed, the system ends this process, too.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)


def _run_task(number: int) -> bytes:
    """The result of a task as bytes: torch would send its tensors through files."""

    def tell(*call: Any) -> None:
        _work.writer.send((number, call))

    show = None if _work.shows[number] is None else tell
    return pickle.dumps(_work.function(*_work.shared, _work.tasks[number], show, _work.stop))
