"""What commands learn from and predict: the file of a table becomes X and y.

Errors about columns and cells start with the name of the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from softbins.cli.table_columns import (
    Array,
    features_and_target,
    features_for_model,
    target_column,
)
from softbins.cli.table_files import TableError, read_table


def read_training_data(path: Path, target: str) -> tuple[Any, Array]:
    """The features and the target to train with: X from all columns but the target."""
    frame = read_table(path)
    with _errors_name_the_file(path):
        return features_and_target(frame, target)


def read_features(path: Path, model: Any) -> Any:
    """The features that a fitted model takes."""
    frame = _read_for_model(path, model)
    with _errors_name_the_file(path):
        return features_for_model(frame, model.columns_.names, model.columns_.kinds)


def read_features_and_target(path: Path, model: Any, target: str) -> tuple[Any, Array]:
    """The features that a fitted model takes, and the targets to judge it by."""
    frame, columns = _read_for_model(path, model), model.columns_
    with _errors_name_the_file(path):
        if target in (columns.names or []):
            raise TableError(f"the model predicts from {target!r}; name the column it predicts")
        y = target_column(frame, target)
        return features_for_model(frame.drop(columns=target), columns.names, columns.kinds), y


def _read_for_model(path: Path, model: Any) -> Any:
    # In training, a label such as 1.50 was text if other labels of its column were no numbers. It
    # is read as text again, even if the table to predict holds nothing but numbers there.
    columns = zip(model.columns_.names or [], model.columns_.kinds, strict=False)
    return read_table(path, text_columns=[name for name, kind in columns if kind == "category"])


@contextmanager
def _errors_name_the_file(path: Path) -> Iterator[None]:
    try:
        yield
    except TableError as error:
        raise TableError(f"{path}: {error}") from error
