"""The progress bar of a command: on stderr, with the time left, and only in a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from softbins._core.extras import optional_import

Update = Callable[[float, str, float | None], None]


@contextmanager
def progress_bar(title: str, max_seconds: float | None = None) -> Iterator[Update]:
    """Show a bar while the block runs, which takes `max_seconds` at most.

    `title` is the text beside the bar at first. Yields a function to call with the share of the
    work that is done, the text from then on, and the seconds that this share took; None is all the
    time since the bar was started.
    """
    if not sys.stderr.isatty():
        yield lambda share, text, seconds: None
        return
    rich = optional_import("rich.progress")
    console = optional_import("rich.console").Console(stderr=True)
    columns = rich.BarColumn(), "{task.description}", "{task.fields[left]}"
    with rich.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=1.0, left="")

        def update(share: float, text: str, seconds: float | None) -> None:
            left = time_left(share, seconds or bar.tasks[0].elapsed or 0.0, max_seconds)
            bar.update(task, completed=share, description=text, left=left)

        yield update


def time_left(share: float, seconds: float, max_seconds: float | None) -> str:
    """The time left at the pace so far, but for no longer than until the limit, as text."""
    left = seconds / share - seconds
    if max_seconds is not None:
        left = min(left, max(max_seconds - seconds, 0.0))
    minutes, rest = divmod(round(left), 60)
    return f"{minutes}:{rest:02d} left"
