"""Which decimal mark the numbers of a column have, where its own cells do not tell.

A file is written by one program in one country, so that all its columns have the same mark: a
column of nothing but 3,504 is read as the other columns say. Where they say nothing, or contradict
each other, somebody has to be asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from softbins.cli.number_text import NumberStyle
from softbins.cli.reading import COMMA, POINT
from softbins.cli.table_errors import ColumnError


@dataclass(frozen=True)
class DecimalMarks:
    """What is known about the decimal mark of a table.

    `given` is what the command line says, `seen` are the marks of columns that leave no doubt, and
    `point_by_default` says that a point is a decimal mark if nothing contradicts.
    """

    given: str | None
    seen: frozenset[str]
    point_by_default: bool

    def with_styles(self, styles: Iterable[NumberStyle]) -> DecimalMarks:
        """The same with what columns of text have shown."""
        certain = [style.decimals for style in styles if len(style.decimals) == 1]
        return DecimalMarks(self.given, self.seen.union(*certain), self.point_by_default)

    def decimal_of(self, style: NumberStyle, name: str) -> str:
        """The decimal mark of the column of that name, all words of which are numbers."""
        doubtful = style.doubtful
        if len(style.decimals) == 1 or doubtful is None:
            return next(iter(style.decimals))
        if self.given is not None:
            return self.given
        seen = self.seen
        if self.point_by_default and POINT in doubtful:
            seen = seen | {POINT}
        if len(seen) == 1:
            return next(iter(seen))
        raise _doubt(name, doubtful)


def _doubt(name: str, text: str) -> ColumnError:
    mark = COMMA if COMMA in text else POINT
    question = f"{text!r} may mean {text.replace(mark, '')} or {text.replace(mark, POINT)}"
    way_out = f"give --decimal {COMMA} or --decimal {POINT}"
    return ColumnError(name, f"column {name!r}: {question}; {way_out}", f"{question}: {way_out}")
