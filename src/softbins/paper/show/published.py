"""The results that the paper prints, in the target's own unit, for comparison with ours.

The numbers are in published.toml, digit for digit and with their place in the paper. The factor
10^2 of the paper's tables is taken out here.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Any

from softbins.paper.data.datasets import DATASET_TITLES
from softbins.paper.run.methods import METHODS
from softbins.paper.run.plan import REPRESENTATIONS

# The splits that the paper has results for.
SPLITS = ("random", "fixed")
METRICS = ("train_objective", "train_mae", "train_rmse", "test_objective", "test_mae", "test_rmse")


@dataclass(frozen=True)
class PrintedNumber:
    """A result of the paper: mean and standard error in their own unit, and the text as printed.

    `stderr` is None where the paper prints a mean alone.
    """

    mean: float
    stderr: float | None
    printed: str


@dataclass(frozen=True)
class Overview:
    """A dataset as the paper counts it: rows, features, and the range of the target."""

    train: int
    test: int
    features: int
    low: int
    high: int


@dataclass(frozen=True)
class Setup:
    """The settings with which the paper's experiments on a dataset were run.

    `noise`, `clip`, `epsilon` and `components` are the grids from which the method that has such
    a parameter chose it. `mdn_deviation_floor` is what MDN adds to its standard deviations.
    """

    runs: int
    epochs: int
    hidden: tuple[int, ...]
    batch_size: int
    learning_rate: float
    dropout: float
    early_stopping: bool
    bins: int
    mdn_deviation_floor: float
    noise: tuple[float, ...]
    clip: tuple[float, ...]
    epsilon: tuple[float, ...]
    components: tuple[int, ...]
    wide_hidden: tuple[int, ...] | None = None


def printed_result(
    dataset: str, method: str, metric: str, split: str = "random"
) -> PrintedNumber | None:
    """A result of Tables 1, 4, 5 and 6, or None if the paper prints none."""
    check_known("dataset", dataset, DATASET_TITLES)
    check_known("method", method, METHODS)
    check_known("metric", metric, METRICS)
    check_known("split", split, SPLITS)
    return _find_number(("results", dataset, split, "figures", method, metric))


def printed_representation(
    dataset: str, method: str, variant: str, metric: str
) -> PrintedNumber | None:
    """A result of the representation experiment (Table 2), or None if the paper prints none.

    The table calls l2 "Regression".
    """
    check_known("dataset", dataset, DATASET_TITLES)
    check_known("method", method, METHODS)
    check_known("variant", variant, REPRESENTATIONS)
    check_known("metric", metric, METRICS)
    return _find_number(("representation", dataset, "figures", method, variant, metric))


def printed_overview(dataset: str) -> Overview:
    """The row of Table 3 that describes a dataset."""
    check_known("dataset", dataset, DATASET_TITLES)
    return Overview(**_content()["overview"]["datasets"][dataset])


def quoted_result(dataset: str, name: str) -> PrintedNumber | None:
    """A result that stands in the text only, or None if it is quoted for another dataset."""
    check_known("dataset", dataset, DATASET_TITLES)
    known = _content()["quoted"]
    check_known("name", name, sorted(name for entries in known.values() for name in entries))
    entry = known.get(dataset, {}).get(name)
    return None if entry is None else _parse_number(entry["printed"], entry["scale"])


def printed_setup(dataset: str) -> Setup:
    """The settings of the paper's experiments on a dataset."""
    check_known("dataset", dataset, DATASET_TITLES)
    chosen = _content()["setup"]["common"] | _content()["setup"][dataset]
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in chosen.items()
    }
    return Setup(**values)


def agrees(mean: float, stderr: float | None, number: PrintedNumber | None) -> bool | None:
    """Whether a result is within two combined standard errors of a printed one.

    A missing standard error counts as 0. None where the paper prints nothing.
    """
    if stderr is not None and not stderr >= 0:
        raise ValueError(
            f"stderr: need a number that is not negative, got {stderr}; "
            "a single run has none, give None"
        )
    if number is None:
        return None
    return abs(mean - number.mean) <= 2 * math.hypot(stderr or 0.0, number.stderr or 0.0)


def check_known(argument: str, value: str, known: Iterable[str]) -> None:
    """Raise `ValueError` that lists the known values if a value is not one of them."""
    if value not in known:
        raise ValueError(f"{argument}: expected one of {', '.join(known)}, got {value!r}")


@cache
def _content() -> dict[str, Any]:
    return tomllib.loads(files("softbins.paper.show").joinpath("published.toml").read_text("utf-8"))


def _find_number(path: Sequence[str]) -> PrintedNumber | None:
    """The number at the end of a path through the tables, which share one factor."""
    found: Any = _content()
    for name in path:
        if name not in found:
            return None
        found = found[name]
    return _parse_number(found, _content()["scale"])


def _parse_number(printed: str, scale: int) -> PrintedNumber:
    # Decimal arithmetic makes 2495.21 / 100 exactly the float that 24.9521 is.
    mean, *stderr = (float(Decimal(number) / scale) for number in printed.split(" ± "))
    return PrintedNumber(mean, stderr[0] if stderr else None, printed)
