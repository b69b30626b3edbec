"""What a method predicts for the rows of one fold, and how good that is."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from softbins import scores

Array = NDArray[np.float64]

# The share of targets that the compared intervals are made for.
COVERAGE = 0.9


@dataclass(frozen=True)
class Forecast:
    """Predictions of one fitted method for n rows that it has not seen.

    `crps`, the mean over the rows, and `interval` (n, 2) are None for a method that predicts
    numbers only. `seconds` are what the fit took of the processor. `undertrained` says whether a
    longer training would probably err less; None if that is not known.
    """

    mean: Array
    seconds: float
    crps: float | None = None
    interval: Array | None = None
    undertrained: bool | None = None

    def scores(self, fold: int, y: Array) -> dict[str, float | int | None]:
        """The scores of the fold of that number, whose targets are y (n,)."""
        errors = self.mean - y
        mae = float(np.abs(errors).mean())
        return {
            "fold": fold,
            "mae": mae,
            "rmse": math.sqrt(np.square(errors).mean()),
            # What is sure of one number has its absolute error for a CRPS.
            "crps": mae if self.crps is None else self.crps,
            "coverage": None if self.interval is None else scores.coverage(y, *self.interval.T),
            "seconds": self.seconds,
        }
