"""The options of the command line: how they are read and checked."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

import softbins.tables as tables

HISTOGRAMS = ("l2-softmax", "hl-onebin", "hl-uniform", "hl-gaussian")
OBJECTIVES = ("l2", "l1", "l2-noise", "l2-clipping", *HISTOGRAMS, "mdn")
METHODS = ("linear", *OBJECTIVES)
PICTURES = (".svg", ".png", ".pdf")

Command = TypeVar("Command", bound=Callable[..., Any])
Callback = Callable[[click.Context, click.Parameter, Any], Any]

# The names of options in the functions are those of the parameters that they become.


def option(*names: str, **settings: Any) -> Callable[[Command], Command]:
    """An option whose help shows its default."""
    return click.option(*names, **{"show_default": True, **settings})


def examples(*lines: str) -> str:
    """The end of a command's help, with a mark that keeps click from joining the lines."""
    return "\n".join(["\b", "Examples:", *(f"  softbins {line}" for line in lines)])


def between(low: float, high: float) -> Callback:
    """Checks numbers, one or several; NaN, which passes click's own ranges, is refused."""
    below = f" and less than {high:g}" if math.isfinite(high) else ", and finite"

    def check(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        for number in value if isinstance(value, tuple) else (value,):
            if number is not None and not low < number < high:
                raise click.BadParameter(f"need more than {low:g}{below}, got {number:g}")
        return value

    return check


def listed(kind: click.types.ParamType[Any], repeats: bool = False) -> Callback:
    """Reads items with commas between them."""

    def read(context: click.Context, parameter: click.Parameter, value: Any) -> tuple[Any, ...]:
        words = [] if value is None else [word.strip() for word in value.split(",")]
        items = tuple(kind.convert(word, parameter, context) for word in words)
        if not repeats and len(set(items)) < len(items):
            raise click.BadParameter(f"need every item once, got {value!r}")
        return items

    return read


def levels(context: click.Context, parameter: click.Parameter, value: str | None) -> Any:
    """Reads probabilities with commas between them."""
    return between(0, 1)(context, parameter, listed(click.FLOAT)(context, parameter, value))


def new_file(check: Callable[[str], object] = str) -> Callback:
    """Checks that a file can be written, before the work that is to be written to it."""

    def checked(context: click.Context, parameter: click.Parameter, value: str | None) -> Any:
        if value is None or (value == "-" and check is tables.check_suffix):
            return value
        try:
            check(value)
            tables.check_new_file(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error
        return Path(value)

    return checked


def picture_format(name: str) -> str:
    """The kind of picture that a file's suffix asks for."""
    suffix = Path(name).suffix.lower()
    if suffix not in PICTURES:
        raise ValueError(f"{name}: unknown kind of picture; use one of {', '.join(PICTURES)}")
    return suffix[1:]


def epochs(name: str) -> Callable[[Command], Command]:
    """--epochs, for the parameter of that name."""
    text = "Passes over the data, at most."
    return option("--epochs", name, type=click.IntRange(min=1), default=100, help=text)


def seed(name: str) -> Callable[[Command], Command]:
    """--seed, for the parameter of that name."""
    text = "The same seed gives the same result."
    return option("--seed", name, type=click.IntRange(0, 2**32 - 1), default=0, help=text)


DATA = click.argument("data", type=click.Path(path_type=Path))
MODEL = click.argument("model", type=click.Path(path_type=Path))
TARGET = click.option("--target", required=True, metavar="COL", help="Column to predict.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
COUNT = click.IntRange(min=1)
SIZES, CHOSEN = listed(COUNT, repeats=True), listed(click.Choice(METHODS))
POSITIVE, SHARE = between(0, math.inf), between(0, 1)
TABLE, PICTURE = new_file(tables.check_suffix), new_file(picture_format)
