"""Worker processes on this machine: each trains one stack after another until there are no more.

A process of its own for each worker, with a pipe, so that it is known which stack a worker had when
it was killed, and by what.
"""

from __future__ import annotations

import multiprocessing
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

Result = TypeVar("Result")
SECONDS_TO_END = 5.0
MEMORY_ADVICE = "if memory was short, use fewer --workers; "


class Pool(Generic[Result]):
    """At most `count` processes, started when they are needed and ended with the `with` block.

    A job is a function without arguments that can be pickled. `str(job)` says in a few words what
    it is about, for the error if its process is killed.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.workers: list[_Worker[Result]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        for worker in self.workers:
            worker.end()

    def run(self, jobs: Sequence[Callable[[], Result]]) -> Iterator[Result]:
        """Run jobs, the first ones first, and yield what each returns as it ends.

        An error of a job is raised here. A killed worker raises `ChildProcessError`.
        """
        left, busy = list(jobs), []
        while len(self.workers) < min(self.count, len(left)):
            self.workers.append(_Worker())
        for worker in self.workers[: len(left)]:
            worker.give(left.pop(0))
            busy.append(worker)
        while busy:
            ready = wait([worker.connection for worker in busy])
            for worker in [worker for worker in busy if worker.connection in ready]:
                yield worker.take()
                if left:
                    worker.give(left.pop(0))
                else:
                    busy.remove(worker)


class _Worker(Generic[Result]):
    """One process, and the job that it has."""

    def __init__(self) -> None:
        # A new interpreter: a fork would have the threads' locks of this one, but not its threads.
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other,), daemon=True)
        self.process.start()
        other.close()

    def give(self, job: Callable[[], Result]) -> None:
        self.job = job
        # If it was killed while it had nothing to do, `take` finds that out.
        with suppress(OSError):
            self.connection.send(job)

    def take(self) -> Result:
        try:
            is_result, value = self.connection.recv()
        except (EOFError, OSError):
            self.process.join()
            code = self.process.exitcode or 0
            raise ChildProcessError(killed_text(str(self.job), code)) from None
        if not is_result:
            raise value
        result: Result = value
        return result

    def end(self) -> None:
        self.connection.close()
        self.process.terminate()
        self.process.join(SECONDS_TO_END)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.process.close()


def serve(connection: Connection) -> None:
    """What a worker does: run the jobs that come, and send back what they return or raise."""
    # The command ends its workers itself when Ctrl-C interrupts it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError):
        while True:
            connection.send(_outcome(connection.recv()))


def _outcome(job: Callable[[], Any]) -> tuple[bool, Any]:
    try:
        return True, job()
    except Exception as error:
        # The traceback itself cannot be sent.
        error.add_note(traceback.format_exc())
        return False, error


def killed_text(what: str, code: int) -> str:
    """What to say of a process that ended by itself with this exit code, -9 for signal 9."""
    advice = "repeat the command to go on from the last checkpoint"
    if code >= 0:
        return f"the worker that trained {what} ended with exit code {code}; {advice}"
    # The system kills by signal 9 when memory is short. So may anybody else.
    memory = MEMORY_ADVICE if -code == signal.SIGKILL else ""
    return f"the worker that trained {what} was killed (signal {-code}); {memory}{advice}"
