"""What targets show of the values that there can be: bounds, spikes, whole numbers.

Nothing is predicted beyond a bound, a value that many rows share gets a probability of its own, and
targets that are whole numbers, or other multiples of a step, a distribution over these.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from softbins.bins import Bins
from softbins.tabular.defaults import SupportDefaults

Array = NDArray[np.float64]

ROUNDING = 1e-6  # of a step, by which multiples of it may be off


@dataclass(frozen=True)
class Support:
    """The values that a target can have, as far as it is known."""

    low: float | None = None
    """Nothing lies below."""
    high: float | None = None
    """Nothing lies above."""
    atoms: tuple[float, ...] = ()
    """Values that many rows share."""
    step: float | None = None
    """The distance between neighboring values, where all of them are listed."""

    @classmethod
    def of(
        cls, y: Array, lower: float | None, upper: float | None, defaults: SupportDefaults
    ) -> Support:
        """What targets show, and the bounds that the user knows."""
        values, counts = np.unique(y, return_counts=True)
        often = counts >= defaults.min_rows
        at_ends = np.zeros(len(values), dtype=bool)
        at_ends[[0, -1]] = True
        share = np.where(at_ends, defaults.min_end_share, defaults.min_share) * len(y)
        atoms = values[often & (counts >= share)]
        low = _bound(lower, values[0], values[0] in atoms, values[0] >= 0)
        high = _bound(upper, values[-1], values[-1] in atoms, values[-1] <= 0)
        step = _common_step(values, defaults.max_values)
        return cls(low, high, () if step else tuple(atoms.tolist()), step)

    def lattice(self, y: Array, margin: float) -> Bins:
        """A cell about each value that there can be, a share of them beyond the targets."""
        assert self.step is not None
        first, last = float(y.min()), float(y.max())
        beyond = math.ceil(margin * ((last - first) / self.step + 1))
        below, above = (
            beyond if bound is None else min(beyond, round(room / self.step))
            for bound, room in (
                (self.low, first - (self.low or 0.0)),
                (self.high, (self.high or 0.0) - last),
            )
        )
        count = round((last - first) / self.step) + 1 + below + above
        start = first - (below + 0.5) * self.step
        return Bins(start + self.step * np.arange(max(count, 2) + 1))

    def restrict(self, bins: Bins) -> Bins:
        """The bins cut off at the bounds, with the atoms among them."""
        low = bins.low if self.low is None else max(self.low, bins.low)
        high = bins.high if self.high is None else min(self.high, bins.high)
        edges = bins.edges.numpy()
        # An edge that is next to a bound would leave a sliver of a bin.
        room = bins.widths.numpy().min() / 4
        inner = edges[(edges > low + room) & (edges < high - room)]
        cut = Bins(np.concatenate([[low], inner, [high]])) if len(inner) else bins
        atoms = [value for value in self.atoms if cut.low <= value <= cut.high]
        return cut.with_atoms(atoms) if atoms else cut


def _bound(given: float | None, end: float, is_atom: bool, is_of_one_sign: bool) -> float | None:
    """The bound that was given, the outermost value if many have it, or zero if none crosses it."""
    if given is not None:
        return float(given)
    if is_atom:
        return float(end)
    return 0.0 if is_of_one_sign else None


def _common_step(values: Array, most: int) -> float | None:
    """The step that all of a few sorted values are multiples of, from the first on."""
    if not 2 <= len(values) <= most:
        return None
    step = float(np.diff(values).min())
    places = (values - values[0]) / step
    if places[-1] >= most or np.abs(places - places.round()).max() > ROUNDING:
        return None
    return step
