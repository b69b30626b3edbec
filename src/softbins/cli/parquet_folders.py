"""Parquet tables that are read and predicted a batch of rows at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from softbins._core.extras import optional_import
from softbins._core.files import whole_file
from softbins.cli.inputs import features_for_model, model_columns
from softbins.cli.reading import AS_FOUND, Reading, Table
from softbins.cli.table_errors import TableError

SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)b?", re.IGNORECASE)
POWERS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
PARQUET = (".parquet", ".pq")


def size(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """Read a number of bytes, such as 500MB or 1.5GB."""
    if value is None:
        return None
    found = SIZE.fullmatch(value.strip())
    number = 0.0 if found is None else float(found[1]) * POWERS[found[2].lower()]
    if number <= 0:
        raise click.BadParameter(f"need a size such as 500MB or 1GB, got {value!r}")
    return number


def refuse_reading(reading: Reading) -> None:
    """Raise if an option of reading was given that has no meaning for Parquet."""
    for name in ("sep", "decimal", "encoding", "sheet", "format", "strict"):
        if getattr(reading, name) != getattr(AS_FOUND, name):
            raise click.UsageError(f"--{name}: has no meaning for Parquet in batches; leave it out")


def open_parquet(path: Path, target: str, reading: Reading) -> Any:
    """The table in a folder or file to learn from, with the columns that were chosen."""
    from softbins.tabular.parquet_table import ParquetTable

    refuse_reading(reading)
    return ParquetTable.open(path, target, reading.features, reading.drop)


def predict_folder(
    path: Path, model: Any, out: Path, reading: Reading, predict: Callable[[Any, Any], Any]
) -> int:
    """Predict the rows of a folder, and write them to one Parquet file; how many there were.

    `predict` makes a frame of predictions from features and the frame that they come from.
    """
    refuse_reading(reading)
    if out.suffix.lower() not in PARQUET:
        raise TableError(f"{out}: predictions of a folder are written as {' or '.join(PARQUET)}")
    arrow, parquet = optional_import("pyarrow"), optional_import("pyarrow.parquet")
    rows, writer = 0, None
    with whole_file(out) as place:
        try:
            for x, frame in _features(path, model, reading):
                table = arrow.Table.from_pandas(predict(x, frame), preserve_index=False)
                writer = writer or parquet.ParquetWriter(place, table.schema)
                writer.write_table(table.cast(writer.schema))
                rows += len(frame)
        finally:
            if writer is not None:
                writer.close()
        if writer is None:
            raise TableError(f"{path}: no rows; need at least one")
    return rows


def _features(path: Path, model: Any, reading: Reading) -> Iterator[tuple[Any, Any]]:
    """What the model takes of each batch, and the batch itself."""
    from softbins.tabular.parquet_table import ParquetTable

    start = 0
    for batch in ParquetTable.open(path, None).batches():
        table = Table(batch.to_pandas())
        try:
            yield features_for_model(model_columns(table, model, reading), model), table.frame
        except TableError as error:
            here = f"rows {start + 1} to {start + batch.num_rows}"
            raise TableError(f"{path}: {here}, counted from 1 again: {error}") from error
        start += batch.num_rows
