"""A progress bar for training: one line in a terminal or a notebook, nothing anywhere else.

Training runs inside of it: ``with progress_bar(True) as show: trainer.run(show)``.
"""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from softbins.nn.settings import Progress

BAR_WIDTH = 20


@contextmanager
def progress_bar(progress: bool | Progress) -> Iterator[Progress | None]:
    """Yield what the training loop is to call after every epoch, and end the bar on leaving.

    Parameters
    ----------
    progress : bool or callable
        A function ``(epoch, epochs, seconds, summary)`` of your own is yielded as it is. True is
        a bar where somebody watches: on stderr if that is a terminal, or below the cell of a
        notebook. False is no bar.

    Yields
    ------
    callable or None
        What to call with the epoch, the planned number of epochs, the seconds since the start and
        the current errors by name. None if nothing is to be shown.

    Examples
    --------
    >>> with progress_bar(False) as show:
    ...     print(show)
    None
    """
    if callable(progress):
        yield progress
        return
    bar = _new_bar() if progress else None
    try:
        yield bar
    finally:
        if bar is not None:
            bar.end()


class _Bar(Protocol):
    """A line that each epoch replaces, until it is ended."""

    def __call__(
        self, epoch: int, epochs: int, seconds: float, summary: dict[str, float]
    ) -> None: ...

    def end(self) -> None: ...


def _new_bar() -> _Bar | None:
    """The bar for where the program runs, None where nobody watches."""
    if _in_notebook():
        return _NotebookBar()
    return _TerminalBar() if sys.stderr.isatty() else None


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    return shell is not None and type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"


class _TerminalBar:
    """A line of stderr, written over by each epoch and ended by a newline."""

    def __init__(self) -> None:
        self.length = 0

    def __call__(self, epoch: int, epochs: int, seconds: float, summary: dict[str, float]) -> None:
        # A line that is as wide as the terminal would wrap, and could not be written over.
        width = shutil.get_terminal_size().columns - 1
        line = _line(epoch, epochs, seconds, summary)[:width]
        # Spaces cover what is left of a longer line.
        sys.stderr.write(f"\r{line:<{self.length}}")
        sys.stderr.flush()
        self.length = len(line)

    def end(self) -> None:
        if self.length:
            sys.stderr.write("\n")
            sys.stderr.flush()


class _NotebookBar:
    """One output below a notebook's cell, which each epoch replaces.

    It is replaced in the notebook's file as well, unlike text with a carriage return.
    """

    def __init__(self) -> None:
        self.output: Any = None

    def __call__(self, epoch: int, epochs: int, seconds: float, summary: dict[str, float]) -> None:
        data = {"text/plain": _line(epoch, epochs, seconds, summary)}
        if self.output is None:
            display = importlib.import_module("IPython.display").display
            self.output = display(data, raw=True, display_id=True)
        else:
            self.output.update(data, raw=True)

    def end(self) -> None:
        """Nothing is left to do: an output is whole after every epoch."""


def _line(epoch: int, epochs: int, seconds: float, summary: dict[str, float]) -> str:
    """A bar, the epoch, the seconds left at the pace so far, and the current errors."""
    left = seconds / epoch * (epochs - epoch)
    errors = "  ".join(f"{name} {value:.4g}" for name, value in summary.items())
    done = "█" * (BAR_WIDTH * epoch // epochs)
    return f"{done:░<{BAR_WIDTH}} {epoch}/{epochs} epochs, {left:.0f} s left  {errors}".rstrip()
