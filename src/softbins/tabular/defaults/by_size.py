"""Values that depend on how many rows a table has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

Value = TypeVar("Value")


@dataclass(frozen=True)
class BySize(Generic[Value]):
    """A value that depends on the number of rows: `steps` are (largest number of rows, value)."""

    steps: tuple[tuple[float, Value], ...]

    def at(self, n_rows: int) -> Value:
        """The value for a table of that many rows."""
        return next(value for most, value in self.steps if n_rows <= most)
