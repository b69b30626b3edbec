"""Predictions as named columns, in a frame of the library that the rows came from."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softbins._core.extras import optional_import
from softbins._core.text import level_texts
from softbins.tabular.frames import frame_library

Array = NDArray[np.float64]


def quantile_names(levels: Sequence[float]) -> list[str]:
    """The columns of quantiles, such as "quantile_0.9": another one for every level."""
    return [f"quantile_{text}" for text in level_texts(levels)]


def summary_columns(
    model: Any, X: Any, coverage: float, quantiles: Sequence[float]
) -> dict[str, Array]:
    """Mean, median, ends of intervals and quantiles; only the mean of a model without them."""
    if not model.objective_.has_distribution and not len(quantiles):
        return {"mean": model.predict(X)}
    mean, low, high = model._mean_and_interval(X, coverage).T
    median, *others = model.predict_quantiles(X, [0.5, *quantiles]).T
    names = quantile_names(quantiles)
    columns = {"mean": mean, "median": median, "low": low, "high": high}
    return columns | dict(zip(names, others, strict=True))


def frame_like(X: Any, columns: dict[str, Array]) -> Any:
    """The columns as a polars frame for one of polars, or else as a pandas frame.

    It has the index of X, if X has one.
    """
    library = frame_library(X)
    if library == "polars":
        return sys.modules["polars"].DataFrame(columns)
    index = X.index if library == "pandas" else None
    return optional_import("pandas").DataFrame(columns, index=index)
