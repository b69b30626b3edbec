"""What `HistogramRegressor` does where it is left to choose: by the number of rows and the noise.

The numbers were chosen by errors on tables of benchmarks/accuracy, some of them on a few only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softbins._checks import require_number
from softbins.bins import Bins
from softbins.tabular.columns import Columns

Array = NDArray[np.float64]
BySize = tuple[tuple[float, int], ...]  # for tables of up to so many rows
Preset = Literal["default", "fast"]

FOLDS = 8  # each member leaves out one, and is stopped and calibrated by it
PAIRED_ROWS = 1_000  # from which on two members leave out the same fold
COUNT = 128  # bins
BLURRED_COUNT = 64  # bins of the histogram of blurred targets
MOST_EMBEDDED = 500  # inputs
WIDTH: BySize = ((25_000, 64), (math.inf, 96))  # of each of three hidden layers
BATCH: BySize = ((5_000, 128), (25_000, 256), (math.inf, 512))
LEARNING_RATE = 0.02
ENOUGH_LEFT = 30  # rows of a fold, without those that are copies of others


@dataclass(frozen=True)
class Effort:
    """What a preset spends on a table."""

    members: BySize
    epochs: BySize  # at least
    thins: bool  # whether two members go on with the time of all, where there is no noise
    last: float  # of the epochs that were best, as many again on all rows
    last_rate: float  # of the learning rate, then
    ensembles: int  # of boosted trees
    haste: BySize  # how many times as fast, and as few, they learn
    steps: int  # at least


# Many narrow networks err less than a few wide ones that take as long, and bear larger steps.
EFFORTS = {
    "default": Effort(
        # With a member or a pair for each fold, all rows of small tables calibrate.
        members=((PAIRED_ROWS, FOLDS), (3_000, 2 * FOLDS), (25_000, 12), (math.inf, 8)),
        epochs=((3_000, 80), (25_000, 76), (math.inf, 100)),
        thins=False,  # all rows of small tables would no longer calibrate
        last=0.1,
        last_rate=0.1,
        ensembles=4,
        haste=((math.inf, 1),),
        steps=700,
    ),
    # Up to 5000 rows trees learn as slowly as by default: small tables need them, and their error
    # decides how far targets are blurred.
    "fast": Effort(
        members=((math.inf, 4),),
        epochs=((PAIRED_ROWS, 44), (3_000, 56), (5_000, 41), (25_000, 32), (math.inf, 36)),
        thins=True,
        last=0.2,
        last_rate=0.2,
        ensembles=1,
        haste=((5_000, 1), (math.inf, 2)),
        steps=310,
    ),
}


@dataclass(frozen=True)
class Recipe:
    """How to train on a table."""

    members: int
    ensembles: int
    haste: int
    hidden: tuple[int, ...]
    dropout: float
    bins: int | Bins
    learning_rate: float
    batch_size: int
    epochs: int
    thins: bool
    last: float
    last_rate: float
    patience: int


def recipe_for(regressor: Any, rows: int) -> Recipe:
    """What the regressor says, and where it says "auto" what suits a table of that size."""
    if regressor.preset not in get_args(Preset):
        raise ValueError(f"preset: expected 'default' or 'fast', got {regressor.preset!r}")
    effort = EFFORTS[regressor.preset]
    batch = _whole("batch_size", regressor.batch_size, _for(rows, BATCH))
    epochs = _whole("max_epochs", regressor.max_epochs, _epochs(effort, rows, batch))
    bins, rate = regressor.bins, regressor.learning_rate
    return Recipe(
        members=_whole("members", regressor.members, min(_for(rows, effort.members), rows)),
        ensembles=effort.ensembles,
        haste=_for(rows, effort.haste),
        hidden=_layers(regressor.hidden, _for(rows, WIDTH)),
        dropout=require_number("dropout", regressor.dropout, "in [0, 1)"),
        bins=bins if isinstance(bins, Bins) else _whole("bins", bins, COUNT),
        learning_rate=_rate(rate),
        batch_size=batch,
        epochs=epochs,
        # Who gives a number of members or epochs means it.
        thins=effort.thins and regressor.members == regressor.max_epochs == "auto",
        last=effort.last,
        last_rate=effort.last_rate,
        patience=_whole("patience", regressor.patience, max(8, epochs // 4)),
    )


def _epochs(effort: Effort, rows: int, batch: int) -> int:
    steps = math.ceil(rows * (1 - 1 / FOLDS) / batch)
    return max(_for(rows, effort.epochs), math.ceil(effort.steps / steps))


def _for(rows: int, sizes: BySize) -> int:
    return next(value for most, value in sizes if rows <= most)


def _whole(name: str, value: Any, automatic: int) -> int:
    """A parameter that is a whole number of at least 1, or "auto"."""
    if isinstance(value, str) and value == "auto":
        return automatic
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name}: need 'auto' or a whole number of at least 1, got {value!r}")
    return int(value)


def _rate(value: Any) -> float:
    if isinstance(value, str) and value == "auto":
        return LEARNING_RATE
    try:
        return require_number("learning_rate", value)
    except ValueError:
        message = f"learning_rate: need 'auto' or a positive number, got {value!r}"
        raise ValueError(message) from None


def _layers(hidden: Any, width: int) -> tuple[int, ...]:
    if isinstance(hidden, str) and hidden == "auto":
        return (width,) * 3
    if isinstance(hidden, (str, Integral)) or not len(hidden):
        raise ValueError(
            f"hidden: need 'auto' or sizes of layers, such as (64, 64), got {hidden!r}"
        )
    return tuple(_whole("hidden", size, width) for size in hidden)


def folds_for(features: Array, target: Array, members: int, seed: int) -> list[Tensor]:
    """The rows of a table that each member leaves out, and is judged by."""
    rows = len(target)
    if rows < 2:
        raise ValueError(
            f"early_stopping: n_samples={rows} leaves no row to train on; give more rows, or "
            "turn it off"
        )
    if members > rows:
        raise ValueError(
            f"members: {members} cannot leave out a row each of n_samples={rows}; take fewer"
        )
    return without_copies(held_out(rows, members, seed), features, target)


def held_out(rows: int, members: int, seed: int) -> list[Tensor]:
    """The rows that each member leaves out, in random order: folds as equal as can be.

    Where there are rows enough, two members leave out the same fold. Judged together they are
    closer to the whole ensemble, which is better than each of its members.
    """
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
    apart = members // 2 if rows > PAIRED_ROWS and members % 2 == 0 else members
    parts = order.tensor_split(min(max(FOLDS, apart), rows))
    return [parts[member % apart] for member in range(members)]


def without_copies(folds: list[Tensor], features: Array, target: Array) -> list[Tensor]:
    """The folds without rows that stand among all others, too: such a row is not new.

    A member would be judged by what it remembers. A fold of which next to nothing would be left
    stays as it is.
    """
    _, key, total = np.unique(_hashes(features, target), return_inverse=True, return_counts=True)
    if total.max() == 1:
        return folds
    reduced = {}
    for fold in different(folds):
        keys = key[fold.numpy()]
        inside = np.bincount(keys, minlength=len(total))
        left = fold[torch.from_numpy(inside[keys] == total[keys])]
        reduced[id(fold)] = left if len(left) >= ENOUGH_LEFT else fold
    return [reduced[id(fold)] for fold in folds]


def _hashes(features: Array, target: Array) -> NDArray[np.uint64]:
    """A number for each row, the same for rows that are the same in everything."""
    factors = np.random.default_rng(0).integers(2**63, size=features.shape[1] + 1, dtype=np.uint64)
    columns = [target, *features.T]
    found = np.zeros(len(target), dtype=np.uint64)
    for column, factor in zip(columns, 2 * factors + 1, strict=True):
        # Round numbers end in zeros, which a product keeps; its high bits are mixed into them.
        mixed = (np.ascontiguousarray(column) + 0.0).view(np.uint64) * factor
        found += mixed ^ (mixed >> np.uint64(32))
    return found


def different(folds: list[Tensor]) -> list[Tensor]:
    """Each fold once, in the order of the first members that leave it out."""
    return list({id(fold): fold for fold in folds}.values())


def kept(rows: int, left_out: list[Tensor], batch: int) -> list[Tensor]:
    """The rows that each member trains on; all members need as many batches in an epoch."""
    everything = torch.ones(rows, dtype=torch.bool)
    parts = [everything.index_fill(0, fold, False).nonzero().flatten() for fold in left_out]
    fewest = min(map(len, parts))
    if len({math.ceil(len(part) / batch) for part in parts}) > 1:
        parts = [part[:fewest] for part in parts]
    return parts


def embedded_inputs(columns: Columns) -> list[int]:
    """The inputs of a network that are numbers, with more to them than yes and no.

    None if there are very many: networks would be nine times as large.
    """
    numeric = {i for i, kind in enumerate(columns.kinds) if kind == "number"}
    found = [
        place
        for place, feature in enumerate(columns.encoded_features)
        if feature.column in numeric and feature.content == "value"
    ]
    return found if len(found) <= MOST_EMBEDDED else []


def automatic_blur(noise: float | None, spread: float) -> float:
    """The standard deviation of blurred targets as a share of their range: above the noise.

    `noise` is the error that the trees are left with.
    """
    if noise is None or spread == 0:
        return 0.05
    return min(max(2.5 * noise / spread, 0.02), 0.2)
