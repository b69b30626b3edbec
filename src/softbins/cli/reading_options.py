"""The options that say how a table is read, which all commands that read one share."""

from __future__ import annotations

import codecs
import csv
import functools
from collections.abc import Callable
from typing import Any

import click

from softbins.cli.options import Command
from softbins.cli.reading import COMMA, POINT, Reading

FORMATS = ("csv", "parquet", "feather", "json", "excel")
NAMED_SEPARATORS = {"tab": "\t", "\\t": "\t", "space": " "}


def column_names(context: click.Context, parameter: click.Parameter, value: str | None) -> Any:
    """Read names with commas between them; a name with a comma stands in quotes."""
    if value is None:
        return None
    names = [name.strip() for name in next(csv.reader([value], skipinitialspace=True), [])]
    if not all(names) or not names:
        raise click.BadParameter(f"need names with commas between them, got {value!r}")
    return tuple(names)


def separator(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Read a mark, or the name of one that is hard to type."""
    mark = NAMED_SEPARATORS.get(value or "", value)
    if mark is not None and (len(mark) != 1 or mark in "\"'\r\n"):
        raise click.BadParameter(f"need one character, or tab, got {value!r}")
    return mark


def known_encoding(context: click.Context, parameter: click.Parameter, value: str | None) -> Any:
    """Check the name of an encoding."""
    try:
        return None if value is None else codecs.lookup(value).name
    except LookupError:
        raise click.BadParameter(
            f"unknown encoding {value!r}; use utf-8, latin-1 or utf-16"
        ) from None


DECIMAL = click.option(
    "--decimal", type=click.Choice([POINT, COMMA]), help="Decimal mark of numbers in text."
)
THOUSANDS = click.option(
    "--thousands", type=click.Choice([POINT, COMMA]), help="Mark between thousands in text."
)
FILE_OPTIONS = (
    click.option("--format", type=click.Choice(FORMATS), help="Kind of table, if not by suffix."),
    click.option("--sep", callback=separator, help="Between cells of CSV: one character, or tab."),
    DECIMAL,
    THOUSANDS,
    click.option("--encoding", callback=known_encoding, help="Of CSV, such as utf-8 or latin-1."),
    click.option("--sheet", metavar="NAME", help="Sheet of an Excel file."),
)
STRICT = click.option("--strict", is_flag=True, help="Refuse rows without a target.")
CHOICE_OF_COLUMNS = (
    click.option("--drop", metavar="COL,...", callback=column_names, help="Columns to leave out."),
    click.option(
        "--features", metavar="COL,...", callback=column_names, help="Learn from these alone."
    ),
)


def reading_options(
    target: bool = False, columns: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options of reading a table, which reach the command together, as `reading`.

    With `target`, rows without one can be refused; with `columns`, features can be chosen.
    """
    options = (*FILE_OPTIONS, *(CHOICE_OF_COLUMNS if columns else ()))
    options += (STRICT,) if target else ()

    def add(command: Command) -> Any:
        @functools.wraps(command)
        def with_reading(
            format: str | None,  # noqa: A002
            sep: str | None,
            decimal: str | None,
            thousands: str | None,
            encoding: str | None,
            sheet: str | None,
            drop: tuple[str, ...] | None = None,
            features: tuple[str, ...] | None = None,
            strict: bool = False,
            **others: Any,
        ) -> Any:
            mark = _decimal(decimal, thousands)
            reading = Reading(sep, mark, encoding, sheet, format, drop or (), features, strict)
            return command(reading=reading, **others)

        return functools.reduce(lambda result, one: one(result), reversed(options), with_reading)

    return add


def _decimal(decimal: str | None, thousands: str | None) -> str | None:
    """The decimal mark that is given, or that the mark between thousands leaves."""
    if thousands is None:
        return decimal
    left = COMMA if thousands == POINT else POINT
    if decimal not in (None, left):
        raise click.UsageError(f"--decimal and --thousands: both are {decimal!r}; change one")
    return left
