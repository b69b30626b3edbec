"""Errors where a column has many categories, beside CatBoost, on simulated tables.

    python benchmarks/many_categories.py    writes results/many_categories.json

Each table has four numbers and 300 categories of 5 to 50 rows, of which a fifth is for testing.
Errors of our fast preset are given with what targets say of categories, without their slopes, and
without any of it. CatBoost is at its defaults, in the environment of benchmarks/accuracy.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from softbins import HistogramRegressor
from softbins.tabular.defaults import DEFAULTS

sys.path.append(str(Path(__file__).parent / "accuracy"))
import peers
from data import Split

Array = NDArray[np.float64]
Index = NDArray[np.int64]

RESULT = Path(__file__).parent.parent / "results" / "many_categories.json"
CATEGORIES, TEST_SHARE = 300, 0.2


def additive(x: Array, shop: Index, random: np.random.Generator) -> Array:
    """Each category adds a number of its own."""
    return random.normal(size=CATEGORIES)[shop]


def correlated(x: Array, shop: Index, random: np.random.Generator) -> Array:
    """The same, and the first column lies near another number of the category."""
    x[:, 0] += 2 * random.normal(size=CATEGORIES)[shop]
    return random.normal(size=CATEGORIES)[shop] + x[:, 0]


def slopes(x: Array, shop: Index, random: np.random.Generator) -> Array:
    """Each category has a number and a slope of its own."""
    own, slope = random.normal(size=(2, CATEGORIES))
    return 0.7 * own[shop] + slope[shop] * x[:, 0]


def several_slopes(x: Array, shop: Index, random: np.random.Generator) -> Array:
    """Slopes along three of the columns."""
    own = random.normal(size=(3, CATEGORIES))
    return 0.6 * (own[:, shop].T * x[:, :3]).sum(1)


KINDS: dict[str, Callable[[Array, Index, np.random.Generator], Array]] = {
    "a number for each category": additive,
    "a column goes with categories": correlated,
    "a slope for each category": slopes,
    "slopes along three columns": several_slopes,
}


def simulated(kind: str) -> Split:
    """Training and test rows of a table."""
    random = np.random.default_rng(0)
    shop = np.repeat(np.arange(CATEGORIES), random.integers(5, 51, CATEGORIES))
    random.shuffle(shop)
    x = random.normal(size=(len(shop), 4))
    y = KINDS[kind](x, shop, random) + np.sin(2 * x[:, 1]) + 0.5 * x[:, 2] * x[:, 3]
    y += 0.5 * random.normal(size=len(shop))
    frame = pd.DataFrame(x, columns=list("abcd")).assign(shop=[f"shop {i}" for i in shop])
    cut = round(TEST_SHARE * len(y))
    return Split(frame[cut:], y[cut:], frame[:cut], y[:cut])


def ours(split: Split, **changes: int | bool) -> Array:
    """Predicted means of the fast preset, with other numbers for statistics of categories."""
    defaults = replace(DEFAULTS, statistics=replace(DEFAULTS.statistics, **changes))
    kind = type("Changed", (HistogramRegressor,), {"_defaults": defaults})
    found: Array = kind(preset="fast", random_state=0).fit(split.x, split.y).predict(split.x_test)
    return found


def main() -> None:
    """Measure all, print it and write the record."""
    warnings.simplefilter("ignore")
    record = {}
    for kind in KINDS:
        split = simulated(kind)
        means = {
            "softbins": ours(split),
            "without slopes": ours(split, max_slopes=0),
            "without statistics": ours(split, is_used=False),
            "CatBoost": peers.catboost(split, 0).mean,
        }
        record[kind] = {
            name: float(np.sqrt(np.square(mean - split.y_test).mean()))
            for name, mean in means.items()
        }
        print(kind, record[kind], flush=True)
        RESULT.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
