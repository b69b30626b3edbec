"""Where a model is trained, and with how many threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def chosen_device(name: str) -> torch.device:
    """The device of that name; "auto" is the processor, the only one that was tried."""
    return torch.device("cpu" if name == "auto" else name)


class _OneThread(threading.local):
    """Whether this Python thread is inside `one_thread`, and what all of them share."""

    lock = threading.Lock()
    # How many Python threads are inside, and torch's number of threads before the first came.
    count = 0
    before = 1

    is_inside = False

    def enter(self) -> None:
        """Let torch compute with one thread."""
        with self.lock:
            if _OneThread.count == 0:
                _OneThread.before = torch.get_num_threads()
            _OneThread.count += 1
            torch.set_num_threads(1)
        self.is_inside = True

    def leave(self) -> None:
        """Give torch back the threads that it had.

        With OpenMP each Python thread has a number of its own, so that those still inside keep
        theirs; a new Python thread starts with the number that was set last.
        """
        self.is_inside = False
        with self.lock:
            _OneThread.count -= 1
            torch.set_num_threads(_OneThread.before)

    def after_fork(self) -> None:
        """Forget the other threads of the parent, which a forked process does not have."""
        _OneThread.lock = threading.Lock()
        _OneThread.count = int(self.is_inside)


_state = _OneThread()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_state.after_fork)


@contextmanager
def one_thread() -> Iterator[None]:
    """Inside, torch computes with one thread.

    Two are slower inside a small network, and would wait for ever in a process that was forked
    from one with threads, as web servers do. Several Python threads may be inside at the same
    time, and a part of what is inside may ask for it again.
    """
    if _state.is_inside:
        yield
        return
    _state.enter()
    try:
        yield
    finally:
        _state.leave()
