"""The command `softbins evaluate`: a model is judged by rows that are new to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import softbins
from softbins.cli.inputs import read_features_and_target
from softbins.cli.options import DATA, JSON, MODEL, PAGE, PROBABILITY, examples, option
from softbins.cli.output_files import check_drawings, write_text
from softbins.cli.summary import print_summary


@click.command(
    epilog=examples(
        "evaluate houses.model sold.csv",
        "evaluate houses.model sold.csv --page houses.html --coverage 0.8",
        "evaluate houses.model sold.csv --target price --json",
    )
)
@MODEL
@DATA
@click.option("--target", metavar="COL", help="Column it predicts, if not that of the training.")
@option("--coverage", type=float, default=0.9, callback=PROBABILITY, help="Share in the intervals.")
@PAGE
@JSON
def evaluate(
    model: Path, data: Path, target: str | None, coverage: float, page: Path | None, as_json: bool
) -> None:
    """Judge a saved MODEL by rows of DATA that it was not trained on.

    A page shows figures of the predictions, of how honest they are, and of the training as well.
    """
    check_drawings([page], model, data)
    fitted = softbins.load(model)
    evaluation = _evaluation(fitted, data, target or _target_of(fitted), coverage)
    if page is not None:
        write_text(evaluation.page(model.name, data.name), page)
    print_summary({"model": str(model)} | evaluation.summary(), fitted, as_json)
    for remark in evaluation.remarks():
        click.echo(remark, err=True)


def _target_of(model: Any) -> str:
    if model.provenance_ is None or model.provenance_.target is None:
        raise click.UsageError("the model does not know the name of its target; give --target COL")
    return str(model.provenance_.target)


def _evaluation(model: Any, data: Path, target: str, coverage: float) -> Any:
    from softbins.report.evaluation import evaluate

    x, y = read_features_and_target(data, model, target)
    return evaluate(model, x, y, coverage=coverage)
