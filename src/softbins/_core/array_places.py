"""Where a Gaussian stands on transformed bins, for any array library `xp`.

On bins that are equal in another space, the Gaussian whose mean is the target does not stand at the
target. `exact_mean` has the mathematics, and a curve from means to places. Here the curve is read
in float32, where an array library has no more. A place is kept as a knot of the curve, which is
exact, and the way from there on, which is short.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from softbins._core.array_bins import ArrayBins, Numbers, Split, array_bins, split
from softbins._core.exact_mean import curve_of
from softbins.bins import Bins

# Sigmas in bins for which the curve is good to 1e-6 of a bin, without what mends the rest.
SIGMAS_IN_BINS = (0.6, 10.0)


class ArrayCurve(NamedTuple):
    """The curve from means to places: knots, and how it goes from each of them to the next.

    A share s of the way on, the place has risen by s rise + s (1 - s) ((1 - s) first + s last).
    `even` are as many bins of the width 1, in which places are counted.
    """

    means: Split
    places: Split
    per_unit: Numbers
    rise: Numbers
    first: Numbers
    last: Numbers
    even: ArrayBins

    def distances(self, xp: Any, y: Any, dtype: str) -> Any:
        """How far to the right of the places of targets (..., 1) the edges lie, in bins."""
        inner = xp.array(self.means.main[1:-1], dtype)
        left = xp.searchsorted(inner, xp.reshape(y, (-1,)), side="right")
        left = xp.reshape(left, xp.shape(y))
        columns = (*self.means, *self.places, self.per_unit, self.rise, self.first, self.last)
        found = (xp.take(xp.array(column, dtype), left) for column in columns)
        mean, mean_rest, place, place_rest, per_unit, rise, first, last = found
        share = xp.clip(((y - mean) - mean_rest) * per_unit, 0.0, 1.0)
        risen = share * rise + share * (1 - share) * ((1 - share) * first + share * last)
        return ((xp.array(self.even.edges.main, dtype) - place) - place_rest) - risen


@lru_cache(maxsize=64)
def array_curve(bins: Bins, sigma: float, dtype: str) -> ArrayCurve:
    """The curve for a sigma of so many bins, or `ValueError` if there is none."""
    low, high = SIGMAS_IN_BINS
    curve = curve_of(bins.to("cpu"), sigma) if low <= sigma <= high else None
    if curve is None:
        raise ValueError(
            f"target: on {bins} a Gaussian needs a sigma of {low:g} to {high:g} bins, got "
            f"{sigma:g}; use TwoHot, or PyTorch's HistogramLoss"
        )
    means, places, slopes = (part.numpy() for part in curve)
    length, rise = np.diff(means), np.diff(places)
    return ArrayCurve(
        means=split(means, dtype),
        places=split(places, dtype),
        per_unit=(1 / length).astype(dtype),
        rise=rise.astype(dtype),
        first=(slopes[:-1] * length - rise).astype(dtype),
        last=(rise - slopes[1:] * length).astype(dtype),
        even=array_bins(Bins.uniform(0.0, bins.count, bins.count), dtype),
    )
