"""How a table is to be read, as far as the command line says so, and the table that is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas

POINT, COMMA = ".", ","


@dataclass(frozen=True)
class Reading:
    """What is given about a table; None is recognised from the file.

    `drop` and `features` choose columns to learn from. With `strict`, rows without a target are an
    error, and are not left out.
    """

    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    sheet: str | None = None
    format: str | None = None
    drop: tuple[str, ...] = ()
    features: tuple[str, ...] | None = None
    strict: bool = False


# Everything is recognised.
AS_FOUND = Reading()


@dataclass
class Table:
    """A data frame, and what its file tells about the text in it.

    `decimals` are the marks that cells which are numbers already have shown to be decimal marks.
    `point_by_default` says that a point in text is a decimal mark unless other cells contradict,
    as in files that programs write. `remarks` are to be said to whoever gave the file.
    """

    frame: pandas.DataFrame
    decimals: frozenset[str] = frozenset()
    point_by_default: bool = True
    remarks: list[str] = field(default_factory=list)
