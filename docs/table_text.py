"""Markdown tables, and the records in results/ that they are made of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def read_record(name: str, results: Path) -> Any:
    """What a benchmark has written."""
    return json.loads((results / f"{name}.json").read_text())


def read_record_if_made(name: str, results: Path) -> Any:
    """The same, or None if it was not run."""
    return read_record(name, results) if (results / f"{name}.json").exists() else None


def thousands(number: int) -> str:
    """A number with a space between thousands."""
    return f"{number:,}".replace(",", " ")
