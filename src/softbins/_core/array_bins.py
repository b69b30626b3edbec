"""Bins as arrays of any library, such as JAX's or those of Keras, in a precision of its own.

Here and in `array_weights` and `array_histogram`, `xp` is the array library: an object with
functions that JAX, NumPy and `keras.ops` have under the same names.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from softbins._core.histogram_numerics import require_room
from softbins.bins import Bins

Numbers = NDArray[Any]


class Split(NamedTuple):
    """Numbers of float64 as main + rest, each in the arrays' own precision.

    In float32 alone the edges of years would be months away from where they are. The distance
    (main - y) + rest from a target y has all its digits, and also the right sign: where `main`
    and y differ at all, they differ by more than `rest`.
    """

    main: Numbers
    rest: Numbers

    def distance_from(self, xp: Any, y: Any, dtype: str) -> Any:
        """How far to the right of the targets (..., 1) each number lies: an array (..., n)."""
        return (xp.array(self.main, dtype) - y) + xp.array(self.rest, dtype)


class ArrayBins(NamedTuple):
    """All that the mathematics needs of bins, as NumPy arrays in the arrays' precision.

    `from_low` and `from_high` are the distances of the edges from the first and the last of them,
    `offsets` those of the centers from `middle`, the middle of the range, and `gaps` those of each
    center from the next.
    """

    edges: Split
    centers: Split
    widths: Numbers
    from_low: Numbers
    from_high: Numbers
    offsets: Numbers
    gaps: Numbers
    middle: float


@lru_cache(maxsize=64)
def array_bins(bins: Bins, dtype: str) -> ArrayBins:
    """The bins in float32 or float64, or `ValueError` if their range does not fit into it."""
    require_room(bins, getattr(torch, dtype))
    edges, centers, widths = (
        part.cpu().numpy() for part in (bins.edges, bins.centers, bins.widths)
    )
    middle = bins.low / 2 + bins.high / 2
    return ArrayBins(
        edges=split(edges, dtype),
        centers=split(centers, dtype),
        widths=widths.astype(dtype),
        from_low=(edges - bins.low).astype(dtype),
        from_high=(edges - bins.high).astype(dtype),
        offsets=(centers - middle).astype(dtype),
        gaps=np.diff(centers).astype(dtype),
        middle=middle,
    )


def split(values: NDArray[np.float64], dtype: str) -> Split:
    """Numbers of float64 as two of another precision."""
    main = values.astype(dtype)
    return Split(main, (values - main).astype(dtype))


def as_bins(bins: Any) -> Bins:
    """The bins, made from their edges if those were given, or raise `ValueError`."""
    found = bins if isinstance(bins, Bins) else Bins(np.asarray(bins, dtype=np.float64))
    if found.atoms is not None:
        value = found.centers[found.atoms][0].item()
        raise ValueError(
            f"bins: an atom, at {value!r}, has no counterpart for JAX and Keras; give each edge "
            "once, or use softbins.HistogramLoss with PyTorch"
        )
    return found
