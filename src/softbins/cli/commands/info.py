"""The command `softbins info`: what a model in a file is, where it comes from, how it errs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import click

from softbins._core.text import json_text, printable, shown, wrapped
from softbins.cli.options import JSON, MODEL, examples, new_file
from softbins.cli.output_files import check_not_an_input, write_text

MAX_COLUMNS_SHOWN = 20
MAX_WIDTH = 100
LABELS = {"scores": "held-out scores"}
# What is shown in a way of its own.
SHOWN_APART = ("names", "kinds", "columns", "parameters")


@click.command(
    epilog=examples(
        "info houses.model", "info houses.model --json", "info houses.model --card houses.md"
    )
)
@MODEL
@click.option("--card", metavar="FILE", callback=new_file(), help="Write a page in Markdown.")
@JSON
def info(model: Path, card: Path | None, as_json: bool) -> None:
    """Show what a saved MODEL is, what it was trained on, and how it errs.

    The digest of the file and all that it says are verified; the weights are looked at when a
    model is loaded. At most 20 columns are shown, and all with --json or --card.
    """
    from softbins.tabular.card import model_card
    from softbins.tabular.model_contents import read_contents
    from softbins.tabular.model_facts import model_facts

    if card is not None:
        check_not_an_input(card, model)
    contents = read_contents(model)
    facts = {"model": str(model)} | model_facts(contents)
    if card is not None:
        write_text(model_card(contents, model.name), card)
    click.echo(json_text(facts) if as_json else _text(facts))


def _text(facts: dict[str, Any]) -> str:
    """Two tables, as wide as the terminal."""
    from softbins.tabular.model_facts import shown_parameter

    width = min(shutil.get_terminal_size().columns, MAX_WIDTH)
    values = {
        name: shown(value)
        for name, value in facts.items()
        if name not in SHOWN_APART and value not in (None, {})
    }
    chosen = [f"{name}={shown_parameter(value)}" for name, value in facts["parameters"].items()]
    values["parameters"] = ", ".join(sorted(chosen))
    rows = [
        [LABELS.get(name, name.replace("_", " ")), printable(value)]
        for name, value in values.items()
    ]
    return f"{wrapped(rows, width, column=1)}\n\n{_columns(facts['columns'], width)}"


def _columns(columns: list[dict[str, Any]], width: int) -> str:
    from softbins.tabular.model_facts import shown_range

    rows = [["column", "kind", "gaps", "seen"]]
    for index, column in enumerate(columns[:MAX_COLUMNS_SHOWN]):
        name = str(index) if column["name"] is None else printable(column["name"])
        gaps = "" if column["missing"] is None else str(column["missing"])
        rows.append([name, column["kind"], gaps, shown_range(column)])
    left = len(columns) - MAX_COLUMNS_SHOWN
    longest = max((0, 3), key=lambda place: max(len(row[place]) for row in rows))
    return wrapped(rows, width, column=longest) + (f"\n... and {left} more" if left > 0 else "")
