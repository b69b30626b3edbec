"""What a column of text is: dates, times of day, categories, or names that are left out.

A text that is another one in nearly every row is the name or the number of a row, and long texts
that are mostly different are free text. Nothing can be learnt from either as a category, because
hardly any category comes again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from softbins.tabular.date_text import ISO, TIME_FORMAT, find_format
from softbins.tabular.defaults import DEFAULTS
from softbins.tabular.frames import MISSING_WORDS, ColumnKind

LeftOut = Literal["names", "free text"]
REASONS: dict[LeftOut, str] = {
    "names": "has another text in nearly every row, as the name or the number of a row is",
    "free text": "is free text: long, and mostly another one in each row",
}


class TextKind(NamedTuple):
    """What a column is: how its dates and times are written, and why it is left out."""

    kind: ColumnKind
    written: str = ISO
    left_out: LeftOut | None = None


def text_kind(values: Sequence[str | None]) -> TextKind:
    """What text is, from the cells of training rows; raises `DateTextError` for doubtful dates."""
    known = [value for value in values if value is not None]
    written = text_layout(known)
    if written is not None:
        return TextKind("time" if written == TIME_FORMAT else "date", written)
    left_out = _left_out(known)
    return TextKind("category" if left_out is None else "ignored", left_out=left_out)


def text_layout(values: Sequence[str | None]) -> str | None:
    """The format of text that is dates or times, None for any other."""
    # In the order of the rows, so that a complaint names the first.
    words = [value for value in dict.fromkeys(values) if value is not None]
    return find_format([word for word in words if word.strip().lower() not in MISSING_WORDS])


def _left_out(known: Sequence[str]) -> LeftOut | None:
    rules, words = DEFAULTS.columns, set(known)
    if len(known) < rules.min_rows_of_names:
        return None
    share = len(words) / len(known)
    length = sum(map(len, words)) / len(words)
    if length >= rules.min_length_of_free_text and share > rules.min_share_of_free_texts:
        return "free text"
    return "names" if share > rules.min_share_of_names else None
