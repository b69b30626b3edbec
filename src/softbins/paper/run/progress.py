"""What is running, finished and left: a live view in a terminal, plain lines anywhere else."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from softbins._extras import optional_import
from softbins.paper.run.store import Store
from softbins.paper.run.training import describe_run, stack_name
from softbins.paper.run.workers import OnFinished, Stack, stack_cost


class Progress:
    """How far a number of stacks are, and how long the rest will take."""

    def __init__(self, stacks: Sequence[Stack], store: Store) -> None:
        self.store, self.start = store, time.monotonic()
        self.left = {stack_name(stack): stack for stack in stacks}
        self.total, self.finished = sum(map(stack_cost, stacks)), 0
        self.count = len(stacks)
        self.before = self._done()  # by an earlier command

    def end(self, stack: Stack) -> None:
        """A stack is finished."""
        self.finished += 1
        self.left.pop(stack_name(stack), None)

    def running(self) -> list[dict[str, Any]]:
        """What workers say about the stacks that are left."""
        return [said for said in self.store.progress() if said["stack"] in self.left]

    def seconds_left(self) -> float | None:
        """From the work that was done since the start; None before there was any."""
        done = self._done()
        new = done - self.before
        if new <= 0:
            return None
        return (time.monotonic() - self.start) * (self.total - done) / new

    def _done(self) -> float:
        left = sum(map(stack_cost, self.left.values()))
        begun: float = sum(
            stack_cost(self.left[said["stack"]]) * said["epoch"] / said["epochs"]
            for said in self.running()
        )
        return self.total - left + begun


@contextmanager
def show_progress(stacks: Sequence[Stack], store: Store) -> Iterator[OnFinished]:
    """Shows the progress on stderr; gives what to call when a stack ends."""
    progress = Progress(stacks, store)
    if not sys.stderr.isatty():
        yield lambda stack: _line(progress, stack)
        return
    live, console = (
        optional_import("rich.live"),
        optional_import("rich.console").Console(stderr=True),
    )
    view = _View(progress)
    with live.Live(view, console=console, refresh_per_second=2, transient=True):
        yield progress.end


def _line(progress: Progress, stack: Stack) -> None:
    progress.end(stack)
    head = f"[{progress.finished}/{progress.count}] {describe_run(stack[0])}"
    parts = [head, f"{len(stack)} runs", _errors(progress.store, stack)]
    parts.append(time_left_text(progress.seconds_left()))
    print(", ".join(part for part in parts if part), file=sys.stderr, flush=True)


def _errors(store: Store, stack: Stack) -> str:
    records = [record for record in map(store.read, stack) if record is not None]
    errors = [record["scores"]["test_mae"] for record in records]
    if not errors or None in errors:
        return "diverged"
    return f"test MAE {statistics.fmean(errors):.4g}"


def time_left_text(seconds: float | None) -> str:
    """For people."""
    if seconds is None:
        return ""
    minutes = round(seconds / 60)
    return f"{minutes} min left" if minutes else f"{round(seconds)} s left"


class _View:
    """What rich draws, again and again."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def __rich__(self) -> Any:
        progress = self.progress
        table = optional_import("rich.table").Table(title=self._title())
        for name in ("running", "runs", "epoch", "MAE"):
            table.add_column(name)
        for said in progress.running():
            epochs = f"{said['epoch']}/{said['epochs']}"
            table.add_row(said["title"], str(said["runs"]), epochs, f"{said['mae']:.4g}")
        return table

    def _title(self) -> str:
        progress = self.progress
        done = f"{progress.finished} of {progress.count} stacks finished"
        return ", ".join(part for part in (done, time_left_text(progress.seconds_left())) if part)
