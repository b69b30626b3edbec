"""The command `softbins fit`: a table in a file becomes a model in a file."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import click

from softbins._core.extras import optional_import
from softbins.cli.inputs import read_training_data
from softbins.cli.options import ALL_CORES, DATA, JOBS, JSON, TARGET, examples, model_output, option
from softbins.cli.output_files import check_model_output
from softbins.cli.parquet_folders import open_parquet, size
from softbins.cli.progress import progress_bar
from softbins.cli.reading import Reading
from softbins.cli.reading_options import reading_options
from softbins.cli.summary import print_summary
from softbins.cli.table_summary import MAX_LISTED, summary_text
from softbins.cli.training_options import (
    DEFAULT_OBJECTIVE,
    check_training_options,
    new_estimator,
    training_options,
)

# With fewer rows than this, a model cannot be expected to do much.
FEW_ROWS = 30


@click.command(
    epilog=examples(
        "fit houses.csv --target price -o houses.model",
        "fit houses.parquet --target price -o houses.model --preset fast --max-seconds 60",
        "fit houses.csv --target price -o l2.model --objective l2 --hidden 128,128 --json",
        "fit houses.parquet --target price -o houses.model --cluster tcp://node1:8786",
        "fit years/ --target price -o houses.model --memory 2GB",
        "fit visits.csv --target cost -o visits.model --group patient",
        "fit export.xlsx --sheet sold --target price --drop id,note -o houses.model",
    )
)
@DATA
@TARGET
@model_output
@reading_options(target=True, columns=True)
@training_options
@JOBS
@option(
    "--cluster",
    metavar="ADDRESS",
    help="Train on a Dask cluster: its scheduler, such as tcp://node1:8786.",
)
@option(
    "--memory",
    metavar="SIZE",
    callback=size,
    help="About what training on Parquet may take, such as 1GB: rows are read in batches.",
)
@JSON
def fit(
    data: Path,
    target: str,
    output: Path,
    force: bool,
    reading: Reading,
    cluster: str | None,
    memory: float | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Train a model on DATA and save it.

    hl-gaussian is a HistogramRegressor: networks and boosted trees, calibrated on rows that were
    held out. --plain, and all other objectives, are the paper's network and nothing else. What each
    column is taken for is shown first; DATA may be - for standard input. Ctrl-C ends the training
    and saves what was reached; a second one ends the program. A folder of Parquet files need not
    fit into memory, nor a Parquet file if --memory is given.
    """
    check_training_options(options)
    check_model_output(output, force, data)
    if memory is not None or data.is_dir():
        _fit_parquet(data, target, output, reading, cluster, memory, as_json, options)
        return
    x, y, columns = read_training_data(data, target, reading)
    click.echo(summary_text(columns, limit=MAX_LISTED), err=True)
    _warn_of_few_rows(len(y))
    # A series, because its name tells the model what it predicts.
    named = optional_import("pandas").Series(y, name=target)
    features, table = x.shape[1], [x]
    del x  # the training lets go of the table, once it is encoded
    with _workers(cluster):
        model = _trained_model(table, named, options)
    model.save(output)
    summary = {"model": str(output), "objective": options["objective"], "rows": len(y)}
    # A stray word among numbers shows in the numbers of columns of each kind.
    summary |= {"features": features, "kinds": Counter(model.columns_.kinds)}
    print_summary(summary, model, as_json)


def _fit_parquet(
    data: Path,
    target: str,
    output: Path,
    reading: Reading,
    cluster: str | None,
    memory: float | None,
    as_json: bool,
    options: dict[str, Any],
) -> None:
    """Train on a table that is read in batches."""
    if cluster is not None:
        raise click.UsageError("--cluster: a folder is trained on this machine; leave it out")
    if options["objective"] != DEFAULT_OBJECTIVE:
        need = f"a folder is learnt with {DEFAULT_OBJECTIVE}"
        raise click.UsageError(f"--objective: {need}; leave it out")
    table = open_parquet(data, target, reading)
    limit = {} if memory is None else {"memory": memory}
    with _new_model(options) as (model, order):
        model.fit(table, **order, **limit)
    model.set_params(progress=False)
    model.save(output)
    rows = model.provenance_.rows
    summary = {"model": str(output), "objective": options["objective"], "rows": rows}
    summary |= {"features": len(table.features), "kinds": Counter(model.columns_.kinds)}
    print_summary(summary, model, as_json)


def _workers(cluster: str | None) -> AbstractContextManager[Any]:
    """The workers of a cluster, or this machine."""
    if cluster is None:
        return nullcontext()
    from softbins.tabular.cluster import dask_cluster

    return dask_cluster(cluster)


def _warn_of_few_rows(rows: int) -> None:
    """Say what to expect of a model that learns from hardly anything."""
    if rows < FEW_ROWS:
        warnings.warn(
            f"only {rows} rows to learn from: expect predictions little better than the mean of "
            "the target, and intervals that are wide or cover less than they say",
            stacklevel=1,
        )


def _without_groups(x: Any, order: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The features without the column of groups, which says nothing of new ones."""
    name = order.get("groups")
    if name not in getattr(x, "columns", ()):
        return x, order  # and if there is no such column, the estimator says so
    return x.drop(columns=name), order | {"groups": x[name]}


def _trained_model(table: list[Any], y: Any, options: dict[str, Any]) -> Any:
    """A model of the only table in a list, which is taken out of it."""
    from softbins.tabular.base import fit_and_release

    with _new_model(options) as (model, order):
        table[0], order = _without_groups(table[0], order)
        fit_and_release(model, table, y, **order)
    # The bar is over, and a function could not be saved.
    return model.set_params(progress=False)


@contextmanager
def _new_model(options: dict[str, Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """A model that shows its progress inside, and what rows have to do with each other."""
    with progress_bar("training", options["max_seconds"]) as update:

        def show(epoch: int, epochs: int, seconds: float, summary: dict[str, float]) -> None:
            errors = [f"{k.replace('_', ' ')} {v:.4g}" for k, v in summary.items() if "mae" in k]
            update(epoch / epochs, "  ".join([f"epoch {epoch}/{epochs}", *errors]), seconds)

        given = options | {"n_jobs": options["n_jobs"] or ALL_CORES}
        order = {name: given.pop(name) for name in ("groups", "time")}
        order = {name: by for name, by in order.items() if by is not None}
        yield new_estimator(given, progress=show, on_interrupt="keep"), order
