"""What is wrong with a table or with one of its columns, in one line."""

from __future__ import annotations


class TableError(ValueError):
    """A table that cannot be read, written or used, with one line that says why."""


class ColumnError(TableError):
    """A column that cannot be taken.

    `brief` says why in a few words, for a line that names several such columns.
    """

    def __init__(self, name: str, problem: str, brief: str) -> None:
        super().__init__(problem)
        self.name, self.brief = name, brief
