"""One number that makes all predicted distributions less sure of themselves, or more.

`calibration` offers it as `Temperature`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from softbins import scores
from softbins._core.checks import json_entry, require_number
from softbins._core.forecast_checks import check_histogram
from softbins.histogram import Histogram

# Where the search for a temperature starts, as steps in log t: from 1, and from a temperature
# that is known to be near. From 1 they reach 1/400 and 400.
STEPS_FROM_ONE = (0, -6, -5, -4, -3, -2, -1, 1, 2, 3, 4, 5, 6)
STEPS_FROM_NEAR = (0, -3, -2, -1, 1)
LOG_T_TOLERANCE = 1e-2
MAX_PARABOLAS = 6


@dataclass(frozen=True)
class Temperature:
    """A number t > 0 that divides the logits: probabilities become proportional to f^(1/t).

    Parameters
    ----------
    t : float
        The temperature, positive and finite. Above 1 the forecast was too sure of itself, below
        1 not sure enough.

    Examples
    --------
    >>> import torch
    >>> from softbins import Bins, Histogram
    >>> from softbins.calibration import Temperature
    >>> forecast = Histogram(Bins([0.0, 1.0, 2.0]), probs=torch.tensor([[0.1, 0.9]]))
    >>> Temperature(2.0).apply(forecast).probs
    tensor([[0.2500, 0.7500]])
    """

    t: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "t", require_number("t", self.t))

    @classmethod
    def fit(
        cls,
        distribution: Histogram,
        y: Any,
        sample_weight: Any = None,
        near: Temperature | None = None,
    ) -> Temperature:
        """The temperature with the least CRPS on held-out rows, 1 unless another is better.

        Not the likelihood, which is infinite at every temperature once a target lies outside the
        bins or where nothing was predicted.

        Parameters
        ----------
        distribution : Histogram
            The predictions for n rows that the network was not trained on.
        y : array of shape (n,)
            Their targets.
        sample_weight : array of shape (n,), optional
            Weights of the rows.
        near : Temperature, optional
            A temperature that the best one is near to, or somewhat below: the search starts there
            and takes half the time.

        Returns
        -------
        Temperature
            The best temperature found.
        """

        def loss(log_t: float) -> float:
            return scores.crps(cls(math.exp(log_t)).apply(distribution), y, sample_weight)

        start = 0.0 if near is None else math.log(near.t)
        steps = STEPS_FROM_ONE if near is None else STEPS_FROM_NEAR
        return cls(math.exp(_least(loss, [start + step for step in steps])))

    def apply(self, distribution: Histogram) -> Histogram:
        """The histograms at this temperature.

        Parameters
        ----------
        distribution : Histogram
            Predictions of any batch shape.

        Returns
        -------
        Histogram
            As many predictions on the same bins.
        """
        check_histogram(distribution)
        logits = distribution.logits / self.t
        return Histogram(distribution.bins, logits=logits, validate_args=False)

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON, from which `from_json` makes an equal object.

        Returns
        -------
        dict
            Names and plain values.
        """
        return {"t": self.t}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Temperature:
        """The object from which `to_json` has made the data.

        Parameters
        ----------
        data : dict
            What `to_json` has given, also after a way through JSON.

        Returns
        -------
        Temperature
            An equal object.

        Raises
        ------
        ValueError
            If something is missing or wrong in the data.
        """
        return cls(json_entry(data, "t"))


def _least(loss: Callable[[float], float], starts: Sequence[float]) -> float:
    """Where a function of log t is least: the best of the starts, refined by parabolas.

    There are several starts because the CRPS may have more than one valley. Of equals the first is
    taken.
    """
    tried = {log_t: loss(log_t) for log_t in starts}
    for _ in range(MAX_PARABOLAS):
        lowest = _parabola_minimum(tried)
        if lowest is None or min(abs(lowest - log_t) for log_t in tried) < LOG_T_TOLERANCE:
            break
        tried[lowest] = loss(lowest)
    return min(tried, key=tried.__getitem__)


def _parabola_minimum(tried: dict[float, float]) -> float | None:
    """Where the parabola through the best point and its two neighbors is least.

    None if the best point is the first or the last, or if the three lie on a line.
    """
    places = sorted(tried)
    best = places.index(min(tried, key=tried.__getitem__))
    if best in (0, len(places) - 1):
        return None
    left, middle, right = places[best - 1 : best + 2]
    rise, fall = (tried[end] - tried[middle] for end in (right, left))
    ahead, behind = right - middle, middle - left
    bend = rise * behind + fall * ahead
    return middle - (rise * behind**2 - fall * ahead**2) / (2 * bend) if bend > 0 else None
