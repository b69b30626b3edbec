"""What commands learn from and predict: the file of a table becomes X and y.

Errors about columns and cells start with the name of the file. What was done to a table to read it
is said on stderr.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from softbins.cli.opened_input import input_name
from softbins.cli.reading import AS_FOUND, Reading, Table
from softbins.cli.table_columns import (
    Array,
    TableColumns,
    TakenColumn,
    check_present,
    columns_refused,
    features_frame,
)
from softbins.cli.table_errors import TableError
from softbins.cli.table_files import read_table
from softbins.cli.table_summary import ColumnSummary, column_summary, refused_summary

MAX_COLUMNS_SAID = 8
# Kinds of columns that may be text.
TEXT_KINDS = ("category", "date", "time", "ignored")


class TrainingTable(NamedTuple):
    """What to train with, and what each column was taken for; the target is the last of these."""

    x: Any
    y: Array
    summary: list[ColumnSummary]


def read_training_data(path: Path, target: str, reading: Reading = AS_FOUND) -> TrainingTable:
    """The features and the target to train with, without the rows that have no target."""
    table = read_table(path, reading)
    with _errors_name_the_file(path):
        columns = TableColumns(table, reading.decimal)
        y, known = _known_target(columns, target, reading, table.remarks)
        taken, problems = columns.take_all(_feature_names(table, target, reading), release=True)
        if problems:
            raise columns_refused(problems, may_drop=True)
        if y.min() == y.max():
            raise TableError(f"the target {target!r} is {y[0]:g} in every row; name another column")
        goal = replace(columns.take(target, "number"), kind="target")
        _say(path, table, [*taken, goal])
        summary = [column_summary(column, known) for column in [*taken, goal]]
        return TrainingTable(_rows(features_frame(taken), known), y, summary)


def read_summary(path: Path, target: str | None, reading: Reading) -> list[ColumnSummary]:
    """What each column of a table would be taken for, or why it would not."""
    table = read_table(path, reading)
    with _errors_name_the_file(path):
        columns = TableColumns(table, reading.decimal)
        names = _feature_names(table, target, reading)
        taken, problems = columns.take_all(names)
        summaries = {column.name: column_summary(column) for column in taken}
        summaries |= {error.name: refused_summary(error, table.frame) for error in problems}
        if target is not None:
            taken.append(replace(columns.take(target, "number"), kind="target"))
            summaries[target] = column_summary(taken[-1])
        _say(path, table, taken)
        return [summaries[name] for name in table.frame.columns if name in summaries]


def read_features(
    path: Path, model: Any, reading: Reading = AS_FOUND, keep: Sequence[str] | None = ()
) -> tuple[Any, Any]:
    """The features that a fitted model takes, and columns of the table as it was read.

    `keep` names these columns, and None keeps all. The others leave the memory.
    """
    table = read_table(path, reading, _labels_of(model))
    with _errors_name_the_file(path):
        check_present(table.frame, keep or ())
        kept = table.frame[list(table.frame.columns if keep is None else keep)]
        taken = model_columns(table, model, reading, release=True)
        _say(path, table, taken)
        return features_for_model(taken, model), kept


def read_features_and_target(
    path: Path, model: Any, target: str, reading: Reading = AS_FOUND
) -> tuple[Any, Array]:
    """The features that a fitted model takes, and the targets to judge it by."""
    table = read_table(path, reading, _labels_of(model))
    with _errors_name_the_file(path):
        if target in (model.columns_.names or []):
            raise TableError(f"the model predicts from {target!r}; name the column it predicts")
        columns = TableColumns(table, reading.decimal)
        y, known = _known_target(columns, target, reading, table.remarks)
        table.frame = table.frame.drop(columns=target)
        taken = model_columns(table, model, reading)
        _say(path, table, taken)
        x = features_for_model(taken, model)
        if model.columns_.names is not None:
            x.index = range(1, len(x) + 1)  # rows count from 1, as in all messages
        return _rows(x, known), y


def model_columns(
    table: Table, model: Any, reading: Reading, release: bool = False
) -> list[TakenColumn]:
    """The columns that a model takes, by name, or by position if it was trained without names.

    With `release`, they leave the table as they are taken, which saves memory.
    """
    names, kinds = model.columns_.names, model.columns_.kinds
    unused = [name for name, kind in zip(names or [], kinds, strict=False) if kind == "ignored"]
    for name in set(unused) - set(table.frame.columns):
        table.frame[name] = None  # nobody will look at it
    present = list(table.frame.columns)
    if names is None and len(present) != len(kinds):
        need = f"the model needs {len(kinds)} columns, without names"
        raise TableError(f"{need}; the table has {len(present)}")
    columns = TableColumns(table, reading.decimal)
    taken, problems = columns.take_all(names or present, kinds, release)
    if problems:
        # None of them can be left out, because the model needs all.
        raise columns_refused(problems, may_drop=False)
    return taken


def features_for_model(taken: Sequence[TakenColumn], model: Any) -> Any:
    """X for a model, from its columns."""
    x = features_frame(taken)
    # Without names, because scikit-learn warns of names that training did not have.
    return x if model.columns_.names is not None else x.to_numpy()


def _labels_of(model: Any) -> list[str]:
    # In training, a label such as 1.50 was text if other labels of its column were no numbers. It
    # is read as text again, even if the table to predict holds nothing but numbers there.
    columns = zip(model.columns_.names or [], model.columns_.kinds, strict=False)
    return [name for name, kind in columns if kind in TEXT_KINDS]


def _known_target(
    columns: TableColumns, target: str, reading: Reading, remarks: list[str]
) -> tuple[Array, Any]:
    """The targets that are known, and the mask of their rows; others make a remark."""
    if columns.has_no_number(target):
        raise TableError(f"the target {target!r} is text, and not numbers; name another column")
    # Copied, because torch refuses read-only arrays, which pandas may give.
    values = np.array(columns.take(target, "number").values, dtype=np.float64)
    known = ~np.isnan(values)
    missing = int((~known).sum())
    if missing == len(known):
        raise TableError(f"the target {target!r} is empty in every row; name another column")
    if missing and reading.strict:
        row = int(np.flatnonzero(~known)[0]) + 1
        raise TableError(
            f"column {target!r}, row {row}: the cell is empty, as in {missing} of {len(known)} "
            "rows; leave --strict out to leave them out"
        )
    if missing:
        remarks.append(f"left out {missing} of {len(known)} rows, which have no target {target!r}")
    return values[known], known


def _rows(x: Any, known: Any) -> Any:
    """The rows that are known, without a copy if all are."""
    return x if known.all() else x[known]


def _feature_names(table: Table, target: str | None, reading: Reading) -> list[str]:
    """The columns to learn from: all but the target, or as the command line chooses."""
    check_present(table.frame, [*(reading.features or ()), *reading.drop])
    chosen = table.frame.columns if reading.features is None else reading.features
    names = [name for name in chosen if name != target and name not in reading.drop]
    if not names:
        besides = f" besides the target {target!r}" if target is not None else ""
        raise TableError(f"no columns{besides} to learn from; need at least one feature")
    return names


def _say(path: Path, table: Table, columns: Sequence[TakenColumn]) -> None:
    """Say what was done to read a table, when nothing can go wrong with it any more."""
    for remark in [*table.remarks, *_spellings(columns)]:
        click.echo(f"{input_name(path)}: {remark}", err=True)


def _spellings(columns: Sequence[TakenColumn]) -> list[str]:
    """One line about the columns of text that were read as numbers, if there are any."""
    by_spelling: dict[str, list[str]] = {}
    for column in columns:
        for spelling in column.spelling:
            by_spelling.setdefault(spelling, []).append(column.name)
    said = [f"{spelling} in {_listed(names)}" for spelling, names in by_spelling.items()]
    return [f"text read as numbers: {'; '.join(said)}"] if said else []


def _listed(names: Sequence[str]) -> str:
    rest = len(names) - MAX_COLUMNS_SAID
    listed = ", ".join(map(repr, names[:MAX_COLUMNS_SAID]))
    return listed if rest <= 0 else f"{listed} and {rest} more"


@contextmanager
def _errors_name_the_file(path: Path) -> Iterator[None]:
    try:
        yield
    except TableError as error:
        raise TableError(f"{input_name(path)}: {error}") from error
