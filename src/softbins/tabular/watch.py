"""What is seen of a fit while it runs, and what may end it: groups of members as one training."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from softbins.nn.groups import GroupTask
from softbins.nn.settings import Progress
from softbins.nn.stopping import Stop

History = list[dict[str, float]]
# Called after every epoch with the errors of all epochs so far; True ends the training.
Callback = Callable[[History], bool | None]


class Watch:
    """The time of a fit, and whom to tell of its epochs."""

    def __init__(
        self,
        show: Progress | None = None,
        stop: Stop | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.show, self.stop = show, Stop() if stop is None else stop
        self.callbacks, self.start = list(callbacks), time.perf_counter()
        self.history: History = []

    def groups(self, tasks: Sequence[GroupTask], stop: Stop) -> list[Progress | None]:
        """For each group what to call after its epochs; callbacks may ask for the stop."""
        if self.show is None and not self.callbacks:
            return [None] * len(tasks)
        together = _Together(self, tasks, stop)
        return [partial(together.hear, number) for number in range(len(tasks))]

    def tell(self, epoch: int, epochs: int, summary: dict[str, float], stop: Stop) -> None:
        """All members have ended an epoch, in the mean."""
        if self.show is not None:
            self.show(epoch, epochs, time.perf_counter() - self.start, summary)
        self.history.append({"epoch": epoch} | summary)
        for callback in self.callbacks:
            if callback([dict(row) for row in self.history]) is True:
                stop.ask()


class _Together:
    """Epochs of several groups, told as those of one training."""

    def __init__(self, watch: Watch, tasks: Sequence[GroupTask], stop: Stop) -> None:
        self.watch, self.stop, self.lock = watch, stop, threading.Lock()
        self.epochs = max(task.settings.epochs for task in tasks)
        begun = [0 if task.start is None else task.start[0]["epoch"] for task in tasks]
        self.shares = [
            epoch / task.settings.epochs for epoch, task in zip(begun, tasks, strict=True)
        ]
        self.summaries: dict[int, dict[str, float]] = {}
        self.told = self._epoch()

    def hear(
        self, number: int, epoch: int, epochs: int, seconds: float, summary: dict[str, float]
    ) -> None:
        """A group has ended an epoch; told as soon as it is one for all groups in the mean."""
        with self.lock:
            self.shares[number] = epoch / epochs
            self.summaries[number] = summary
            now = self._epoch()
            if now <= self.told:
                return
            self.told = now
            self.watch.tell(now, self.epochs, self._summary(), self.stop)

    def _epoch(self) -> int:
        return math.floor(sum(self.shares) / len(self.shares) * self.epochs + 1e-9)

    def _summary(self) -> dict[str, float]:
        """The mean over groups of each error."""
        known = list(self.summaries.values())
        return {name: sum(each[name] for each in known) / len(known) for name in known[0]}
