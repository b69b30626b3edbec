"""The command `softbins predict`: a model in a file predicts the rows of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import softbins
from softbins._core.extras import optional_import
from softbins.cli.inputs import read_features
from softbins.cli.options import (
    DATA,
    MODEL,
    PROBABILITY,
    examples,
    new_file,
    option,
    probabilities,
)
from softbins.cli.output_files import check_not_an_input
from softbins.cli.table_files import check_suffix, csv_text, write_table


@click.command(
    epilog=examples(
        "predict houses.model new.csv -o predicted.csv",
        "predict houses.model new.csv -o predicted.parquet --interval 0.9",
        "predict houses.model new.csv -o - --output median --quantiles 0.1,0.5,0.9",
    )
)
@MODEL
@DATA
@click.option(
    "-o",
    "path",
    metavar="OUT",
    required=True,
    callback=new_file(check_suffix, stdout=True),
    help="Table; - is stdout.",
)
@option(
    "--interval", type=float, callback=PROBABILITY, help="Add an interval that covers this share."
)
@click.option("--raw", is_flag=True, help="Intervals of the distribution itself, not calibrated.")
@option("--quantiles", callback=probabilities, help="Add quantiles, such as 0.1,0.5,0.9.")
@option("--output", type=click.Choice(["mean", "median", "mode"]), default="mean")
def predict(model: Path, data: Path, path: str | Path, **options: Any) -> None:
    """Predict every row of DATA with a saved MODEL.

    The columns are found by name, in any order; columns that the model does not know are ignored.
    """
    if options["raw"] and options["interval"] is None:
        raise click.UsageError("--raw: is about intervals; give --interval as well")
    check_not_an_input(path, model, data)
    result = _prediction_table(softbins.load(model), data, options)
    if path == "-":
        click.echo(csv_text(result), nl=False)
    else:
        write_table(result, path)
        click.echo(f"wrote {len(result)} predictions to {path}", err=True)


def _prediction_table(model: Any, data: Path, options: dict[str, Any]) -> Any:
    from softbins.report.evaluation import predictions

    columns = predictions(model, read_features(data, model), **options)
    return optional_import("pandas").DataFrame(columns)
