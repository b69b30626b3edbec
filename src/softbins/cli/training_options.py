"""The options that say how to train, and the estimator that they ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from softbins.cli.options import COUNT, OBJECTIVES, POSITIVE, Command, epochs, listed, option, seed

# The objective of HistogramRegressor; NeuralRegressor has all the others.
DEFAULT_OBJECTIVE = "hl-gaussian"
# Options that only the default objective has, by their parameters.
DEFAULT_OBJECTIVE_ONLY = {
    "preset": "--preset",
    "trees": "--no-trees",
    "groups": "--group",
    "time": "--time",
    "plain": "--plain",
}
CHOSEN_BY_ESTIMATOR: dict[str, Any] = {"default": None, "show_default": "chosen for the table"}

TRAINING_OPTIONS = (
    option("--objective", type=click.Choice(OBJECTIVES), default=DEFAULT_OBJECTIVE),
    option(
        "--preset",
        type=click.Choice(["default", "fast"]),
        help="Fast takes a quarter of the time, or half for few rows.",
    ),
    option(
        "--hidden",
        callback=listed(COUNT, repeats=True),
        help="Sizes of hidden layers, such as 64,64.",
        **CHOSEN_BY_ESTIMATOR,
    ),
    option(
        "--bins", type=click.IntRange(min=2), help="Bins of the histogram.", **CHOSEN_BY_ESTIMATOR
    ),
    option("--sigma", type=float, callback=POSITIVE, help="Blur, in bins.", **CHOSEN_BY_ESTIMATOR),
    option("--members", type=COUNT, help="Networks to average.", **CHOSEN_BY_ESTIMATOR),
    epochs("max_epochs", **CHOSEN_BY_ESTIMATOR),
    option(
        "--max-seconds",
        type=float,
        callback=POSITIVE,
        help="Time for the whole training, about.",
    ),
    option(
        "--early-stopping/--no-early-stopping",
        default=None,
        help="Hold rows out, keep the best epoch on them and calibrate; the default for "
        "hl-gaussian.",
    ),
    option(
        "--group",
        "groups",
        metavar="COLUMN",
        help="Hold out rows of one value together, such as those of a patient; not a feature.",
    ),
    option("--time", metavar="COLUMN", help="Hold out later rows than those that are learnt from."),
    click.option("--no-trees", "trees", flag_value=False, default=None, help="Only networks."),
    click.option("--plain", is_flag=True, default=None, help="The paper's network, nothing more."),
    seed("random_state"),
)


def training_options(command: Command) -> Command:
    """Add the options that say how to train; those that are not given are None."""
    for add in reversed(TRAINING_OPTIONS):
        command = add(command)
    return command


def check_training_options(given: Mapping[str, Any]) -> None:
    """Raise if an option belongs to another objective, or contradicts another one."""
    special = [word for name, word in DEFAULT_OBJECTIVE_ONLY.items() if given[name] is not None]
    if special and given["objective"] != DEFAULT_OBJECTIVE:
        wrong = f"only {DEFAULT_OBJECTIVE} has it, but --objective is {given['objective']}"
        raise click.UsageError(f"{special[0]}: {wrong}; leave one of them out")
    if given["plain"] and len(special) > 1:
        raise click.UsageError(f"{special[0]}: has no meaning with --plain; leave one of them out")


def new_estimator(given: Mapping[str, Any], **more: Any) -> Any:
    """An estimator with the options that were given, and its own defaults for all others."""
    # Imported here because they load torch, which a mistake in an option need not wait for.
    from softbins.tabular.histogram_regressor import HistogramRegressor
    from softbins.tabular.neural_regressor import NeuralRegressor

    chosen = {name: value for name, value in given.items() if value is not None} | more
    objective, plain = chosen.pop("objective"), chosen.pop("plain", False)
    if objective != DEFAULT_OBJECTIVE:
        return NeuralRegressor(objective, **chosen)
    return HistogramRegressor.as_in_paper(**chosen) if plain else HistogramRegressor(**chosen)
