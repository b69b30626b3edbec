"""What chance alone may do to a score of some rows: intervals of 95%."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# A normal variable lies within this many standard deviations with probability 95%.
NORMAL_95 = 1.96


class Range(NamedTuple):
    """The ends of an interval."""

    low: float
    high: float

    def holds(self, value: float) -> bool:
        """Whether a value lies between the ends, or is one of them."""
        return self.low <= value <= self.high


def share_range(inside: int, count: int) -> Range:
    """Wilson's interval for a share that was observed as `inside` of `count`."""
    share, z2 = inside / count, NORMAL_95**2
    middle = (share + z2 / (2 * count)) / (1 + z2 / count)
    spread = NORMAL_95 * math.sqrt(share * (1 - share) / count + z2 / (4 * count**2))
    spread /= 1 + z2 / count
    return Range(max(middle - spread, 0.0), min(middle + spread, 1.0))


def mean_range(values: Array, other_count: float = math.inf) -> Range:
    """An interval for the mean of what the values (n,) were drawn from.

    With `other_count`, for the difference from the mean of so many other values with the same
    spread.
    """
    variance = float(values.var(ddof=1)) * (1 / len(values) + 1 / other_count)
    middle, spread = float(values.mean()), NORMAL_95 * math.sqrt(variance)
    return Range(middle - spread, middle + spread)
