"""The commands for tables in files: fit, predict, evaluate, compare and info.

Input is checked before training starts where that is possible. What loads torch is imported
inside of functions, so that neither help nor a mistake in a table waits for it.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import click

import softbins
from softbins._core.extras import optional_import
from softbins._core.text import aligned, json_text, shown
from softbins.cli.inputs import read_features, read_features_and_target, read_training_data
from softbins.cli.options import (
    DATA,
    JSON,
    METHODS,
    MODEL,
    PAGE,
    PROBABILITY,
    TARGET,
    epochs,
    examples,
    listed,
    new_file,
    option,
    probabilities,
    seed,
)
from softbins.cli.output_files import (
    check_drawings,
    check_not_an_input,
    picture_format,
    write_text,
)
from softbins.cli.progress import progress_bar
from softbins.cli.table_columns import Array
from softbins.cli.table_files import check_suffix, csv_text, write_table
from softbins.cli.training_options import (
    check_training_options,
    new_estimator,
    training_options,
)


@click.command(
    epilog=examples(
        "fit houses.csv --target price -o houses.model",
        "fit houses.parquet --target price -o houses.model --preset fast --max-seconds 60",
        "fit houses.csv --target price -o l2.model --objective l2 --hidden 128,128 --json",
    )
)
@DATA
@TARGET
@click.option("-o", "output", metavar="MODEL", required=True, callback=new_file(), help="The file.")
@training_options
@JSON
def fit(data: Path, target: str, output: Path, as_json: bool, **options: Any) -> None:
    """Train a model on DATA and save it.

    hl-gaussian is a HistogramRegressor: networks and boosted trees, calibrated on rows that were
    held out. --plain, and all other objectives, are the paper's network and nothing else.
    """
    check_training_options(options)
    check_not_an_input(output, data)
    x, y = read_training_data(data, target)
    model = _trained_model(x, y, options)
    model.save(output)
    summary = {"model": str(output), "objective": options["objective"], "rows": len(y)}
    # A stray word among numbers shows in the numbers of columns of each kind.
    summary |= {"features": x.shape[1], "kinds": Counter(model.columns_.kinds)}
    _print_summary(summary, model, as_json)


def _trained_model(x: Any, y: Array, options: dict[str, Any]) -> Any:
    with progress_bar(options["max_seconds"]) as update:

        def show(epoch: int, epochs: int, seconds: float, summary: dict[str, float]) -> None:
            errors = [f"{k.replace('_', ' ')} {v:.4g}" for k, v in summary.items() if "mae" in k]
            update(epoch / epochs, "  ".join([f"epoch {epoch}/{epochs}", *errors]), seconds)

        model = new_estimator(options, progress=show).fit(x, y)
    # The bar is over, and a function could not be saved.
    return model.set_params(progress=False)


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


@click.command(
    epilog=examples(
        "evaluate houses.model sold.csv --target price",
        "evaluate houses.model sold.csv --target price --page houses.html --coverage 0.8",
        "evaluate houses.model sold.csv --target price --json",
    )
)
@MODEL
@DATA
@TARGET
@option("--coverage", type=float, default=0.9, callback=PROBABILITY, help="Share in the intervals.")
@PAGE
@JSON
def evaluate(
    model: Path, data: Path, target: str, coverage: float, page: Path | None, as_json: bool
) -> None:
    """Judge a saved MODEL by rows of DATA that it was not trained on.

    A page shows figures of the predictions, of how honest they are, and of the training as well.
    """
    check_drawings([page], model, data)
    fitted = softbins.load(model)
    evaluation = _evaluation(fitted, data, target, coverage)
    if page is not None:
        write_text(evaluation.page(model.name, data.name), page)
    _print_summary({"model": str(model)} | evaluation.summary(), fitted, as_json)
    for remark in evaluation.remarks():
        click.echo(remark, err=True)


def _evaluation(model: Any, data: Path, target: str, coverage: float) -> Any:
    from softbins.report.evaluation import evaluate

    x, y = read_features_and_target(data, model, target)
    return evaluate(model, x, y, coverage=coverage)


@click.command(
    epilog=examples(
        "compare houses.csv --target price",
        "compare houses.csv --target price --methods linear,l2,hl-gaussian --folds 10",
        "compare houses.csv --target price --epochs 300 --plot errors.svg --page errors.html",
    )
)
@DATA
@TARGET
@option("--folds", type=click.IntRange(min=2), default=5)
@option(
    "--methods",
    default=",".join(METHODS),
    callback=listed(click.Choice(METHODS)),
    help="What to compare.",
)
@epochs("epochs", default=100)
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
    methods: tuple[str, ...],
    plot: Path | None,
    page: Path | None,
    as_json: bool,
    **settings: Any,
) -> None:
    """Cross-validate the paper's methods on DATA, best first.

    All of them are the paper's network and nothing else, as with fit --plain. What fills gaps and
    which categories there are is learnt from all rows, but not the target.
    """
    check_drawings([plot, page], data)
    x, y = read_training_data(data, target)
    folds = settings["folds"]
    if folds > len(y):
        raise click.UsageError(f"--folds: {folds} folds need as many rows, got {len(y)}")
    from softbins.report.comparison import comparison_page, draw_comparison, score_table

    results = _compared_methods(x, y, methods, settings)
    facts = {"rows": len(y), "features": x.shape[1], **settings}
    if plot is not None:
        draw_comparison(results, plot, picture_format(plot.name))
    if page is not None:
        write_text(comparison_page(results, data.name, facts), page)
    click.echo(json_text(facts | {"results": results}) if as_json else score_table(results))


def _compared_methods(
    x: Any, y: Array, methods: tuple[str, ...], settings: dict[str, Any]
) -> list[dict[str, Any]]:
    from softbins.report.comparison import compare_methods

    # Linear regression takes no time.
    networks = max(len(set(methods) - {"linear"}), 1)
    with progress_bar() as update:

        def show(methods_done: float, text: str) -> None:
            update(methods_done / networks, text, None)

        return compare_methods(x, y, methods, on_progress=show, **settings)


@click.command(epilog=examples("info houses.model", "info houses.model --json"))
@MODEL
@JSON
def info(model: Path, as_json: bool) -> None:
    """Show what a saved MODEL is and how it was trained."""
    from softbins.report.description import description

    fitted = softbins.load(model)
    _print_summary({"model": str(model)} | description(fitted), fitted, as_json)


def _print_summary(summary: dict[str, Any], model: Any, as_json: bool) -> None:
    """Print values by name and how the training went: as JSON, or as text without unknown ones."""
    from softbins.tabular.summary import training_summary

    summary = summary | training_summary(model)
    known = {name.replace("_", " "): value for name, value in summary.items() if value is not None}
    rows = [[name, shown(value)] for name, value in known.items()]
    click.echo(json_text(summary) if as_json else aligned(rows))
