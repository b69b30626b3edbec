"""The bins: a partition of the target's range [a, b], the support of every histogram."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softbins._core.checks import numeric_array
from softbins._core.sorted_search import insertion_index
from softbins._core.tensor_checks import require

Values = Tensor | NDArray[Any] | Sequence[float]


class Bias(NamedTuple):
    """How far bins alone may move the mean of a target, at worst, in the target's unit.

    Attributes
    ----------
    discretisation : float
        Error because a bin stands for all values in it.
    truncation : float
        Error because the target's distribution is cut off at the ends of the bins.
    """

    discretisation: float
    truncation: float


class Bins:
    """The support of a histogram: edges l_1 <= ... <= l_{k+1} that cut [a, b] into k bins.

    Bin i is [l_i, l_{i+1}); the last one also holds its right end (Section 2.2). Edges are kept
    in float64 whatever the network's precision, because a target near an edge must land on its
    right side. A bin between two equal edges is an atom: a single value with a probability of its
    own, such as the 0 of rainfall. A `Bins` never changes after it was made.

    Parameters
    ----------
    edges : Tensor, array or sequence of float
        The k + 1 edges of at least two bins, finite, and increasing except for the two edges of
        an atom.

    Attributes
    ----------
    edges : Tensor
        The k + 1 edges, in float64.
    widths : Tensor
        The width of each of the k bins.
    centers : Tensor
        The middle of each of the k bins.
    count : int
        The number of bins, k; also `len(bins)`.
    low : float
        The first edge, a.
    high : float
        The last edge, b.
    step : float or None
        The width of all bins if it is the same for all of them.
    atoms : Tensor or None
        Which of the k bins are atoms, where there are any.
    bias : Bias or None
        How far these bins may move the mean of the targets that they were made for, where that
        is known.

    Raises
    ------
    ValueError
        If the edges are not finite, fall, are fewer than three, or more than two are equal.

    Examples
    --------
    >>> from softbins import Bins
    >>> bins = Bins([0.0, 1.0, 3.0])
    >>> bins
    Bins(2 unequal bins on [0, 3])
    >>> bins.centers
    tensor([0.5000, 2.0000], dtype=torch.float64)
    """

    def __init__(self, edges: Values) -> None:
        self.edges = _checked_edges(edges)
        self.widths = self.edges.diff()
        self.centers = self.edges[:-1] + self.widths / 2
        self.count = len(self.widths)
        self.low, self.high = self.edges[0].item(), self.edges[-1].item()
        self.step = _common_width(self.edges)
        is_atom = self.widths == 0
        self.atoms: Tensor | None = is_atom if bool(is_atom.any()) else None
        self._inner = self.edges[1:-1].contiguous()
        self.bias: Bias | None = None

    @classmethod
    def uniform(cls, low: float, high: float, count: int) -> Bins:
        """Equal bins on [low, high]: the paper's choice, on the target's printed range.

        Parameters
        ----------
        low, high : float
            The first and the last edge.
        count : int
            The number of bins, at least two.

        Returns
        -------
        Bins
            `count` bins of the same width.

        Examples
        --------
        >>> from softbins import Bins
        >>> Bins.uniform(0.0, 1.0, 4).edges.tolist()
        [0.0, 0.25, 0.5, 0.75, 1.0]
        """
        count = _checked_count(count)
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ValueError(f"low, high: need finite low < high, got low={low}, high={high}")
        return cls(torch.linspace(low, high, count + 1, dtype=torch.float64))

    @classmethod
    def covering(
        cls, y: Values, count: int, sigma_ratio: float = 1.0, padding: float = 3.0
    ) -> Bins:
        """Equal bins in which every target keeps some sigmas of room on both sides.

        With sigma = sigma_ratio * width, the width w solves
        count * w = max(y) - min(y) + 2 * padding * sigma_ratio * w. Without the room, targets
        near the ends would lose the outer half of their Gaussian, which biases the mean inwards.

        Parameters
        ----------
        y : Tensor, array or sequence of float
            The targets, finite, in any shape.
        count : int
            The number of bins, more than the room takes.
        sigma_ratio : float
            The sigma of the Gaussian target, in widths of a bin.
        padding : float
            How many sigmas of room to leave beyond the smallest and the largest target.

        Returns
        -------
        Bins
            `count` bins of the same width.

        Examples
        --------
        >>> from softbins import Bins
        >>> Bins.covering([0.0, 94.0], 100)
        Bins(100 equal bins on [-3, 97])
        """
        count, values = _checked_count(count), _checked_targets(y)
        reserved = 2 * padding * sigma_ratio
        if not 0 <= reserved < count:
            raise ValueError(
                f"count: {count} bins leave none for the targets after 2 * padding * sigma_ratio "
                f"= {reserved:g} bins of room; need sigma_ratio, padding >= 0 and more bins"
            )
        low, high = float(values.min()), float(values.max())
        width = max((high - low) / (count - reserved), _smallest_width(low, high, count))
        start = low + (high - low) / 2 - width * count / 2
        return cls(start + width * np.arange(count + 1))

    @classmethod
    def quantile(cls, y: Values, count: int) -> Bins:
        """Bins that each hold about the same share of the targets.

        Every distinct value owns the cell half-way to its neighbors and spreads its share
        evenly over it, which makes the cumulative share strictly increasing, so that its
        inverse gives distinct edges. A repeated value counts for one bin's share at most:
        it could not fill more bins, and would take them from the rest.

        Parameters
        ----------
        y : Tensor, array or sequence of float
            The targets, finite, in any shape.
        count : int
            The number of bins, at least two.

        Returns
        -------
        Bins
            Exactly `count` bins.

        Examples
        --------
        >>> from softbins import Bins
        >>> Bins.quantile([1.0, 2.0, 3.0, 10.0], 2).edges.tolist()
        [0.5, 2.5, 13.5]
        """
        count, values = _checked_count(count), _checked_targets(y)
        distinct, repeats = np.unique(values, return_counts=True)
        if len(distinct) == 1:
            return cls.covering(values, count, padding=0.0)
        shares = np.minimum(repeats, len(values) / count)
        cumulative = np.concatenate([[0.0], np.cumsum(shares)])
        levels = np.linspace(0.0, cumulative[-1], count + 1)
        return cls(_strictly_increasing(np.interp(levels, cumulative, _cells(distinct))))

    def index(self, y: Tensor) -> Tensor:
        """The bin of each target; targets outside [a, b] belong to the nearest bin.

        Parameters
        ----------
        y : Tensor
            Finite targets of any shape, on the device of the bins.

        Returns
        -------
        Tensor
            Whole numbers from 0 to k - 1, in the shape of `y`.
        """
        return self.locate(require("y", y).to(self.edges))

    def locate(self, y: Tensor) -> Tensor:
        """The bin of each target, like `index`, but without checks.

        Parameters
        ----------
        y : Tensor
            Finite targets of any shape, in float64, on the device of the bins.

        Returns
        -------
        Tensor
            Whole numbers from 0 to k - 1, in the shape of `y`.
        """
        index = insertion_index(self._inner, y, right=True)
        if self.atoms is None:
            return index
        before = (index - 1).clamp_min(0)
        return torch.where(self.atoms[before] & (y == self.edges[index]), before, index)

    def with_atoms(self, values: Values) -> Bins:
        """The bins with an atom at each of some values.

        Parameters
        ----------
        values : Tensor, array or sequence of float
            Values from the first to the last edge. A bin that has one inside is cut there.

        Returns
        -------
        Bins
            These bins and the atoms, from left to right.

        Examples
        --------
        >>> from softbins import Bins
        >>> Bins([0.0, 1.0, 2.0]).with_atoms([0.0, 1.5]).edges.tolist()
        [0.0, 0.0, 1.0, 1.5, 1.5, 2.0]
        """
        places = torch.unique(_tensor(values).reshape(-1)).to(self.edges.device)
        require("values", places, self.low, self.high, "atoms lie between the first and last edge")
        return Bins(torch.cat([torch.unique(torch.cat([self.edges, places])), places]).sort()[0])

    def to(self, device: torch.device | str) -> Bins:
        """The same bins on another device.

        Parameters
        ----------
        device : torch.device or str
            Where to put the edges.

        Returns
        -------
        Bins
            A copy there, or these bins if they are there already.
        """
        if self.edges.device == torch.device(device):
            return self
        moved = copy.copy(self)
        for name in ("edges", "widths", "centers", "_inner"):
            setattr(moved, name, getattr(self, name).to(device))
        moved.atoms = None if self.atoms is None else self.atoms.to(device)
        return moved

    def with_bias(self, bias: Bias) -> Bins:
        """The same bins with another `bias`.

        Parameters
        ----------
        bias : Bias
            How far the bins may move the mean of the targets that they were made for.

        Returns
        -------
        Bins
            A copy with that `bias`.
        """
        reported = copy.copy(self)
        reported.bias = bias
        return reported

    def finer(self, parts: int) -> Bins:
        """The bins with each of them cut into equal parts; atoms stay as they are.

        Parameters
        ----------
        parts : int
            How many parts to make of each bin.

        Returns
        -------
        Bins
            `parts` times as many bins on the same range.
        """
        shares = torch.arange(parts, dtype=self.edges.dtype, device=self.edges.device) / parts
        inner = torch.lerp(self.edges[:-1, None], self.edges[1:, None], shares)
        kept = (self.widths > 0).unsqueeze(-1) | (shares == 0)
        return Bins(torch.cat([inner[kept], self.edges[-1:]]))

    def __len__(self) -> int:
        return self.count

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bins) and torch.equal(self.edges, other.edges.to(self.edges))

    def __hash__(self) -> int:
        return hash((self.count, self.low, self.high))

    def __copy__(self) -> Bins:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> Bins:
        return self  # it never changes

    # A checkpoint holds the edges alone, and reading it goes through the checks of new bins.

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.edges,), None if self.bias is None else tuple(self.bias)

    def __setstate__(self, bias: tuple[float, float]) -> None:
        discretisation, truncation = bias
        self.bias = Bias(float(discretisation), float(truncation))

    def __repr__(self) -> str:
        kind = "equal" if self.step is not None else "unequal"
        atoms = 0 if self.atoms is None else int(self.atoms.sum())
        also = f" and {atoms} atom{'s' * (atoms > 1)}" if atoms else ""
        return f"Bins({self.count - atoms} {kind} bins{also} on [{self.low:g}, {self.high:g}])"


# `torch.load(..., weights_only=True)` may make bins: nothing runs but the checks above.
torch.serialization.add_safe_globals([Bins])


def _checked_edges(edges: Values) -> Tensor:
    result = _tensor(edges)
    if result.ndim != 1:
        raise ValueError(f"edges: need one dimension, got shape {tuple(result.shape)}")
    if len(result) < 3:
        raise ValueError(f"edges: need at least two bins (three edges), got {len(result)} edges")
    require("edges", result)
    falls = torch.nonzero(result.diff() < 0)
    if len(falls):
        i = int(falls[0])
        pair = f"edges[{i}]={result[i].item()!r} and edges[{i + 1}]={result[i + 1].item()!r}"
        raise ValueError(f"edges: must increase, but {pair} do not")
    repeats = torch.nonzero(result[2:] == result[:-2])
    if len(repeats):
        i = int(repeats[0])
        raise ValueError(
            f"edges: three from index {i} on are {result[i].item()!r}; an atom has two"
        )
    if not math.isfinite(result[-1].item() - result[0].item()):
        raise ValueError(f"edges: the range [{result[0]:g}, {result[-1]:g}] overflows float64")
    return result


def _tensor(values: Values) -> Tensor:
    """A copy of the values in float64."""
    if isinstance(values, Tensor):
        return values.detach().to(torch.float64, copy=True)
    return torch.from_numpy(np.array(values, dtype=np.float64))


def _checked_count(count: int) -> int:
    if isinstance(count, bool) or int(count) != count or count < 2:
        raise ValueError(f"count: need a whole number of at least two bins, got {count}")
    return int(count)


def _checked_targets(y: Values) -> NDArray[np.float64]:
    values = numeric_array("y", y, hint="drop or impute those rows").reshape(-1)
    if len(values) == 0:
        raise ValueError("y: need at least one target to place bins, got none")
    return values


def _smallest_width(low: float, high: float, count: int) -> float:
    """A width that keeps edges apart in float64, and bins of a sensible size if y is constant."""
    largest = max(abs(low), abs(high))
    return max(largest, 1.0) / count if low == high else 4 * float(np.spacing(largest))


def _common_width(edges: Tensor) -> float | None:
    """The bins' width if it is the same for all, up to the rounding of the edges themselves."""
    count = len(edges) - 1
    step = ((edges[-1] - edges[0]) / count).item()
    ideal = edges[0] + step * torch.arange(count + 1, dtype=edges.dtype, device=edges.device)
    rounding = 4 * torch.finfo(edges.dtype).eps * edges.abs().max()
    return step if (edges - ideal).abs().max() <= rounding else None


def _cells(distinct: NDArray[np.float64]) -> NDArray[np.float64]:
    """The borders half-way between neighbors; the outer cells are symmetric about their value."""
    middles = distinct[:-1] + np.diff(distinct) / 2
    first, last = 2 * distinct[0] - middles[0], 2 * distinct[-1] - middles[-1]
    return np.concatenate([[first], middles, [last]])


def _strictly_increasing(edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Move edges that rounding made equal to the next float."""
    for i in range(1, len(edges)):
        edges[i] = max(edges[i], np.nextafter(edges[i - 1], np.inf))
    return edges
