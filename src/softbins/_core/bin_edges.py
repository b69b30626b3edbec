"""What the edges of bins have to be, and how some of them are found."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softbins._core.checks import numeric_array, require_whole_number
from softbins._core.tensor_checks import require

Values = Tensor | NDArray[Any] | Sequence[float]


def checked_edges(edges: Values) -> Tensor:
    """The edges of at least two bins in float64, or raise `ValueError`."""
    result = float64_tensor(edges)
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


def float64_tensor(values: Values) -> Tensor:
    """A copy of the values in float64."""
    if isinstance(values, Tensor):
        return values.detach().to(torch.float64, copy=True)
    return torch.from_numpy(np.array(values, dtype=np.float64))


def checked_count(count: int) -> int:
    """A number of bins, at least two, or raise `ValueError`."""
    return require_whole_number("count", count, 2)


def checked_targets(y: Values) -> NDArray[np.float64]:
    """Some targets in one dimension, all finite, or raise `ValueError`."""
    values = numeric_array("y", y, hint="drop or impute those rows").reshape(-1)
    if len(values) == 0:
        raise ValueError("y: need at least one target to place bins, got none")
    return values


def smallest_width(low: float, high: float, count: int) -> float:
    """A width that keeps edges apart in float64, and bins of a sensible size if y is constant."""
    largest = max(abs(low), abs(high))
    return max(largest, 1.0) / count if low == high else 4 * float(np.spacing(largest))


def covering_edges(y: NDArray[np.float64], count: int, room: float) -> NDArray[np.float64]:
    """Edges of equal bins about the targets, `room` bins of which lie beyond them."""
    if not 0 <= room < count:
        raise ValueError(
            f"count: {count} bins leave none for the targets after 2 * padding * sigma_ratio "
            f"= {room:g} bins of room; need sigma_ratio, padding >= 0 and more bins"
        )
    low, high = float(y.min()), float(y.max())
    width = max((high - low) / (count - room), smallest_width(low, high, count))
    start = low + (high - low) / 2 - width * count / 2
    return np.asarray(start + width * np.arange(count + 1), np.float64)


def quantile_edges(y: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Edges of bins that each hold about the same share of the targets.

    Every distinct value owns the cell half-way to its neighbors and spreads its share evenly over
    it, which makes the cumulative share strictly increasing, so that its inverse gives distinct
    edges. A repeated value counts for one bin's share at most.
    """
    distinct, repeats = np.unique(y, return_counts=True)
    if len(distinct) == 1:
        return covering_edges(y, count, room=0.0)
    shares = np.minimum(repeats, len(y) / count)
    cumulative = np.concatenate([[0.0], np.cumsum(shares)])
    levels = np.linspace(0.0, cumulative[-1], count + 1)
    return strictly_increasing(np.interp(levels, cumulative, cells(distinct)))


def cut_at_bounds(
    edges: NDArray[Any], y: NDArray[np.float64], lower: float | None, upper: float | None
) -> NDArray[np.float64]:
    """As many equal bins, none beyond the bounds, or raise `ValueError` if targets are."""
    low, high = float(y.min()), float(y.max())
    if lower is not None and not lower <= low:
        raise ValueError(f"lower: {lower:g} is above the smallest target, {low:g}")
    if upper is not None and not upper >= high:
        raise ValueError(f"upper: {upper:g} is below the largest target, {high:g}")
    start = edges[0] if lower is None else max(edges[0], float(lower))
    end = edges[-1] if upper is None else min(edges[-1], float(upper))
    return np.linspace(start, end, len(edges))


def common_width(edges: Tensor) -> float | None:
    """The bins' width if it is the same for all, up to the rounding of the edges themselves."""
    count = len(edges) - 1
    step = ((edges[-1] - edges[0]) / count).item()
    ideal = edges[0] + step * torch.arange(count + 1, dtype=edges.dtype, device=edges.device)
    rounding = 4 * torch.finfo(edges.dtype).eps * edges.abs().max()
    return step if (edges - ideal).abs().max() <= rounding else None


def cells(distinct: NDArray[np.float64]) -> NDArray[np.float64]:
    """The borders half-way between neighbors; the outer cells are symmetric about their value."""
    middles = distinct[:-1] + np.diff(distinct) / 2
    first, last = 2 * distinct[0] - middles[0], 2 * distinct[-1] - middles[-1]
    return np.concatenate([[first], middles, [last]])


def strictly_increasing(edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Move edges that rounding made equal to the next float."""
    for i in range(1, len(edges)):
        edges[i] = max(edges[i], np.nextafter(edges[i - 1], np.inf))
    return edges


def symexp(values: Tensor) -> Tensor:
    """sign(z) (exp |z| - 1), the inverse of symlog(y) = sign(y) log(1 + |y|)."""
    return values.sign() * torch.expm1(values.abs())


def even_edges(low: float, high: float, count: int) -> Tensor:
    """Edges of equal bins on [low, high], or raise `ValueError`."""
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"low, high: need finite low < high, got low={low}, high={high}")
    return torch.linspace(low, high, count + 1, dtype=torch.float64)


def edges_of_transform(
    inverse: Callable[[Tensor], Tensor], low: float, high: float, count: int
) -> tuple[Tensor, float]:
    """Edges that are equally far apart in another space, and how far, or raise `ValueError`."""
    places = even_edges(low, high, count)
    edges = inverse(places)
    if not isinstance(edges, Tensor) or edges.shape != places.shape:
        raise ValueError(f"inverse: must give a tensor of shape {tuple(places.shape)}")
    if not (torch.isfinite(edges).all() and (edges.diff() > 0).all()):
        raise ValueError(
            f"inverse: must increase and be finite on [{low:g}, {high:g}]; "
            f"it goes from {edges[0].item():g} to {edges[-1].item():g}"
        )
    return edges, (high - low) / count


def checked_step(step: float | None) -> float | None:
    """The width of all bins in another space, if there is one, or raise `ValueError`."""
    if step is None:
        return None
    if not (math.isfinite(step) and step > 0):
        raise ValueError(f"transformed_step: need a positive finite number, got {step}")
    return float(step)
