"""What the numbers of the calibrating map are good for: each halved, doubled, or left out.

    python benchmarks/calibration_map.py      some minutes; writes results/calibration_map.json

Forecasts are Gaussians of the right mean, and targets lie about it as one of six kinds of noise
does that forecasts do not know of: as they say, twice as wide, skewed, heavy-tailed, with half of
the rows at one value, or within a fraction of a bin. A map is fitted to 30, 100, 300 or 2000
held-out rows, and judged by new ones. Coverage is how far the share of targets between quantiles is
from what they promise, in the mean over kinds, tables and levels of 50, 80, 90, 95 and 99%; the
score is the CRPS beside that of the numbers as they are, in the geometric mean.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray

from softbins import Bins, Histogram, scores
from softbins._core import calibrator
from softbins.calibration import Calibrator

Array = NDArray[np.float64]

ROWS, NEW_ROWS, TABLES = (30, 100, 300, 2000), 1000, 25
VALUE, COARSE = "half at one value", "on coarse bins"
KINDS = ("as forecast", "twice as wide", "skewed", "heavy-tailed", VALUE, COARSE)
LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)
BINS, COARSE_BINS = Bins.uniform(-12.0, 12.0, 192), Bins.uniform(-12.0, 12.0, 16)
RESULT = Path(__file__).parent.parent / "results" / "calibration_map.json"


def knots(power: float) -> Any:
    """A rule for the number of knots that grows with another power of the rows."""
    return lambda rows: int(min(2 * round(rows**power) + 3, 2001))


CHANGES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "two sides from 100 rows on, not 300": {"ROWS_FOR_TWO_SIDES": 100},
    "two sides from 900 rows on": {"ROWS_FOR_TWO_SIDES": 900},
    "two sides always": {"ROWS_FOR_TWO_SIDES": 0},
    "fewer knots": {"_knots": knots(1 / 4)},
    "more knots": {"_knots": knots(1 / 2)},
    "tails may stretch half as much": {"MAX_TAIL_STRETCH": 1},
    "tails may stretch twice as much": {"MAX_TAIL_STRETCH": 4},
    "tails may stretch freely": {"MAX_TAIL_STRETCH": 10**6},
    "fitted once": {"MORE_ROUNDS": 0},
    "fitted five times": {"MORE_ROUNDS": 4},
    "4 points for a jump, not 16": {"POINTS_OF_A_JUMP": 4},
    "64 points for a jump": {"POINTS_OF_A_JUMP": 64},
}


def targets(kind: str, mean: Array, random: np.random.Generator) -> Array:
    """Targets about their means, with a kind of noise."""
    noise = random.normal(size=len(mean))
    if kind == "twice as wide":
        return mean + 2 * noise
    if kind == "skewed":
        return mean + random.exponential(size=len(mean)) - 1
    if kind == "heavy-tailed":
        return mean + 0.5 * random.standard_t(2, size=len(mean))
    if kind == COARSE:
        return mean + 0.2 * noise
    if kind == VALUE:
        return np.where(random.uniform(size=len(mean)) < 0.5, 0.0, mean + noise)
    return mean + noise


def forecasts(mean: Array, kind: str) -> Histogram:
    """Gaussians; where a value has a probability of its own, half of it is there."""
    plain = COARSE_BINS if kind == COARSE else BINS
    logits = -((plain.centers - torch.from_numpy(mean)[:, None]) ** 2) / 2
    if kind != VALUE:
        return Histogram(plain, logits=logits)
    bins = plain.with_atoms([0.0])
    assert bins.atoms is not None
    probs = torch.zeros(len(mean), len(bins), dtype=torch.float64)
    probs[:, ~bins.atoms] = 0.7 * torch.softmax(logits, -1)
    probs[:, bins.atoms] = 0.3
    return Histogram(bins, probs=probs)


def tables(rows: int) -> Iterator[tuple[Histogram, Array, Histogram, Array]]:
    """Forecasts and targets of held-out rows, and of new ones, of all kinds."""
    for kind in KINDS:
        for number in range(TABLES):
            random = np.random.default_rng([KINDS.index(kind), rows, number])
            means = random.uniform(-2, 2, rows), random.uniform(-2, 2, NEW_ROWS)
            y = [targets(kind, mean, random).clip(-11.9, 11.9) for mean in means]
            old, new = (forecasts(mean, kind) for mean in means)
            yield old, y[0], new, y[1]


def judged(rows: int) -> tuple[float, list[float]]:
    """The mean distance from what was promised, and the CRPS of each table."""
    gaps, crps = [], []
    for old, y, new, y_new in tables(rows):
        honest = Calibrator.fit(old, y).apply(new)
        observed = scores.reliability(honest, y_new, LEVELS).observed
        gaps.append(np.abs(observed - np.array(LEVELS)).mean())
        crps.append(scores.crps(honest, y_new))
    return float(np.mean(gaps)), crps


def main() -> None:
    """Judge all changes for all numbers of rows."""
    found: list[dict[str, Any]] = []
    usual: dict[int, list[float]] = {}
    for name, change in CHANGES.items():
        row: dict[str, Any] = {"map": name, "coverage": [], "crps": []}
        with patch.multiple(calibrator, **change) if change else patch.dict({}):
            for rows in ROWS:
                gap, crps = judged(rows)
                usual.setdefault(rows, crps)
                ratio = np.exp(np.mean(np.log(crps) - np.log(usual[rows])))
                row["coverage"].append(round(gap, 5))
                row["crps"].append(round(float(ratio), 5))
        print(row, flush=True)
        found.append(row)
    record = {"rows": ROWS, "tables": TABLES, "kinds": KINDS, "changes": found}
    RESULT.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
