"""The options and arguments that several commands share: how they are read and checked.

An option's variable has the name of the parameter that it becomes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from softbins.cli.output_files import check_new_file, check_page_name

Command = TypeVar("Command", bound=Callable[..., Any])
Callback = Callable[[click.Context, click.Parameter, Any], Any]

# The same as in `softbins.nn.objectives`, which would load torch.
OBJECTIVES = (
    *("l2", "l1", "l2-noise", "l2-clipping"),
    *("l2-softmax", "hl-onebin", "hl-uniform", "hl-gaussian", "mdn"),
)
# The same as in `softbins.report.cross_validation`; libraries are compared if they are named.
METHODS = ("softbins", "softbins-fast", "trees", "linear", "constant", *OBJECTIVES)
LIBRARIES = ("lightgbm", "catboost", "xgboost")


def option(*names: str, **settings: Any) -> Callable[[Command], Command]:
    """An option whose help shows its default."""
    return click.option(*names, **{"show_default": True, **settings})


def examples(*lines: str) -> str:
    r"""The end of a command's help; the mark \b keeps click from joining the lines."""
    return "\n".join(["\b", "Examples:", *(f"  softbins {line}" for line in lines)])


def between(low: float, high: float) -> Callback:
    """Check one number or several; NaN, which passes click's own ranges, is refused."""
    below = f" and less than {high:g}" if math.isfinite(high) else ", and finite"

    def check(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        for number in value if isinstance(value, tuple) else (value,):
            if number is not None and not low < number < high:
                raise click.BadParameter(f"need more than {low:g}{below}, got {number:.15g}")
        return value

    return check


def listed(kind: click.types.ParamType[Any], repeats: bool = False) -> Callback:
    """Read items with commas between them; an item may come twice only if `repeats`."""

    def read(context: click.Context, parameter: click.Parameter, value: str | None) -> Any:
        if value is None:
            return None
        items = tuple(kind.convert(word.strip(), parameter, context) for word in value.split(","))
        if not repeats and len(set(items)) < len(items):
            raise click.BadParameter(f"need every item once, got {value!r}")
        return items

    return read


def probabilities(context: click.Context, parameter: click.Parameter, value: str | None) -> Any:
    """Read probabilities with commas between them."""
    return PROBABILITY(context, parameter, listed(click.FLOAT)(context, parameter, value))


def new_file(check_name: Callable[[str], object] = str, stdout: bool = False) -> Callback:
    """Check that a file can be written, before the work that is to be written to it.

    `check_name` raises a ValueError for a name that does not fit; "-" is allowed if `stdout`.
    """

    def check(context: click.Context, parameter: click.Parameter, value: str | None) -> Any:
        if value is None or (stdout and value == "-"):
            return value
        try:
            check_name(value)
            check_new_file(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error
        return Path(value)

    return check


def epochs(
    name: str, text: str = "Passes over the data, at most.", **default: Any
) -> Callable[[Command], Command]:
    """--epochs, for the parameter of that name."""
    return option("--epochs", name, type=COUNT, help=text, **default)


def seed(name: str) -> Callable[[Command], Command]:
    """--seed, for the parameter of that name."""
    text = "The same seed gives the same result."
    return option("--seed", name, type=click.IntRange(0, 2**32 - 1), default=0, help=text)


def model_output(command: Command) -> Command:
    """-o for a model, and --force; the command passes both to `check_model_output`."""
    force = click.option("--force", is_flag=True, help="Replace a file that is no model, too.")
    name = click.option(
        "-o", "output", metavar="MODEL", required=True, callback=new_file(), help="The file."
    )
    return name(force(command))


COUNT = click.IntRange(min=1)
ALL_CORES = -1  # as `n_jobs` of an estimator
POSITIVE = between(0, math.inf)
PROBABILITY = between(0, 1)

DATA = click.argument("data", type=click.Path(path_type=Path))
MODEL = click.argument("model", type=click.Path(path_type=Path))
TARGET = click.option("--target", required=True, metavar="COL", help="Column to predict.")
PAGE = click.option(
    "--page", metavar="FILE", callback=new_file(check_page_name), help="Write it as one .html page."
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
JOBS = click.option(
    "--jobs",
    "n_jobs",
    type=COUNT,
    help="Cores to use, with the same result for any number.  [default: all]",
)
