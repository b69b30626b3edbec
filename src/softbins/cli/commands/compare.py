"""The command `softbins compare`: methods are cross-validated on a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from softbins._core.text import json_text
from softbins.cli.inputs import read_training_data
from softbins.cli.options import (
    DATA,
    JSON,
    LIBRARIES,
    METHODS,
    PAGE,
    TARGET,
    epochs,
    examples,
    listed,
    new_file,
    option,
    seed,
)
from softbins.cli.output_files import check_drawings, picture_format, write_text
from softbins.cli.progress import progress_bar
from softbins.cli.reading import Reading
from softbins.cli.reading_options import reading_options
from softbins.cli.table_columns import Array


@click.command(
    epilog=examples(
        "compare houses.csv --target price",
        "compare houses.csv --target price --methods softbins-fast,trees,linear --folds 10",
        "compare houses.csv --target price --methods softbins,lightgbm,xgboost",
        "compare houses.csv --target price --epochs 300 --plot errors.svg --page errors.html",
    )
)
@DATA
@TARGET
@reading_options(target=True, columns=True)
@option("--folds", type=click.IntRange(min=2), default=5)
@option(
    "--methods",
    default=",".join(METHODS),
    callback=listed(click.Choice([*METHODS, *LIBRARIES])),
    help="What to compare; also lightgbm, catboost and xgboost, if they are installed.",
)
@epochs("epochs", "Passes over the data of plain networks.", default=100)
@seed("seed")
@option(
    "--plot",
    metavar="FILE",
    callback=new_file(picture_format),
    help="Draw the MAE: .svg, .png or .pdf.",
)
@PAGE
@JSON
def compare(
    data: Path,
    target: str,
    reading: Reading,
    methods: tuple[str, ...],
    plot: Path | None,
    page: Path | None,
    as_json: bool,
    **settings: Any,
) -> None:
    """Cross-validate methods on DATA, all on the same folds, best first.

    softbins and softbins-fast are what fit fits, trees are scikit-learn's boosted trees, linear and
    constant are what every method should beat, and all others are the paper's plain networks, as
    with fit --plain. Undertrained are those whose error on held-out rows was smallest at the end of
    the training. Seconds are the processor's for one fit.
    """
    check_drawings([plot, page], data)
    x, y, _ = read_training_data(data, target, reading)
    folds = settings["folds"]
    if folds > len(y):
        raise click.UsageError(f"--folds: {folds} folds need as many rows, got {len(y)}")
    from softbins.report.comparison import comparison_page, draw_comparison, remarks, score_table

    results = _compared_methods(x, y, methods, settings)
    facts = {"rows": len(y), "features": x.shape[1], **settings}
    if plot is not None:
        draw_comparison(results, plot, picture_format(plot.name))
    if page is not None:
        write_text(comparison_page(results, data.name, facts), page)
    click.echo(json_text(facts | {"results": results}) if as_json else score_table(results))
    for remark in remarks(results):
        click.echo(remark, err=True)


def _compared_methods(
    x: Any, y: Array, methods: tuple[str, ...], settings: dict[str, Any]
) -> list[dict[str, Any]]:
    from softbins.report.comparison import compare_methods

    with progress_bar("training") as update:

        def show(methods_done: float, text: str) -> None:
            update(methods_done / len(methods), text, None)

        return compare_methods(x, y, methods, on_progress=show, **settings)
