"""The command `softbins explain`: what drives the prediction of single rows."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

import softbins
from softbins._core.extras import optional_import
from softbins._core.text import json_text
from softbins.cli.inputs import read_features
from softbins.cli.options import (
    COUNT,
    DATA,
    JSON,
    MODEL,
    PROBABILITY,
    examples,
    new_file,
    option,
    seed,
)
from softbins.cli.output_files import check_not_an_input, check_svg_name, write_text
from softbins.cli.reading import Reading
from softbins.cli.reading_options import reading_options
from softbins.cli.table_files import check_written_suffix, write_table


@click.command(
    epilog=examples(
        "explain houses.model new.csv --row 3",
        "explain houses.model new.csv --row 3 --background houses.csv --plot row.svg",
        "explain houses.model new.csv --row 1 --row 2 -o contributions.csv",
    )
)
@MODEL
@DATA
@option("--row", "rows", type=COUNT, multiple=True, default=[1], help="The first row is 1.")
@click.option(
    "--background",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Rows to compare with, if not those of DATA.",
)
@option("--coverage", type=float, default=0.9, callback=PROBABILITY, help="Of the interval.")
@option("--orders", type=COUNT, default=2, help="More are more exact, and take longer.")
@seed("random_state")
@click.option(
    "-o", "path", metavar="OUT", callback=new_file(check_written_suffix), help="Write a table."
)
@click.option(
    "--plot", metavar="FILE", callback=new_file(check_svg_name), help="Draw the first row: .svg."
)
@JSON
@reading_options()
def explain(
    model: Path,
    data: Path,
    rows: tuple[int, ...],
    background: Path | None,
    path: Path | None,
    plot: Path | None,
    as_json: bool,
    reading: Reading,
    **options: Any,
) -> None:
    """Show what each column adds to the prediction of a row of DATA, and to its uncertainty.

    A saved MODEL predicts a mean and an interval. Contributions of all columns and what is
    predicted on average over the background, of which 100 rows are drawn, add up to them.
    """
    # Compiling shap's loops takes ten times as long as what they do for a few rows.
    # Where numba is in use already, what it has compiled must not be mixed with what is not.
    if "numba" not in sys.modules:
        os.environ.setdefault("NUMBA_DISABLE_JIT", "1")
    optional_import("shap", "explain")
    for output in filter(None, (path, plot)):
        check_not_an_input(output, model, data, *filter(None, [background]))
    fitted = softbins.load(model)
    x, _ = read_features(data, fitted, reading)
    some = _some_rows(x, rows, data)
    against = x if background is None else read_features(background, fitted, reading)[0]
    found = fitted.explain(some, against, **options)
    if path is not None:
        write_table(_table(found, rows), path)
    if plot is not None:
        write_text(found.to_svg(0), plot)
    click.echo(json_text(_summary(found, rows)) if as_json else _text(found, rows))


def _some_rows(x: Any, rows: tuple[int, ...], data: Path) -> Any:
    wrong = [row for row in rows if row > len(x)]
    if wrong:
        raise click.UsageError(f"--row: {data} has {len(x)} rows, got {wrong[0]}")
    places = [row - 1 for row in rows]
    # A model that was trained without names takes an array.
    return x.iloc[places] if hasattr(x, "iloc") else x[places]


def _table(found: Any, rows: tuple[int, ...]) -> Any:
    """All contributions, with the numbers of rows in the file, and values of all kinds as text."""
    frame = found.to_frame().astype({"value": str})
    return frame.assign(row=[rows[row] for row in frame["row"]])


def _text(found: Any, rows: tuple[int, ...]) -> str:
    return "\n\n".join(f"row {row}\n{found.to_text(i)}" for i, row in enumerate(rows))


def _summary(found: Any, rows: tuple[int, ...]) -> dict[str, Any]:
    return {
        "base_mean": found.base_mean,
        "base_width": found.base_width,
        "coverage": found.coverage,
        "contributions": _table(found, rows).to_dict("records"),
    }
