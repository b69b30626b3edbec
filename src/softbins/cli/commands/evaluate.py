"""The command `softbins evaluate`: a model is judged by rows that are new to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import softbins
from softbins._core.text import printable
from softbins.cli.inputs import read_features_and_target
from softbins.cli.options import (
    ALL_CORES,
    DATA,
    JOBS,
    JSON,
    MODEL,
    PAGE,
    PROBABILITY,
    examples,
    option,
)
from softbins.cli.output_files import check_drawings, write_text
from softbins.cli.reading import Reading
from softbins.cli.reading_options import reading_options
from softbins.cli.summary import print_summary
from softbins.cli.table_columns import Array


@click.command(
    epilog=examples(
        "evaluate houses.model sold.csv",
        "evaluate houses.model sold.csv --page houses.html --coverage 0.8",
        "evaluate houses.model sold.csv --page houses.html --quick",
        "evaluate houses.model sold.csv --target price --json",
    )
)
@MODEL
@DATA
@click.option("--target", metavar="COL", help="Column it predicts, if not that of the training.")
@reading_options(target=True)
@option("--coverage", type=float, default=0.9, callback=PROBABILITY, help="Share in the intervals.")
@PAGE
@click.option("--quick", is_flag=True, help="A page without which columns matter, and how.")
@JOBS
@JSON
def evaluate(
    model: Path,
    data: Path,
    target: str | None,
    reading: Reading,
    coverage: float,
    page: Path | None,
    quick: bool,
    n_jobs: int | None,
    as_json: bool,
) -> None:
    """Judge a saved MODEL by rows of DATA that it was not trained on.

    The verdict says whether the model is better than a constant and a linear regression, whether
    its intervals are honest, and whether its error is like that in training. A page shows in
    figures where it errs, which columns matter, and how honest it is, as well; for hundreds of
    columns that takes a minute, unless it is --quick.
    """
    check_drawings([page], model, data)
    fitted = softbins.load(model).set_params(n_jobs=n_jobs or ALL_CORES)
    rows = read_features_and_target(data, fitted, target or _target_of(fitted), reading)
    evaluation = _evaluation(fitted, *rows, coverage)
    if page is not None:
        write_text(evaluation.page(model.name, data.name, quick), page)
    found = evaluation.verdict()
    summary = {"model": str(model)} | evaluation.summary()
    if as_json:
        summary["verdict"] = [each._asdict() for each in found]
    print_summary(summary, fitted, as_json)
    for each in [] if as_json else found:
        click.echo(printable(f"{each.level}: {each.headline}. {each.text}"))
    for remark in evaluation.remarks():
        click.echo(remark, err=True)


def _target_of(model: Any) -> str:
    if model.provenance_ is None or model.provenance_.target is None:
        raise click.UsageError("the model does not know the name of its target; give --target COL")
    return str(model.provenance_.target)


def _evaluation(model: Any, x: Any, y: Array, coverage: float) -> Any:
    from softbins.report.evaluation import evaluate

    return evaluate(model, x, y, coverage=coverage)
