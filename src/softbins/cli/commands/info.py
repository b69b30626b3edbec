"""The command `softbins info`: what a model in a file is."""

from __future__ import annotations

from pathlib import Path

import click

import softbins
from softbins.cli.options import JSON, MODEL, examples
from softbins.cli.summary import print_summary


@click.command(epilog=examples("info houses.model", "info houses.model --json"))
@MODEL
@JSON
def info(model: Path, as_json: bool) -> None:
    """Show what a saved MODEL is and how it was trained."""
    from softbins.tabular.description import description

    fitted = softbins.load(model)
    print_summary({"model": str(model)} | description(fitted), fitted, as_json)
