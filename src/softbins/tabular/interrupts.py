"""Ctrl-C while a model is trained: an error, or the end of the training."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, get_args

from softbins.nn.stopping import Stop

OnInterrupt = Literal["raise", "keep"]


@contextmanager
def interruptible(stop: Stop, on_interrupt: OnInterrupt) -> Iterator[None]:
    """Inside, with "keep", the first Ctrl-C asks for the stop; a second one raises as usual.

    Signals reach the main thread only, so that in others nothing changes.
    """
    if on_interrupt not in get_args(OnInterrupt):
        raise ValueError(f"on_interrupt: expected 'raise' or 'keep', got {on_interrupt!r}")
    in_main = threading.current_thread() is threading.main_thread()
    if on_interrupt == "raise" or not in_main:
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def end(number: int, frame: Any) -> None:
        signal.signal(signal.SIGINT, before)
        stop.ask()

    signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
