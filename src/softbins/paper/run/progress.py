"""The progress of running stacks: a live view in a terminal, plain lines anywhere else.

It comes from the store: workers, also those of other commands and machines, leave a report there
every few seconds.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from softbins._core.extras import optional_import
from softbins.paper.run.stacks import Stack, describe_run, stack_cost, stack_name
from softbins.paper.run.store import Store
from softbins.paper.run.workers import OnFinished


class Progress:
    """How many of the given stacks are finished, and how long the rest will take."""

    def __init__(self, stacks: Sequence[Stack], store: Store) -> None:
        self.store, self.start = store, time.monotonic()
        self.left = {stack_name(stack): stack for stack in stacks}
        self.count, self.finished = len(stacks), 0
        self.total_cost = sum(map(stack_cost, stacks))
        # Checkpoints of an earlier command may have some of the work behind them.
        self.cost_before_start = self._finished_cost()

    def finish(self, stack: Stack) -> None:
        """Count a stack as finished."""
        self.finished += 1
        self.left.pop(stack_name(stack), None)

    def running(self) -> list[dict[str, Any]]:
        """The workers' last reports on the stacks that are not finished."""
        return [report for report in self.store.read_progress() if report["stack"] in self.left]

    def seconds_left(self) -> float | None:
        """An estimate from the work since the start; None before there was any."""
        finished_cost = self._finished_cost()
        cost_since_start = finished_cost - self.cost_before_start
        if cost_since_start <= 0:
            return None
        seconds = time.monotonic() - self.start
        return seconds * (self.total_cost - finished_cost) / cost_since_start

    def _finished_cost(self) -> float:
        left = sum(map(stack_cost, self.left.values()))
        begun: float = sum(
            stack_cost(self.left[report["stack"]]) * report["epoch"] / report["epochs"]
            for report in self.running()
        )
        return self.total_cost - left + begun


@contextmanager
def show_progress(stacks: Sequence[Stack], store: Store) -> Iterator[OnFinished]:
    """Show the progress on stderr; gives the function to call when a stack is finished."""
    progress = Progress(stacks, store)
    if not sys.stderr.isatty():
        yield lambda stack: _print_finished(progress, stack)
        return
    console = optional_import("rich.console").Console(stderr=True)
    live = optional_import("rich.live").Live
    with live(LiveView(progress), console=console, refresh_per_second=2, transient=True):
        yield progress.finish


def time_left_text(seconds: float | None) -> str:
    """The time left in minutes or seconds, such as "5 min left"; empty if it is not known."""
    if seconds is None:
        return ""
    minutes = round(seconds / 60)
    return f"{minutes} min left" if minutes else f"{round(seconds)} s left"


def _print_finished(progress: Progress, stack: Stack) -> None:
    progress.finish(stack)
    head = f"[{progress.finished}/{progress.count}] {describe_run(stack[0])}"
    error, time_left = _error_text(progress.store, stack), time_left_text(progress.seconds_left())
    parts = [head, f"{len(stack)} runs", error, time_left]
    print(", ".join(part for part in parts if part), file=sys.stderr, flush=True)


def _error_text(store: Store, stack: Stack) -> str:
    records = [record for record in map(store.read, stack) if record is not None]
    errors = [record["scores"]["test_mae"] for record in records]
    if not errors or None in errors:
        return "diverged"
    return f"test MAE {statistics.fmean(errors):.4g}"


class LiveView:
    """The table that rich draws again and again while stacks are training."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def __rich__(self) -> Any:
        table = optional_import("rich.table").Table(title=self._title())
        for name in ("running", "runs", "epoch", "MAE"):
            table.add_column(name)
        for report in self.progress.running():
            epochs = f"{report['epoch']}/{report['epochs']}"
            error = "diverged" if report["mae"] is None else f"{report['mae']:.4g}"
            table.add_row(report["title"], str(report["runs"]), epochs, error)
        return table

    def _title(self) -> str:
        progress = self.progress
        finished = f"{progress.finished} of {progress.count} stacks finished"
        time_left = time_left_text(progress.seconds_left())
        return ", ".join(part for part in (finished, time_left) if part)
