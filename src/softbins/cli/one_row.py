"""One row on the command line: `size=80 town=A` instead of a table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from softbins._core.extras import optional_import
from softbins._core.text import did_you_mean
from softbins.cli.reading import Table
from softbins.cli.table_columns import TableColumns, features_frame
from softbins.cli.table_errors import TableError


def file_or_fields(words: Sequence[str]) -> Path | dict[str, str]:
    """The one file that is named, or else what each field is.

    A word is a field if it has an equals sign and is not the name of a file that exists.
    """
    fields = [word for word in words if "=" in word and not os.path.exists(word)]
    if not words:
        raise click.UsageError("Missing argument 'DATA'.")
    if not fields and len(words) == 1:
        return Path(words[0])
    if len(fields) < len(words):
        other = next(word for word in words if word not in fields)
        raise click.UsageError(f"{other!r}: need one table, or fields such as size=80 alone")
    pairs = [field.partition("=")[::2] for field in fields]
    repeated = [name for i, (name, _) in enumerate(pairs) if name in dict(pairs[:i])]
    if repeated or not all(name.strip() for name, _ in pairs):
        problem = f"{repeated[0]!r} is given twice" if repeated else "a field has no name"
        raise click.UsageError(f"{problem}; need each field once, such as size=80")
    return {name.strip(): text for name, text in pairs}


def one_row_features(
    fields: dict[str, str], model: Any, decimal: str | None
) -> tuple[Any, Any, list[str]]:
    """X for a model, the same row as text, and what is to be said about it.

    A text such as 1.200 is asked about: one row has no other cells that would show what it means.
    """
    names, kinds = model.columns_.names, model.columns_.kinds
    if names is None:
        raise TableError("the model was trained without names of columns; give it a table")
    unknown = [f"{name!r}{did_you_mean(name, names)}" for name in fields if name not in names]
    if unknown:
        needs = ", ".join(map(repr, names))
        raise TableError(f"no column {', '.join(unknown)}; the model needs {needs}")
    row = {name: [fields.get(name, "")] for name in names}
    frame = optional_import("pandas").DataFrame(row, dtype="str")
    table = Table(frame, point_by_default=False)
    taken, problems = TableColumns(table, decimal).take_all(names, kinds)
    if problems:
        said = [f"{e.name}: {e.brief.removeprefix('row 1: ')}" for e in problems]
        raise TableError("; ".join(said))
    return features_frame(taken), table.frame, [*_gaps(row, model), *_new_categories(row, model)]


def _gaps(row: dict[str, list[str]], model: Any) -> list[str]:
    """A line about the columns that have nothing in a row."""
    columns = zip(model.columns_.names, model.columns_.kinds, strict=True)
    gaps = [name for name, kind in columns if kind != "ignored" and not row[name][0].strip()]
    return [f"not given, and taken for gaps: {', '.join(gaps)}"] if gaps else []


def _new_categories(row: dict[str, list[str]], model: Any) -> list[str]:
    """A line for each text that is no category of its column, which may be misspelt."""
    from softbins.tabular.categories import CategoryEncoder

    said = []
    for name, encoder in zip(model.columns_.names, model.columns_.encoders, strict=True):
        text = row[name][0].strip()
        if text and isinstance(encoder, CategoryEncoder) and not encoder.knows(text):
            question = did_you_mean(text, [str(label) for label in encoder.labels])
            said.append(f"{name}: {text!r} is no category that the model knows{question}")
    return said
