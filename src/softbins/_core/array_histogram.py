"""What a histogram of logits says, for any array library `xp`: see `array_bins`.

Equal to what `softbins.Histogram` says, by the same closed forms.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from softbins._core.array_bins import array_bins
from softbins.bins import Bins


def cross_entropy(xp: Any, weights: Any, logits: Any) -> Any:
    """-sum_i p_i log f_i, where a bin without weight counts for nothing even if f_i is 0."""
    log_f = xp.log_softmax(logits, axis=-1)
    return -xp.sum(weights * xp.where(weights == 0, 0.0, log_f), axis=-1)


def mean(xp: Any, logits: Any, bins: Bins, dtype: str) -> Any:
    """sum_i f_i c_i, about the middle of the range: float32 sums of years lose the months."""
    parts = array_bins(bins, dtype)
    offsets = xp.array(parts.offsets, dtype)
    return xp.sum(xp.softmax(logits, axis=-1) * offsets, axis=-1) + parts.middle


def quantile(xp: Any, logits: Any, levels: Any, bins: Bins, dtype: str) -> Any:
    """For levels (m,) the smallest y with cdf(y) = level: an array (*batch, m)."""
    parts = array_bins(bins, dtype)
    cumulative = _cumulative(xp, xp.softmax(logits, axis=-1))
    reached = xp.expand_dims(cumulative[..., 1:], -2) < xp.expand_dims(levels, -1)
    index = xp.sum(xp.array(reached, "int32"), axis=-1)
    index = xp.minimum(index, bins.count - 1)
    start = xp.take_along_axis(cumulative, index, axis=-1)
    end = xp.take_along_axis(cumulative, index + 1, axis=-1)
    height = xp.maximum(end - start, float(np.finfo(dtype).tiny))
    share = xp.clip((levels - start) / height, 0.0, 1.0)
    left, rest, width = (
        xp.take(xp.array(values, dtype), index) for values in (*parts.edges, parts.widths)
    )
    return left + (rest + width * share)


def crps(xp: Any, logits: Any, y: Any, bins: Bins, dtype: str) -> Any:
    """E|Y - y| - E|Y - Y'| / 2 in closed form.

    E|Y - y| over a bin is the distance of y to its center c, but in the bin that holds y it is
    (y - c)^2 / w + w / 4. The second term is the integral of cdf (1 - cdf).
    """
    parts, f = array_bins(bins, dtype), xp.softmax(logits, axis=-1)
    widths = xp.array(parts.widths, dtype)
    away = xp.abs(parts.centers.distance_from(xp, xp.expand_dims(y, -1), dtype))
    own = xp.square(xp.maximum(widths / 2 - away, 0.0)) / widths
    cumulative = _cumulative(xp, f)
    middle = (cumulative[..., :-1] + cumulative[..., 1:]) / 2
    spread = (middle - xp.square(middle) - xp.square(f) / 12) * widths
    return xp.sum(f * (away + own), axis=-1) - xp.sum(spread, axis=-1)


def _cumulative(xp: Any, f: Any) -> Any:
    """The cdf at every edge, from exactly 0 to exactly 1."""
    sums = xp.cumsum(f, axis=-1)
    sums = sums / sums[..., -1:]
    return xp.concatenate([xp.zeros_like(sums[..., :1]), sums], axis=-1)
