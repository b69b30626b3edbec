"""Predictions as named columns, in a frame of the kind that the rows came in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softbins._core.extras import optional_import
from softbins._core.text import level_texts
from softbins.tabular.frames import as_frame

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
    """The columns as a frame of the kind that X is, with its index if it has one.

    For what is no frame, it is one of pandas.
    """
    frame = as_frame(X)
    if frame is None:
        return optional_import("pandas").DataFrame(columns)
    import narwhals as nw

    result = nw.from_dict(columns, backend=frame.implementation).to_native()
    index = nw.maybe_get_index(frame)
    return result if index is None else result.set_axis(index, axis=0)
