"""The bins: a partition of the target's range [a, b], the support of every histogram."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from softbins._core.bin_edges import (
    Values,
    checked_count,
    checked_edges,
    checked_step,
    checked_targets,
    common_width,
    covering_edges,
    cut_at_bounds,
    edges_of_transform,
    even_edges,
    float64_tensor,
    quantile_edges,
    symexp,
)
from softbins._core.sorted_search import insertion_index
from softbins._core.tensor_checks import require


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
    transformed_step : float, optional
        The distance of neighbouring edges in another space, in which they are equally far apart.
        Bins of `symlog` and `transformed` have one.

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
    transformed_step : float or None
        The width of all bins in the space in which a Gaussian target has a constant width, if
        that is not the target's own. The mean of the Gaussian is the target all the same.
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

    def __init__(self, edges: Values, transformed_step: float | None = None) -> None:
        self.edges = checked_edges(edges)
        self.widths = self.edges.diff()
        self.centers = self.edges[:-1] + self.widths / 2
        self.count = len(self.widths)
        self.low, self.high = self.edges[0].item(), self.edges[-1].item()
        self.step, self.transformed_step = common_width(self.edges), checked_step(transformed_step)
        is_atom = self.widths == 0
        self.atoms: Tensor | None = is_atom if bool(is_atom.any()) else None
        self._inner = self.edges[1:-1].contiguous()
        self.bias: Bias | None = None
        self.curves: dict[float, Any] = {}  # of `_core.exact_mean`, made when they are needed

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
        return cls(even_edges(low, high, checked_count(count)))

    @classmethod
    def covering(
        cls,
        y: Values,
        count: int,
        sigma_ratio: float = 1.0,
        padding: float = 3.0,
        lower: float | None = None,
        upper: float | None = None,
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
        lower, upper : float, optional
            Bounds of the target that are known: no bin reaches beyond, whatever the room.

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
        values = checked_targets(y)
        edges = covering_edges(values, checked_count(count), 2 * padding * sigma_ratio)
        if lower is None and upper is None:
            return cls(edges)
        return cls(cut_at_bounds(edges, values, lower, upper))

    @classmethod
    def quantile(cls, y: Values, count: int) -> Bins:
        """Bins that each hold about the same share of the targets.

        A value that is repeated counts for one bin's share at most: it could not fill more bins,
        and would take them from the rest.

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
        return cls(quantile_edges(checked_targets(y), checked_count(count)))

    @classmethod
    def symlog(cls, limit: float, count: int) -> Bins:
        """Fine bins near 0 and wide ones far out: equal in sign(y) log(1 + |y|), the symlog of y.

        For targets of unknown or very different sizes, such as returns. Every target up to
        exp(limit) - 1 in size is the mean of its weights, for `Gaussian` and for `TwoHot`.

        Parameters
        ----------
        limit : float
            The symlog of the largest target, positive: the middle of the last bin there.
        count : int
            The number of bins, at least two; with an odd one, a bin is centered at 0.

        Returns
        -------
        Bins
            `count` bins, symmetric about 0.

        Examples
        --------
        >>> from softbins import Bins
        >>> Bins.symlog(20.0, 255)  # as in DreamerV3
        Bins(255 transformed bins on [-5.24911e+08, 5.24911e+08])
        """
        if not 0 < limit < math.inf:
            raise ValueError(f"limit: need a positive finite number, got {limit}")
        end = limit * checked_count(count) / (count - 1)
        return cls.transformed(lambda z: symexp((z - z.flip(0)) / 2), -end, end, count)

    @classmethod
    def transformed(
        cls, inverse: Callable[[Tensor], Tensor], low: float, high: float, count: int
    ) -> Bins:
        """Bins that are equal in a transformed space, such as that of the logarithm.

        A Gaussian target has a constant width there: its sigma is counted in the transformed
        unit, or in bins. It stands where its mean, in the target's own unit, is the target, for
        every target between the first and the last center.

        Parameters
        ----------
        inverse : callable
            The way back from the transformed space, such as `torch.exp`: of a tensor in float64,
            increasing. It is needed only here, and not kept.
        low, high : float
            The first and the last edge, in the transformed space.
        count : int
            The number of bins, at least two.

        Returns
        -------
        Bins
            `count` bins, whose edges are in the target's unit.

        Examples
        --------
        >>> import torch
        >>> from softbins import Bins
        >>> Bins.transformed(torch.exp2, 0.0, 3.0, 3).edges.tolist()
        [1.0, 2.0, 4.0, 8.0]
        """
        return cls(*edges_of_transform(inverse, low, high, checked_count(count)))

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
        places = torch.unique(float64_tensor(values).reshape(-1)).to(self.edges.device)
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
            A copy, or these bins if they are there already.
        """
        if self.edges.device == torch.device(device):
            return self
        moved = copy.copy(self)
        moved.curves = {}
        for name in ("edges", "widths", "centers", "_inner"):
            setattr(moved, name, getattr(self, name).to(device))
        moved.atoms = None if self.atoms is None else self.atoms.to(device)
        return moved

    def with_bias(self, bias: Bias) -> Bins:
        """The same bins with another `bias`.

        Parameters
        ----------
        bias : Bias
            How far the bins may move the mean of their targets.

        Returns
        -------
        Bins
            A copy.
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
            So many times the bins.
        """
        shares = torch.arange(parts, dtype=self.edges.dtype, device=self.edges.device) / parts
        inner = torch.lerp(self.edges[:-1, None], self.edges[1:, None], shares)
        kept = (self.widths > 0).unsqueeze(-1) | (shares == 0)
        return Bins(torch.cat([inner[kept], self.edges[-1:]]))

    def __len__(self) -> int:
        return self.count

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Bins) or self.transformed_step != other.transformed_step:
            return False
        return torch.equal(self.edges, other.edges.to(self.edges))

    def __hash__(self) -> int:
        return hash((self.count, self.low, self.high))

    def __copy__(self) -> Bins:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> Bins:
        return self  # it never changes

    # A checkpoint holds what makes new bins, and reading it goes through their checks.
    def __reduce__(self) -> tuple[Any, ...]:
        step = self.transformed_step
        parts = (self.edges,) if step is None else (self.edges, step)
        return type(self), parts, None if self.bias is None else tuple(self.bias)

    def __setstate__(self, bias: tuple[float, float]) -> None:
        discretisation, truncation = bias
        self.bias = Bias(float(discretisation), float(truncation))

    def __repr__(self) -> str:
        kind = "unequal" if self.step is None else "equal"
        kind = kind if self.transformed_step is None else "transformed"
        atoms = 0 if self.atoms is None else int(self.atoms.sum())
        also = f" and {atoms} atom{'s' * (atoms > 1)}" if atoms else ""
        return f"Bins({self.count - atoms} {kind} bins{also} on [{self.low:g}, {self.high:g}])"


# `torch.load(..., weights_only=True)` may make bins: nothing runs but the checks above.
torch.serialization.add_safe_globals([Bins])
