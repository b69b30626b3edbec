"""The command `softbins predict`: a model in a file predicts the rows of a table, or one row."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

import softbins
from softbins._core.extras import optional_import
from softbins._core.memory import release_freed_memory
from softbins._core.text import aligned, number_text, percent_text
from softbins.cli.inputs import read_features
from softbins.cli.one_row import file_or_fields, one_row_features
from softbins.cli.options import (
    ALL_CORES,
    JOBS,
    MODEL,
    PROBABILITY,
    examples,
    new_file,
    option,
    probabilities,
)
from softbins.cli.output_files import check_not_an_input
from softbins.cli.parquet_folders import predict_folder
from softbins.cli.progress import progress_bar
from softbins.cli.reading import Reading
from softbins.cli.reading_options import column_names, reading_options
from softbins.cli.table_columns import check_present
from softbins.cli.table_errors import TableError
from softbins.cli.table_files import check_written_suffix, csv_text, write_table
from softbins.cli.terminal_density import density_lines

# Of the interval that is shown for one row.
COVERAGE = 0.9
ROWS_AT_A_TIME = 1 << 14


@click.command(
    epilog=examples(
        "predict houses.model new.csv -o predicted.csv",
        "predict houses.model new.csv -o predicted.parquet --interval 0.9 --keep id,town",
        "predict houses.model new.csv -o - --output median --quantiles 0.1,0.5,0.9",
        "predict houses.model years/ -o predicted.parquet",
        "predict houses.model size=80 town=A",
    )
)
@MODEL
@click.argument("data", nargs=-1, metavar="DATA | NAME=VALUE...")
@click.option(
    "-o",
    "path",
    metavar="OUT",
    callback=new_file(check_written_suffix, stdout=True),
    help="Table; - is stdout.",
)
@option(
    "--interval", type=float, callback=PROBABILITY, help="Add an interval that covers this share."
)
@click.option("--raw", is_flag=True, help="Intervals of the distribution itself, not calibrated.")
@option("--quantiles", callback=probabilities, help="Add quantiles, such as 0.1,0.5,0.9.")
@option("--output", type=click.Choice(["mean", "median", "mode"]), default="mean")
@click.option("--keep", metavar="COL,...", callback=column_names, help="Columns of DATA to carry.")
@click.option("--keep-all", is_flag=True, help="Carry all columns of DATA.")
@JOBS
@reading_options()
def predict(
    model: Path,
    data: tuple[str, ...],
    path: str | Path | None,
    reading: Reading,
    keep: tuple[str, ...] | None,
    keep_all: bool,
    n_jobs: int | None,
    **options: Any,
) -> None:
    """Predict every row of DATA with a saved MODEL, or one row that is given by its fields.

    The columns are found by name, in any order; columns that the model does not know are ignored.
    DATA may be - for standard input, or a folder of Parquet files, which are predicted a batch at a
    time. One row is shown with its density, unless -o is given.
    """
    rows = file_or_fields(data)
    if path is None and isinstance(rows, Path):
        raise click.UsageError("Missing option '-o'.")
    if options["raw"] and options["interval"] is None:
        raise click.UsageError("--raw: is about intervals; give --interval as well")
    if keep and keep_all:
        raise click.UsageError("--keep: has no meaning with --keep-all; leave one of them out")
    if path is not None:
        check_not_an_input(path, model, *([rows] if isinstance(rows, Path) else []))
    fitted = softbins.load(model).set_params(n_jobs=n_jobs or ALL_CORES)
    if isinstance(rows, Path) and rows.is_dir():
        _predict_folder(fitted, rows, path, reading, keep, keep_all, options)
        return
    x, kept = _rows(rows, fitted, reading, None if keep_all else keep or ())
    if path is None:
        click.echo(_one_row_text(fitted, x, options))
    else:
        _write(_prediction_table(fitted, x, kept, options), path)


def _predict_folder(
    model: Any,
    folder: Path,
    path: str | Path | None,
    reading: Reading,
    keep: tuple[str, ...] | None,
    keep_all: bool,
    options: dict[str, Any],
) -> None:
    """Predict Parquet files a batch at a time, to one Parquet file."""

    def table_of(x: Any, frame: Any) -> Any:
        if not keep_all:
            check_present(frame, keep or ())
            frame = frame[list(keep or ())]
        return _prediction_table(model, x, frame, options)

    count = predict_folder(folder, model, Path(str(path)), reading, table_of)
    click.echo(f"wrote {count} predictions to {path}", err=True)


def _rows(
    rows: Path | dict[str, str], model: Any, reading: Reading, keep: Sequence[str] | None
) -> tuple[Any, Any]:
    """The features that a model takes, and the columns to keep of where they come from."""
    if isinstance(rows, Path):
        return read_features(rows, model, reading, keep)
    x, frame, remarks = one_row_features(rows, model, reading.decimal)
    for remark in remarks:
        click.echo(remark, err=True)
    check_present(frame, keep or ())
    return x, frame if keep is None else frame[list(keep)]


def _prediction_table(model: Any, x: Any, kept: Any, options: dict[str, Any]) -> Any:
    """The columns that are kept, and beside them the predictions."""
    columns = _predictions(model, x, options)
    twice = [name for name in kept.columns if name in columns]
    if twice:
        raise TableError(f"--keep: {twice[0]!r} is a column of the result; rename it in the table")
    pandas = optional_import("pandas")
    return pandas.concat([kept, pandas.DataFrame(columns)], axis=1)


def _predictions(model: Any, x: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Predictions as named columns, some rows at a time, because encoding takes memory."""
    from softbins.report.evaluation import predictions

    blocks = []
    with progress_bar("predicting") as update:
        for start in range(0, len(x), ROWS_AT_A_TIME):
            release_freed_memory(8 * len(x) * x.shape[1])  # of reading, or of the block before
            blocks.append(predictions(model, x[start : start + ROWS_AT_A_TIME], **options))
            update(min((start + ROWS_AT_A_TIME) / len(x), 1.0), "predicting", None)
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}


def _write(result: Any, path: str | Path) -> None:
    if path == "-":
        click.echo(csv_text(result), nl=False)
    else:
        write_table(result, path)
        click.echo(f"wrote {len(result)} predictions to {path}", err=True)


def _one_row_text(model: Any, x: Any, options: dict[str, Any]) -> str:
    """The mean, and for a model with distributions also median, interval and a drawn density."""
    from softbins.report.evaluation import predictions

    lines = [["mean", number_text(float(model.predict(x)[0]))]]
    if not model.objective_.has_distribution:
        return aligned(lines)
    coverage, levels = options["interval"] or COVERAGE, options["quantiles"] or ()
    asked = options | {"interval": coverage, "output": "median"}
    found = predictions(model, x, **asked).values()
    median, low, high, *quantiles = (number_text(float(column[0])) for column in found)
    title = f"{percent_text(coverage)}% interval{', raw' if options['raw'] else ''}"
    lines += [["median", median], [title, f"{low} to {high}"]]
    lines += [[f"quantile {q:g}", value] for q, value in zip(levels, quantiles, strict=True)]
    density = model.predict_distribution(x)
    drawing = density_lines(density.bins.edges, density.probs[0], sys.stdout.encoding)
    return "\n".join([aligned(lines), "", *drawing])
