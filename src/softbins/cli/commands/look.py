"""The command `softbins look`: what a table holds, before anything is learnt from it."""

from __future__ import annotations

from pathlib import Path

import click

from softbins._core.text import json_text
from softbins.cli.inputs import read_summary
from softbins.cli.options import DATA, JSON, examples
from softbins.cli.reading import Reading
from softbins.cli.reading_options import reading_options
from softbins.cli.table_summary import summary_json, summary_text


@click.command(
    epilog=examples(
        "look houses.csv",
        "look houses.xlsx --sheet sold --target price",
        "look export.txt --format csv --sep ; --decimal ,",
    )
)
@DATA
@click.option("--target", metavar="COL", help="Column to predict.")
@reading_options(columns=True)
@JSON
def look(data: Path, target: str | None, reading: Reading, as_json: bool) -> None:
    """Show what each column of DATA would be taken for.

    A column that is refused could not be learnt from as it is. DATA may be - for standard input.
    """
    summaries = read_summary(data, target, reading)
    shown = json_text(summary_json(summaries)) if as_json else summary_text(summaries)
    click.echo(shown)
