"""Intervals as a model can give them: conformal, if enough rows were held out for that."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softbins.tabular.description import aggregator_of

Array = NDArray[np.float64]


def possible_interval(model: Any, X: Any, coverage: float) -> Array:
    """Intervals (n, 2) for that coverage; raw ones where too few rows were held out for others."""
    aggregator = aggregator_of(model)
    if aggregator is None:
        return np.asarray(model.predict_interval(X, coverage))
    held_out = len(aggregator.intervals["central"].depths)
    enough = held_out / (held_out + 1) >= coverage
    return np.asarray(model.predict_interval(X, coverage, calibrated=enough))
