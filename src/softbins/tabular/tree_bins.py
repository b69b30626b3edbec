"""Bins of the features, whose numbers are all that growing trees look at.

A table is put into bins once, and all ensembles share the result: one byte for each number, where
scikit-learn would copy the rows of every ensemble in float64 first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Codes = NDArray[np.uint8]

MAX_BINS = 255  # of a feature; scikit-learn keeps the 256th number of a byte for missing values
# Rows whose quantiles are the bins of larger tables, as many as scikit-learn takes.
SAMPLED_ROWS = 200_000


@dataclass(frozen=True)
class TreeBins:
    """The upper ends of the bins of each feature, in rising order; the last bin has none."""

    thresholds: list[Array]

    @classmethod
    def fit(cls, features: NDArray[np.floating]) -> TreeBins:
        """Learn from features (n, d), or from some rows at equal distances if they are many."""
        some = features[:: -(-len(features) // SAMPLED_ROWS) or 1]
        return cls([_thresholds(column.astype(np.float64)) for column in some.T])

    @classmethod
    def joined(cls, parts: Sequence[TreeBins]) -> TreeBins:
        """The bins of several features, from those of some at a time."""
        return cls([each for part in parts for each in part.thresholds])

    def codes(self, features: NDArray[np.floating]) -> Codes:
        """For features (n, d) the numbers (d, n) of their bins."""
        found = np.empty(features.shape[::-1], dtype=np.uint8)
        for code, column, thresholds in zip(found, features.T, self.thresholds, strict=True):
            code[:] = np.searchsorted(thresholds, column)
        return found

    # What scikit-learn asks of its own bins.

    @property
    def bin_thresholds_(self) -> list[Array]:
        """The upper ends of the bins of each feature."""
        return self.thresholds

    @property
    def n_bins_non_missing_(self) -> NDArray[np.uint32]:
        """How many bins each feature has."""
        return np.array([len(each) + 1 for each in self.thresholds], dtype=np.uint32)

    @property
    def missing_values_bin_idx_(self) -> int:
        """The number of the bin for missing values, which encoded features do not have."""
        return MAX_BINS


def _thresholds(column: Array) -> Array:
    """The middles between distinct values if they are few, quantiles if they are many."""
    distinct = np.unique(column)
    if len(distinct) <= MAX_BINS:
        return distinct[:-1] + np.diff(distinct) / 2
    levels = np.arange(1, MAX_BINS) / MAX_BINS
    return np.unique(np.quantile(column, levels, method="averaged_inverted_cdf"))
