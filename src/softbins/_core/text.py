"""Values as text: for people in aligned columns, for programs as JSON."""

from __future__ import annotations

import difflib
import json
import math
import textwrap
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

# Figures of a whole number that are still easy to read without an exponent.
MAX_WRITTEN_OUT = 9
MIN_WRAPPED_WIDTH = 6


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Text in which the cells of a column start below each other, whatever shows it."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = [[cell.ljust(w) for cell, w in zip(row, widths, strict=True)] for row in rows]
    return "\n".join("  ".join(row).rstrip() for row in padded)


def wrapped(rows: Sequence[Sequence[str]], width: int, column: int) -> str:
    """Aligned text of at most so many characters in a line, in which one column may be broken."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    rest = sum(widths) - widths[column] + 2 * (len(widths) - 1)
    room, lines = max(width - rest, MIN_WRAPPED_WIDTH), []
    for row in rows:
        first, *more = textwrap.wrap(row[column], room, break_on_hyphens=False) or [""]
        lines.append([*row[:column], first, *row[column + 1 :]])
        lines += [[""] * column + [part] + [""] * (len(row) - column - 1) for part in more]
    return aligned(lines)


def printable(text: str) -> str:
    """Text in one line that does nothing to a terminal: what cannot be shown is escaped."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


def shortened(text: str, limit: int) -> str:
    """Beginning and end of a text that is too long for its place.

    Names of many columns often begin alike, and differ in a number at their end.
    """
    if len(text) <= limit:
        return text
    end = (limit - 1) // 2
    return f"{text[: limit - 1 - end]}…{text[len(text) - end :]}"


def _common_start(texts: Sequence[str]) -> int:
    """With how many characters all texts begin alike."""
    alike = (len(set(characters)) == 1 for characters in zip(*texts, strict=False))
    return next((i for i, same in enumerate(alike) if not same), min(map(len, texts)))


def shortened_alike(texts: Sequence[str], limit: int) -> list[str]:
    """Texts that are too long for their places, with what sets them apart.

    Where beginning and end are not enough, as much is left out as all have in common there.
    """
    short = [shortened(text, limit) for text in texts]
    if len(set(short)) == len(set(texts)):
        return short
    start = _common_start(texts)
    end = _common_start([text[start:][::-1] for text in texts])
    longest = max(map(len, texts)) - start - end
    start = max(start - max(limit - 2 - longest, 0), 0)
    middles = [text[start : len(text) - end] for text in texts]
    return [shortened(f"{'…' * (start > 0)}{m}{'…' * (end > 0)}", limit) for m in middles]


def shown(value: Any) -> str:
    """A value as text for people: numbers with four digits, lists and dicts without brackets."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {shown(item)}" for name, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(shown, value))
    return number_text(value) if isinstance(value, float) else str(value)


def number_text(value: float, digits: int = 4) -> str:
    """A number with so many digits, and without an exponent unless it is very large or small.

    A share of nearly everything is not everything: what is below 1 is not written as 1.
    """
    if value < 1 and f"{value:.{digits}g}" == "1":
        return f"{value:.15g}"
    rounded = float(f"{value:.{digits}g}")
    if digits <= len(f"{abs(rounded):.0f}") <= MAX_WRITTEN_OUT and math.isfinite(value):
        return f"{value:.0f}"
    return f"{value:.{digits}g}"


def level_text(level: float) -> str:
    """A probability as text, with 15 digits, and with all where 15 would say 0 or 1."""
    short = f"{level:.15g}"
    return short if 0 < float(short) < 1 else repr(float(level))


def level_texts(levels: Sequence[float]) -> list[str]:
    """Probabilities as texts, all of them different if the probabilities are."""
    short = list(map(level_text, levels))
    return short if len(set(short)) == len(set(levels)) else [repr(float(q)) for q in levels]


def percent_text(level: float) -> str:
    """A probability in percent, without the sign: 0.9 is "90", 0.9999999 is "99.99999"."""
    return format((100 * Decimal(level_text(level))).normalize(), "f")


def share_text(share: float) -> str:
    """A share in percent, which says 0% or 100% only if that is exact."""
    short = f"{share:.1%}"
    rounded = short in ("0.0%", "100.0%") and 0 < share < 1
    return f"{percent_text(share)}%" if rounded else short


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """A question in brackets about the known name that is most like an unknown one, if any is."""
    plain = {other.casefold().strip(): other for other in known}
    close = difflib.get_close_matches(name.casefold().strip(), plain, n=1)
    return f" (did you mean {plain[close[0]]!r}?)" if close else ""


def json_text(value: Any) -> str:
    """A value as JSON, for programs, with null for NaN and infinity, which JSON does not have."""
    return json.dumps(finite(value), indent=2, allow_nan=False)


def finite(value: Any) -> Any:
    """Plain data with None in place of numbers that are not finite."""
    if isinstance(value, dict):
        return {name: finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
