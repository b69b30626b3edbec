"""The options of the command line: how they are read and checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

import softbins.cli.table_files as tables
from softbins._extras import optional_import

HISTOGRAMS = ("l2-softmax", "hl-onebin", "hl-uniform", "hl-gaussian")
OBJECTIVES = ("l2", "l1", "l2-noise", "l2-clipping", *HISTOGRAMS, "mdn")
METHODS = ("linear", *OBJECTIVES)
PICTURES = (".svg", ".png", ".pdf")
PAGES = (".html", ".htm")

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

    def read(context: click.Context, parameter: click.Parameter, value: str | None) -> Any:
        if value is None:
            return None
        items = tuple(kind.convert(word.strip(), parameter, context) for word in value.split(","))
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


def check_page(name: str) -> None:
    """Raise unless a file's suffix says that it is a page."""
    if Path(name).suffix.lower() not in PAGES:
        raise ValueError(f"{name}: a page is written to a file that ends in {' or '.join(PAGES)}")


def check_drawn(paths: list[Path | None], *inputs: Path) -> None:
    """Raise unless what is asked for can be drawn, and replaces nothing that is read."""
    for path in filter(None, paths):
        tables.check_different(path, *inputs)
        if path.suffix.lower() in PAGES:
            optional_import("jinja2", "plots")
        optional_import("matplotlib", "plots")


def epochs(name: str, **default: Any) -> Callable[[Command], Command]:
    """--epochs, for the parameter of that name."""
    text = "Passes over the data, at most."
    return option("--epochs", name, type=click.IntRange(min=1), help=text, **default)


def seed(name: str) -> Callable[[Command], Command]:
    """--seed, for the parameter of that name."""
    text = "The same seed gives the same result."
    return option("--seed", name, type=click.IntRange(0, 2**32 - 1), default=0, help=text)


DATA = click.argument("data", type=click.Path(path_type=Path))
MODEL = click.argument("model", type=click.Path(path_type=Path))
TARGET = click.option("--target", required=True, metavar="COL", help="Column to predict.")
PAGE = click.option(
    "--page", metavar="FILE", callback=new_file(check_page), help="Write it as one .html page."
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
COUNT = click.IntRange(min=1)
SIZES, CHOSEN = listed(COUNT, repeats=True), listed(click.Choice(METHODS))
POSITIVE, SHARE = between(0, math.inf), between(0, 1)
TABLE, PICTURE = new_file(tables.check_suffix), new_file(picture_format)


# How to train

TABULAR = "hl-gaussian"  # the objective with an estimator made for tables
OWN = {"preset": "--preset", "trees": "--no-trees", "plain": "--plain"}
CHOOSES: dict[str, Any] = {"default": None, "show_default": "chosen for the table"}
FAST = "Fast takes a quarter of the time, or half for few rows."
STOPPING = "Hold rows out, keep the best epoch on them and calibrate; the default for hl-gaussian."
TRAINING = (
    option("--objective", type=click.Choice(OBJECTIVES), default=TABULAR),
    option("--preset", type=click.Choice(["default", "fast"]), help=FAST),
    option("--hidden", callback=SIZES, help="Sizes of hidden layers, such as 64,64.", **CHOOSES),
    option("--bins", type=click.IntRange(min=2), help="Bins of the histogram.", **CHOOSES),
    option("--sigma", type=float, callback=POSITIVE, help="Blur, in bins.", **CHOOSES),
    option("--members", type=COUNT, help="Networks to average.", **CHOOSES),
    epochs("max_epochs", **CHOOSES),
    option("--max-seconds", type=float, callback=POSITIVE, help="Time for networks, at most."),
    option("--early-stopping/--no-early-stopping", default=None, help=STOPPING),
    click.option("--no-trees", "trees", flag_value=False, default=None, help="Only networks."),
    click.option("--plain", is_flag=True, default=None, help="The paper's network, nothing more."),
    seed("random_state"),
)


def training(command: Command) -> Command:
    """The options that say how to train; those that are not given are None."""
    for add in reversed(TRAINING):
        command = add(command)
    return command


def check_training(given: Mapping[str, Any]) -> None:
    """Raise if an option belongs to another objective, or contradicts another one."""
    own = [word for name, word in OWN.items() if given[name] is not None]
    if own and given["objective"] != TABULAR:
        wrong = f"only {TABULAR} has it, but --objective is {given['objective']}"
        raise click.UsageError(f"{own[0]}: {wrong}; leave one of them out")
    if given["plain"] and len(own) > 1:
        raise click.UsageError(f"{own[0]}: has no meaning with --plain; leave one of them out")


def estimator(given: Mapping[str, Any], **more: Any) -> Any:
    """An estimator with the options that were given, and its own defaults for all others."""
    # Not at the top: they load torch, for which a mistake in a table need not wait.
    from softbins.tabular.histogram_regressor import HistogramRegressor
    from softbins.tabular.neural_regressor import NeuralRegressor

    chosen = {name: value for name, value in given.items() if value is not None} | more
    objective, plain = chosen.pop("objective"), chosen.pop("plain", False)
    if objective != TABULAR:
        return NeuralRegressor(objective, **chosen)
    return HistogramRegressor.as_in_paper(**chosen) if plain else HistogramRegressor(**chosen)
