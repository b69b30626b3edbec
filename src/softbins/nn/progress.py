"""A progress bar for training: in a terminal or a notebook, and silent anywhere else."""

from __future__ import annotations

import sys

from softbins.nn.trainer import Progress


def progress_callback(progress: bool | Progress) -> Progress | None:
    """What the training loop calls after every epoch: nothing, a function of yours, or a bar."""
    if callable(progress):
        return progress
    if not progress or not (sys.stderr.isatty() or _in_notebook()):
        return None
    return _bar()


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    return shell is not None and type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"


def _bar() -> Progress:
    """A line that is written over: epoch, time left, and the current errors."""

    def show(epoch: int, epochs: int, seconds: float, summary: dict[str, float]) -> None:
        left = seconds / epoch * (epochs - epoch)
        scores = "  ".join(f"{name} {value:.4g}" for name, value in summary.items())
        done = "█" * (20 * epoch // epochs)
        line = f"\r{done:░<20} {epoch}/{epochs} epochs, {left:.0f} s left  {scores}"
        sys.stderr.write(line + ("\n" if epoch == epochs else ""))
        sys.stderr.flush()

    return show
