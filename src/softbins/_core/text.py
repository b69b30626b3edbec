"""Values as text: for people in aligned columns, for programs as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

# Figures of a whole number that are still easy to read without an exponent.
MAX_WRITTEN_OUT = 9


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Text in which the cells of a column start below each other, whatever shows it."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = [[cell.ljust(w) for cell, w in zip(row, widths, strict=True)] for row in rows]
    return "\n".join("  ".join(row).rstrip() for row in padded)


def shown(value: Any) -> str:
    """A value as text for people: numbers with four digits, lists and dicts without brackets."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {shown(item)}" for name, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(shown, value))
    return number_text(value) if isinstance(value, float) else str(value)


def number_text(value: float, digits: int = 4) -> str:
    """A number with so many digits, and without an exponent unless it is very large or small."""
    rounded = float(f"{value:.{digits}g}")
    if digits <= len(f"{abs(rounded):.0f}") <= MAX_WRITTEN_OUT and math.isfinite(value):
        return f"{value:.0f}"
    return f"{value:.{digits}g}"


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
