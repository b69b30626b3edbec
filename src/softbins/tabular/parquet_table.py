"""Tables of Parquet files, which are read a batch of rows at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softbins._core.extras import optional_import
from softbins._core.text import did_you_mean

SUFFIXES = (".parquet", ".pq")
BATCH_ROWS = 65_536  # that are read at a time


@dataclass(frozen=True)
class ParquetTable:
    """Some columns of a dataset of PyArrow, one of which is to be predicted.

    `name` is what errors call it. `target` is None for a table to predict.
    """

    dataset: Any
    features: list[str]
    target: str | None
    name: str

    @classmethod
    def open(
        cls,
        source: Any,
        target: str | None,
        features: Sequence[str] | None = None,
        drop: Sequence[str] = (),
    ) -> ParquetTable:
        """The table in a file, a folder of files, or a dataset; without `features`, all others."""
        is_path = isinstance(source, (str, os.PathLike))
        dataset = _open_files(Path(source)) if is_path else source
        table = cls(dataset, [], target, str(source) if is_path else "dataset")
        table._check_files()
        names = [name for name in dataset.schema.names if name != target and name not in drop]
        table._check_present([*([] if target is None else [target]), *(features or ()), *drop])
        chosen = names if features is None else [name for name in features if name in names]
        if not chosen:
            raise ValueError(f"{table.name}: no columns to learn from besides {target!r}")
        return cls(dataset, chosen, target, table.name)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.dataset.count_rows())

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Tables of PyArrow with up to `BATCH_ROWS` rows each; all columns that are used, or some.

        No more is read ahead than a batch, so that little memory is taken.
        """
        arrow = optional_import("pyarrow")
        used = [*self.features, *([] if self.target is None else [self.target])]
        how = {"batch_size": BATCH_ROWS, "batch_readahead": 1, "fragment_readahead": 1}
        try:
            scanner = self.dataset.scanner(columns=list(columns or used), use_threads=False, **how)
            for batch in scanner.to_batches():
                if batch.num_rows:
                    yield arrow.Table.from_batches([batch])
        except (arrow.ArrowException, OSError) as error:
            raise ValueError(f"{self.name}: {_broken(error)}") from error

    def _check_files(self) -> None:
        """Raise if a file cannot be read, or has other columns than the first."""
        arrow = optional_import("pyarrow")
        first: tuple[str, dict[str, Any]] | None = None
        for fragment in self._files():
            name = Path(getattr(fragment, "path", self.name)).name
            try:
                own = {field.name: field.type for field in fragment.physical_schema}
            except (arrow.ArrowException, OSError) as error:
                raise ValueError(f"{self.name}: {name}: {_broken(error)}") from error
            first = first or (name, own)
            if own != first[1]:
                raise ValueError(f"{self.name}: {_difference(*first, name, own)}")

    def _files(self) -> list[Any]:
        """The files, as far as PyArrow tells: not those of a dataset that somebody has filtered."""
        try:
            return list(self.dataset.get_fragments())
        except ValueError:
            return []

    def _check_present(self, names: Sequence[str]) -> None:
        there = self.dataset.schema.names
        for name in names:
            if name not in there:
                hint = did_you_mean(name, there) or f"; there are {', '.join(there[:10])}"
                raise ValueError(f"{self.name}: no column {name!r}{hint}")


def is_dataset(source: Any) -> bool:
    """Whether it is a path or a dataset of PyArrow, and no table that is in memory."""
    if isinstance(source, (str, os.PathLike, ParquetTable)):
        return True
    return hasattr(source, "get_fragments") and hasattr(source, "scanner")


def _open_files(path: Path) -> Any:
    datasets = optional_import("pyarrow.dataset")
    arrow = optional_import("pyarrow")
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file or folder")
    found = path.rglob("*") if path.is_dir() else [path]
    files = sorted(str(f) for f in found if f.suffix in SUFFIXES and not f.name.startswith("."))
    if not files:
        raise ValueError(f"{path}: no Parquet files ({', '.join(SUFFIXES)}) there")
    base = str(path if path.is_dir() else path.parent)
    try:
        return datasets.dataset(
            files, format="parquet", partitioning="hive", partition_base_dir=base
        )
    except (arrow.ArrowException, OSError) as error:
        raise ValueError(f"{path}: {_broken(error)}") from error


def _broken(error: Exception) -> str:
    problem = (str(error).strip() or type(error).__name__).splitlines()[0]
    return f"broken Parquet file ({problem})"


def _difference(first: str, expected: dict[str, Any], name: str, own: dict[str, Any]) -> str:
    """In words, the first column in which two files differ."""
    for column in (*expected, *own):
        if column not in own or column not in expected:
            has, lacks = (first, name) if column in expected else (name, first)
            return f"{has} has a column {column!r}, which {lacks} does not have; make them alike"
    column = next(column for column in expected if expected[column] != own[column])
    kinds = f"{expected[column]} in {first} and {own[column]} in {name}"
    return f"column {column!r} is {kinds}; make them alike"
