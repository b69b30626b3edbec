"""What a command has found out, printed for people or as JSON."""

from __future__ import annotations

from typing import Any

import click

from softbins._core.text import aligned, json_text, level_text, shown


def print_summary(summary: dict[str, Any], model: Any, as_json: bool) -> None:
    """Print values by name and how the training went: as JSON, or as text without unknown ones."""
    from softbins.tabular.summary import training_summary

    summary = summary | training_summary(model)
    known = {name.replace("_", " "): value for name, value in summary.items() if value is not None}
    rows = [
        [name, level_text(value) if name == "interval" else shown(value)]
        for name, value in known.items()
    ]
    click.echo(json_text(summary) if as_json else aligned(rows))
