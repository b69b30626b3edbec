"""A table that does not fit into memory, encoded on disk in random order.

Two passes over Parquet files make it. The first reads all targets, and a sample of the rows from
which everything about columns is learnt: kinds, medians, quartiles, categories, and bins for trees.
The second encodes all rows and writes them to a memory map in a temporary file without a name, of
which nothing is left when the process ends, however it ends. Each row goes to one of several
places by chance, and then every place, which fits into memory, is shuffled. Neighbors on disk are
random rows after that: a fold is a range of them, and training reads ranges.
"""

from __future__ import annotations

import os
import tempfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softbins._core.files import explained
from softbins._core.memory import gigabytes
from softbins._core.warnings import warn_user
from softbins.tabular.columns import Columns
from softbins.tabular.data import TrainingData
from softbins.tabular.defaults import ScalingKind
from softbins.tabular.encoding import FeatureTransform, FeatureWriter, digest_of
from softbins.tabular.frames import column_title, read_columns, to_numbers
from softbins.tabular.parquet_table import BATCH_ROWS, ParquetTable
from softbins.tabular.validation import check_unit, tell_what_is_left_out

Array = NDArray[np.float64]
Index = NDArray[np.int64]

DEFAULT_MEMORY = 1e9  # bytes, beside the program itself
# Rows from which columns are learnt, at most; quantiles of so many are known to a thousandth.
SAMPLED_ROWS = 200_000
SHARE_OF_SAMPLE, SHARE_OF_BUCKET = 0.2, 0.2  # of the memory
# For each row: its target in both precisions, and what is computed from all targets at once.
BYTES_PER_ROW = 48
COPIES_OF_A_BATCH = 4  # as read, as features in float64, scaled, and in bins


def disk_training_data(
    table: ParquetTable,
    *,
    memory: float,
    categorical_features: Any,
    scaling: ScalingKind,
    trees: bool,
    seed: int,
) -> TrainingData:
    """The rows that have a target, encoded on disk."""
    generator = np.random.default_rng(seed)
    _check_memory(table, memory)
    target, sample = _first_pass(table, memory, generator)
    columns = Columns.fit(sample, categorical_features)
    tell_what_is_left_out(columns)
    transform = FeatureTransform.fit(columns, sample, None, scaling, trees)
    del sample
    return _Writer(table, transform, target, memory, generator).training_data()


def _check_memory(table: ParquetTable, memory: float) -> None:
    rows, width = table.n_rows, len(table.features) + 1
    if rows == 0:
        raise ValueError(f"{table.name}: no rows; need at least one")
    needed = BYTES_PER_ROW * rows + COPIES_OF_A_BATCH * 8 * width * min(rows, BATCH_ROWS)
    if memory < needed:
        raise ValueError(
            f"memory: {gigabytes(memory)} is too little for {rows} targets and a block of rows; "
            f"give at least {gigabytes(1.1 * needed)}"
        )


# The first pass


def _first_pass(
    table: ParquetTable, memory: float, generator: np.random.Generator
) -> tuple[Array, Any]:
    """All targets, with NaN for those that are missing, and some rows that have one."""
    rows = table.n_rows
    most = int(SHARE_OF_SAMPLE * memory / (8 * len(table.features)))
    wanted = min(rows, SAMPLED_ROWS, max(most, 1))
    chosen = np.sort(generator.choice(rows, wanted, replace=False))
    target, start, parts = np.empty(rows), 0, []
    for batch in table.batches():
        end = start + batch.num_rows
        target[start:end] = _targets(batch, table)
        first, last = np.searchsorted(chosen, (start, end))
        here = chosen[first:last]
        parts.append(batch.select(table.features).take(here[~np.isnan(target[here])] - start))
        start = end
    _check_targets(target, table)
    return target, _joined(parts)


def _joined(parts: list[Any]) -> Any:
    import pyarrow

    return pyarrow.concat_tables(parts).combine_chunks()


def _targets(batch: Any, table: ParquetTable) -> Array:
    """The targets of a batch, NaN where they are missing."""
    (column,) = read_columns(batch.select([table.target]))
    if column.kind not in ("number", "boolean"):
        raise ValueError(f"{table.name}: the target {table.target!r} is no column of numbers")
    return to_numbers(column.values, "number", column_title([str(table.target)], 0))


def _check_targets(target: Array, table: ParquetTable) -> None:
    known = ~np.isnan(target)
    missing = len(target) - int(known.sum())
    if missing == len(target):
        raise ValueError(f"{table.name}: the target {table.target!r} is empty in every row")
    if missing:
        warn_user(
            f"{table.name}: left out {missing} of {len(target)} rows, which have no target "
            f"{table.target!r}"
        )
    check_unit(target[known] if missing else target)


# The second pass


class _Writer:
    """Writes encoded rows to disk, in random order."""

    def __init__(
        self,
        table: ParquetTable,
        transform: FeatureTransform,
        target: Array,
        memory: float,
        generator: np.random.Generator,
    ) -> None:
        self.table, self.transform, self.generator = table, transform, generator
        self.memory, self.known = memory, ~np.isnan(target)
        self.file_target = target
        self.rows, inputs = int(self.known.sum()), transform.inputs
        trees = transform.tree_bins is not None
        self.scaled = disk_array((self.rows, inputs), np.float32)
        self.codes = disk_array((inputs, self.rows), np.uint8) if trees else None
        buckets = -(-5 * inputs * self.rows // max(int(SHARE_OF_BUCKET * memory), 1))
        self.bounds = np.linspace(0, self.rows, buckets + 1).round().astype(np.int64)

    def training_data(self) -> TrainingData:
        """Write all rows, and shuffle them."""
        columns = self.transform.columns
        digest = digest_of(columns, self.scaled.shape, weighted=False)
        writer = FeatureWriter(self.transform, self.scaled, self.codes, digest)
        target = np.empty(self.rows)
        bucket = np.repeat(np.arange(len(self.bounds) - 1, dtype=np.uint16), np.diff(self.bounds))
        self.generator.shuffle(bucket)
        free, start, row = self.bounds[:-1].copy(), 0, 0
        for batch in self.table.batches(self.table.features):
            known = self.known[start : start + batch.num_rows]
            batch = batch if known.all() else batch.filter(known)
            places = _next_places(free, bucket[row : row + batch.num_rows])
            writer.write(columns.transform(batch), places)
            target[places] = self.file_target[start : start + len(known)][known]
            start, row = start + len(known), row + batch.num_rows
        # In the order of the file, which is lost when rows are shuffled.
        writer.digest.update(np.ascontiguousarray(self.file_target[self.known], dtype="<f8").data)
        del self.file_target
        for first, last in zip(self.bounds[:-1], self.bounds[1:], strict=True):
            self._shuffle(slice(first, last), target)
        return TrainingData(columns, writer.encoded(), target, None, memory=self.memory)

    def _shuffle(self, rows: slice, target: Array) -> None:
        order = self.generator.permutation(rows.stop - rows.start)
        self.scaled[rows] = self.scaled[rows][order]
        target[rows] = target[rows][order]
        for code in () if self.codes is None else self.codes:
            code[rows] = code[rows][order]


def _next_places(free: Index, bucket: NDArray[np.uint16]) -> Index:
    """The next free place in the bucket of each row; `free` moves on."""
    order = np.argsort(bucket, kind="stable")
    counts = np.bincount(bucket, minlength=len(free))
    first = np.cumsum(counts) - counts
    places = np.empty(len(bucket), dtype=np.int64)
    places[order] = np.arange(len(bucket)) + np.repeat(free - first, counts)
    free += counts
    return places


def disk_array(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """An array in a temporary file without a name, on a disk that has room for all of it."""
    folder = tempfile.gettempdir()
    size = max(int(np.prod(shape)) * np.dtype(dtype).itemsize, 1)
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            if hasattr(os, "posix_fallocate"):
                # Otherwise a full disk would end the process by a signal, at the first write.
                os.posix_fallocate(file.fileno(), 0, size)
            return np.memmap(file, dtype=dtype, mode="r+", shape=shape)
    except OSError as error:
        told = explained("write", folder, error)
        need = f"a temporary file of {gigabytes(size)} for the encoded table; {told.strerror}"
        hint = "; TMPDIR names another folder"
        raise OSError(told.errno, f"{need}{hint}", folder) from error
