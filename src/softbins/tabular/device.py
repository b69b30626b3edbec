"""Where a model is trained, and with how many threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


def chosen_device(name: str) -> torch.device:
    """The device of that name, or for "auto" the best there is."""
    if name != "auto":
        return torch.device(name)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@contextmanager
def one_thread() -> Iterator[None]:
    """Inside, torch computes with one thread.

    Two are slower inside a small network, and would wait for ever in a process that was forked
    from one with threads, as web servers do.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
