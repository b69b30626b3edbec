"""Warnings that point to the line of the user's code that asked for something."""

from __future__ import annotations

import sys
import warnings
from itertools import count


def warn_user(message: str) -> None:
    """Warn, naming the nearest line outside of this library as the one that caused it."""
    for level in count(1):
        module = sys._getframe(level).f_globals.get("__name__", "")
        if module.partition(".")[0] != __name__.partition(".")[0]:
            warnings.warn(message, UserWarning, stacklevel=level + 1)
            return
