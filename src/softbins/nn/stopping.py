"""When a training ends before its last epoch: its time is up, or somebody has asked for it."""

from __future__ import annotations

import math
import threading
import time
from typing import Any, Protocol

from softbins._core.checks import require_number


class Event(Protocol):
    """What `threading.Event` can do, as far as it is needed here."""

    def is_set(self) -> bool:
        """Whether `set` was called."""

    def set(self) -> None:
        """From now on, `is_set` is true for everybody."""


class Stop:
    """Ends whatever asks it: so many seconds after it was made, or when `ask` is called.

    What takes a part of the time has a stop of its own, `within` this one, which ends with it. In
    another process a copy has as many seconds left, but does not hear of `ask`.

        stop = Stop(max_seconds=60)
        while not stop.reached:
            take_a_step()
    """

    def __init__(self, max_seconds: float | None = None) -> None:
        if max_seconds is not None:
            require_number("max_seconds", max_seconds)
        self._start = time.perf_counter()
        self._end = math.inf if max_seconds is None else self._start + max_seconds
        self._asked: Event = threading.Event()
        self._outer: Stop | None = None

    @property
    def seconds_left(self) -> float:
        """Until the time is up; infinite where there is no limit."""
        return self._end - time.perf_counter()

    @property
    def share_gone(self) -> float:
        """Of the time between start and end, from 0 to 1; 0 where there is no limit."""
        if self._end == math.inf or self._end <= self._start:
            return float(self._end <= self._start)
        return min(1.0, (time.perf_counter() - self._start) / (self._end - self._start))

    @property
    def asked(self) -> bool:
        """Whether somebody has called `ask`, here or of what this is a part of."""
        return self._asked.is_set() or (self._outer is not None and self._outer.asked)

    @property
    def reached(self) -> bool:
        """Whether it is time to end."""
        return self.asked or self.seconds_left <= 0

    def ask(self) -> None:
        """End now, in all threads, this and what is within it."""
        self._asked.set()

    def whoever_asks(self) -> Stop:
        """A stop at the same time, which hears of nobody: for what has to be done in any case."""
        return Stop().within(self.seconds_left)

    def within(self, seconds: float, asked: Event | None = None) -> Stop:
        """A stop after so many seconds, or where this one ends before.

        `asked` is where it hears of `ask`, if that is not to be in this process alone.
        """
        part = Stop()
        part._end = min(self._end, time.perf_counter() + seconds)
        part._outer = self
        part._asked = part._asked if asked is None else asked
        return part

    def __getstate__(self) -> dict[str, Any]:
        # Clocks of other processes start elsewhere.
        return {"seconds_left": self.seconds_left, "asked": self.asked}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._start = time.perf_counter()
        self._end = self._start + state["seconds_left"]
        self._asked, self._outer = threading.Event(), None
        if state["asked"]:
            self._asked.set()
