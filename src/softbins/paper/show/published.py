"""What the paper prints, in the target's own unit, to hold a reproduction against.

The numbers and where they stand are in published.toml, digit for digit; the factor 10^2 of the
paper's tables is taken out here.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Any

DATASETS = ("bike", "ct", "song")
SPLITS = ("random", "fixed")
METHODS = (
    "linear",
    "l2",
    "l1",
    "l2-noise",
    "l2-clipping",
    "hl-onebin",
    "hl-uniform",
    "hl-gaussian",
    "mdn",
    "l2-softmax",
)
METRICS = (
    "train_objective",
    "train_mae",
    "train_rmse",
    "test_objective",
    "test_mae",
    "test_rmse",
)
# Of the representation experiment (Table 2).
VARIANTS = ("default", "fixed", "initialized", "random")


@dataclass(frozen=True)
class PrintedNumber:
    """A printed result: mean and standard error in their own unit, and the text as printed.

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
    """What the experiments on a dataset were run with.

    `noise`, `clip`, `epsilon` and `components` are the grids from which the method that has such
    a parameter chose it; `smallest` is what MDN adds to its standard deviations.
    """

    runs: int
    epochs: int
    hidden: tuple[int, ...]
    batch_size: int
    learning_rate: float
    dropout: float
    early_stopping: bool
    bins: int
    smallest: float
    noise: tuple[float, ...]
    clip: tuple[float, ...]
    epsilon: tuple[float, ...]
    components: tuple[int, ...]
    wide_hidden: tuple[int, ...] | None = None


def printed_result(
    dataset: str, method: str, metric: str, split: str = "random"
) -> PrintedNumber | None:
    """A figure of the tables of results (Tables 1, 4, 5 and 6), or None if none is printed."""
    _check("dataset", dataset, DATASETS)
    _check("method", method, METHODS)
    _check("metric", metric, METRICS)
    _check("split", split, SPLITS)
    return _figure("results", dataset, split, "figures", method, metric)


def printed_representation(
    dataset: str, method: str, variant: str, metric: str
) -> PrintedNumber | None:
    """A figure of the representation experiment (Table 2), or None if none is printed.

    The table calls l2 "Regression".
    """
    _check("dataset", dataset, DATASETS)
    _check("method", method, METHODS)
    _check("variant", variant, VARIANTS)
    _check("metric", metric, METRICS)
    return _figure("representation", dataset, "figures", method, variant, metric)


def printed_overview(dataset: str) -> Overview:
    """The dataset's row of Table 3."""
    _check("dataset", dataset, DATASETS)
    return Overview(**_content()["overview"]["datasets"][dataset])


def quoted_result(dataset: str, name: str) -> PrintedNumber | None:
    """A result that stands in the text only, or None if it is quoted for another dataset."""
    _check("dataset", dataset, DATASETS)
    known = _content()["quoted"]
    _check("name", name, sorted(name for entries in known.values() for name in entries))
    entry = known.get(dataset, {}).get(name)
    return None if entry is None else _parsed(entry["printed"], entry["scale"])


def printed_setup(dataset: str) -> Setup:
    """The settings of the experiments on a dataset."""
    _check("dataset", dataset, DATASETS)
    chosen = _content()["setup"]["common"] | _content()["setup"][dataset]
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in chosen.items()
    }
    return Setup(**values)


def agrees(mean: float, stderr: float | None, figure: PrintedNumber | None) -> bool | None:
    """Whether a result is within two combined standard errors of a printed one.

    A missing standard error counts as 0. None where the paper prints nothing.
    """
    if stderr is not None and not stderr >= 0:
        raise ValueError(
            f"stderr: need a number that is not negative, got {stderr}; "
            "a single run has none, give None"
        )
    if figure is None:
        return None
    return abs(mean - figure.mean) <= 2 * math.hypot(stderr or 0.0, figure.stderr or 0.0)


@cache
def _content() -> dict[str, Any]:
    return tomllib.loads(files("softbins.paper.show").joinpath("published.toml").read_text("utf-8"))


def _check(argument: str, value: str, known: Iterable[str]) -> None:
    if value not in known:
        raise ValueError(f"{argument}: expected one of {', '.join(known)}, got {value!r}")


def _figure(*path: str) -> PrintedNumber | None:
    """The figure at the end of a path through the tables, which share one factor."""
    found: Any = _content()
    for name in path:
        if name not in found:
            return None
        found = found[name]
    return _parsed(found, _content()["scale"])


def _parsed(printed: str, scale: int) -> PrintedNumber:
    # In decimals, so that 2495.21 becomes exactly what 24.9521 is.
    mean, *rest = (float(Decimal(number) / scale) for number in printed.split(" ± "))
    return PrintedNumber(mean, rest[0] if rest else None, printed)
