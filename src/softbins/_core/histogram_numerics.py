"""The numerics behind `Histogram`: checks, quantiles, the CRPS, and the search for a given mean."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softbins._core.sorted_search import insertion_index
from softbins._core.tensor_checks import (
    is_traced,
    range_complaint,
    require,
    require_softmax,
    require_tensor,
)
from softbins.bins import Bins

# The search for a mean usually takes eight steps, and ends where each mean is this exact, as a
# share of the range of the bins' centers.
MAX_SEARCH_STEPS = 100
MEAN_TOLERANCE = 1e-11


# Checks


def checked_last_dimension(name: str, values: Tensor, bins: Bins) -> Tensor:
    """Values (..., k), at least in float32, with one for each bin, or raise."""
    require_tensor(name, values)
    if values.ndim == 0 or values.shape[-1] != bins.count:
        raise ValueError(
            f"{name}: last dimension must be the number of bins, {bins.count}, "
            f"got shape {tuple(values.shape)}"
        )
    values = values.to(torch.promote_types(values.dtype, torch.float32))
    require_room(bins, values.dtype)
    return values


def require_room(bins: Bins, dtype: torch.dtype) -> None:
    """Raise `ValueError` unless the bins' edges and their widths fit into the precision."""
    if max(-bins.low, bins.high, bins.high - bins.low) > torch.finfo(dtype).max:
        raise ValueError(
            f"bins: the range [{bins.low:g}, {bins.high:g}] does not fit into {dtype}; "
            "scale the targets, or convert the network's outputs to float64"
        )


def normalized_logits(logits: Tensor, validate: bool) -> Tensor:
    """Logarithms of probabilities that sum to one; NaN raises `ValueError` if `validate`."""
    # Not left to torch, which stops validating once anything in the process was compiled.
    if validate and is_traced(logits):
        return torch.log_softmax(require_softmax(logits), -1)
    result = torch.log_softmax(logits, -1)
    if validate and torch.isnan(result).any():
        require("logits", logits)
    return result


def normalized_probs(probs: Tensor) -> Tensor:
    """Probabilities (..., k) that sum to one, or raise `ValueError`."""
    total = require("probs", probs, low=0.0).sum(-1, keepdim=True)
    if not (torch.compiler.is_exporting() or (total > 0).all()):
        raise ValueError("probs: every histogram needs some probability, but one sums to 0")
    return probs / total


def probabilities(name: str, levels: float | Sequence[float] | Tensor) -> Tensor:
    """Numbers from 0 to 1 as a tensor, or raise `ValueError`."""
    hint = "probabilities lie in [0, 1]"
    if isinstance(levels, Tensor) or torch.compiler.is_dynamo_compiling():
        return require(name, exact_tensor(levels), 0.0, 1.0, hint)
    # By NumPy, which sees the values of plain numbers also while torch.export runs.
    found = np.array(levels, dtype=np.float64)
    if not ((found >= 0) & (found <= 1)).all():
        raise ValueError(range_complaint(name, found, 0.0, 1.0, hint))
    return torch.from_numpy(found)


def exact_tensor(values: float | Sequence[float] | Tensor) -> Tensor:
    """Numbers as a tensor that keeps all their digits."""
    return values if isinstance(values, Tensor) else torch.tensor(values, dtype=torch.float64)


def at_batch_index(values: Tensor, index: Any) -> Tensor:
    """Values (*batch, k) at an index into a tensor of the batch shape, never into the last one."""
    batch = values.shape[:-1]
    if hasattr(index, "__array__") and not isinstance(index, Tensor):
        # A copy, because a column of a frame may be read-only; small integers are masks to torch.
        found = np.array(index)
        index = found if found.dtype == bool else found.astype(np.int64, casting="safe")
    places = torch.arange(math.prod(batch), device=values.device).reshape(batch)[index]
    return values.reshape(-1, values.shape[-1])[places]


def on_common_bins(members: Sequence[tuple[Bins, Tensor]]) -> tuple[Bins, list[Tensor]]:
    """Probabilities of different bins, on the union of their edges."""
    first = members[0][0]
    if all(bins == first for bins, _ in members):
        return first, [probs for _, probs in members]
    union = Bins(torch.unique(torch.cat([bins.edges for bins, _ in members])))
    return union, [_on_finer_bins(probs, bins, union) for bins, probs in members]


def _on_finer_bins(probs: Tensor, bins: Bins, finer: Bins) -> Tensor:
    """The probability of each of other, finer bins that contain all edges of these."""
    inner = bins.locate(finer.centers)
    outside = (finer.centers < bins.low) | (finer.centers > bins.high)
    share = torch.where(outside, 0.0, finer.widths / bins.widths[inner])
    return probs[..., inner] * share.to(probs.dtype)


def expected_value(probs: Tensor, values: Tensor) -> Tensor:
    """sum_i f_i v_i, where bins of probability 0 count for nothing even if v_i is infinite."""
    return (probs * values.masked_fill(probs == 0, 0.0)).sum(-1)


def mean_of_bins(probs: Tensor, bins: Bins) -> Tensor:
    """sum_i f_i c_i with the bins' centers c_i."""
    if bins.transformed_step is not None:
        return _mean_in_pairs(probs.double(), bins.centers).to(probs.dtype)
    # About the middle of the range, because float32 sums of years lose the months. Halved first:
    # the sum of the ends may overflow.
    middle = bins.low / 2 + bins.high / 2
    return (probs * (bins.centers - middle).to(probs.dtype)).sum(-1) + middle


def _mean_in_pairs(probs: Tensor, centers: Tensor) -> Tensor:
    """The mean from both ends inwards, in which large centers of opposite sign cancel."""
    half = (len(centers) + 1) // 2
    parts = probs * centers
    both = parts[..., :half] + parts.flip(-1)[..., :half]
    # The middle one of an odd number was counted twice.
    return both.sum(-1) - (parts[..., half - 1] if len(centers) % 2 else 0.0)


def batch_first(
    value: Tensor, batch_shape: torch.Size
) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Values (*sample, *batch) as float64 (*batch, m), and a function for the way back."""
    value = require("value", value, -math.inf, math.inf)
    shape = _broadcast_shape(value.shape, batch_shape)
    sample = shape[: len(shape) - len(batch_shape)]
    if shape[len(sample) :] != batch_shape:
        raise ValueError(
            f"value: shape {tuple(value.shape)} does not fit batch shape "
            f"{tuple(batch_shape)}; use expand() to repeat the histogram"
        )
    flat = value.double().expand(shape).reshape(math.prod(sample), *batch_shape)

    def restore(result: Tensor) -> Tensor:
        return result.movedim(-1, 0).reshape(shape)

    return flat.movedim(0, -1), restore


def _broadcast_shape(first: torch.Size, second: torch.Size) -> torch.Size:
    if torch.compiler.is_compiling():
        return torch.Size(torch.broadcast_shapes(first, second))
    # NumPy's function, because torch's own of that name takes a second to load what it needs.
    return torch.Size(np.broadcast_shapes(first, second))


# Quantiles and intervals


def inverse_cdf(
    cumulative: Tensor, edges: Tensor, widths: Tensor, levels: Tensor, upper: bool = False
) -> Tensor:
    """The smallest y with cdf(y) = level, or the largest if `upper`, for levels (*batch, m).

    `cumulative` (*batch, k + 1) is the cdf at every edge.
    """
    detached = cumulative.detach()
    if upper:
        index = insertion_index(detached, levels, right=True) - 1
    else:
        index = insertion_index(detached[..., 1:], levels)
    index = index.clamp(0, len(widths) - 1)
    start, end = cumulative.gather(-1, index), cumulative.gather(-1, index + 1)
    tiny = torch.finfo(levels.dtype).tiny
    share = ((levels - start) / (end - start).clamp_min(tiny)).clamp(0, 1)
    return edges[index] + widths[index] * share


def shortest_interval(
    cumulative: Tensor, edges: Tensor, widths: Tensor, coverage: float
) -> tuple[Tensor, Tensor]:
    """The narrowest of the intervals that start or end at an edge, which is narrowest of all.

    Moving both ends at equal probability changes the width at a rate that is constant
    between edges, so that the width is least where one of them meets an edge.
    """
    above, below = cumulative + coverage, cumulative - coverage
    from_edges = inverse_cdf(cumulative, edges, widths, above.clamp_max(1))
    up_to_edges = inverse_cdf(cumulative, edges, widths, below.clamp_min(0), upper=True)
    everywhere = edges.expand(cumulative.shape)
    lows = torch.cat([everywhere, up_to_edges], -1)
    highs = torch.cat([from_edges, everywhere], -1)
    possible = torch.cat([above <= 1, below >= 0], -1)
    lengths = torch.where(possible, highs - lows, torch.inf)
    best = lengths.argmin(-1, keepdim=True)
    return lows.gather(-1, best).squeeze(-1), highs.gather(-1, best).squeeze(-1)


# The CRPS


def crps_of_bins(probs: Tensor, cumulative: Tensor, bins: Bins, y: Tensor) -> Tensor:
    """The score of targets (*batch, m) in float64, E|Y - y| - E|Y - Y'| / 2 in closed form.

    The second term is the integral of cdf (1 - cdf). E|Y - y| over a bin is the distance of y to
    its center c, but in the bin that holds y it is (y - c)^2 / w + w / 4.
    """
    distance = (y.unsqueeze(-1) - bins.centers).abs().to(probs.dtype)
    far = (probs.unsqueeze(-2) * distance).sum(-1)
    return far + _own_bin_term(probs, bins, y) - _spread_term(probs, cumulative, bins)


def _own_bin_term(probs: Tensor, bins: Bins, y: Tensor) -> Tensor:
    """What E|Y - y| has in addition in the bin that holds y; both (*batch, m)."""
    place = bins.locate(y)
    width, away = bins.widths[place], (y - bins.centers[place]).abs()
    more = (width / 2 - away).clamp_min(0).square() / width
    return probs.gather(-1, place) * more.to(probs.dtype)


def _spread_term(probs: Tensor, cumulative: Tensor, bins: Bins) -> Tensor:
    """The integral of cdf (1 - cdf): over a bin, by the cdf m in its middle, a polynomial."""
    middle = (cumulative[..., :-1] + cumulative[..., 1:]) / 2
    widths = bins.widths.to(probs.dtype)
    inner = (middle - middle.square()) @ widths - probs.square() @ (widths / 12)
    return inner.unsqueeze(-1)


# The search for a mean


def tilted_logits(logits: Tensor, centers: Tensor, mean: Tensor) -> Tensor:
    """Normalized logits + t c with the mean asked for, in float64; see `Histogram.with_mean`.

    The mean increases with t, which a Newton iteration finds for each histogram, kept within a
    shrinking bracket.
    """
    start, length = centers[0], centers[-1] - centers[0]
    places = (centers - start) / length
    # Not quite at the end, where t would be infinite; outer bins may be narrow.
    low, high = 1e-9 * places[1], 1 - 1e-9 * (1 - places[-2])
    batch_shape = logits.shape[:-1]
    wanted = ((mean.double() - start) / length).clamp(low, high).expand(batch_shape)
    logits = logits.clamp_min(-1e5)
    tilts = _tilts(logits.reshape(-1, len(centers)), places, wanted.reshape(-1))
    tilted = logits + tilts.view(*batch_shape, 1) * places
    # Normalized before float32 rounds: large tilts would cost the small differences.
    return torch.log_softmax(tilted, -1)


def _tilts(logits: Tensor, places: Tensor, wanted: Tensor) -> Tensor:
    """For each row the t for which logits + t places have the wanted mean of places."""
    # Beyond this the bin at one end has everything.
    high = (logits.amax(-1) - logits.amin(-1) + 50) / places.diff().min()
    low, tilts = -high, torch.zeros_like(high)
    if torch.compiler.is_exporting():
        return _exported_search(logits, places, wanted, tilts, low, high)
    searched = torch.arange(len(logits), device=logits.device)
    for _ in range(MAX_SEARCH_STEPS):
        rows = (part[searched] for part in (logits, wanted, tilts, low, high))
        tilts[searched], low[searched], high[searched], far = _search_step(places, *rows)
        searched = searched[far]
        if not len(searched):
            break
    return tilts


def _search_step(
    places: Tensor, logits: Tensor, wanted: Tensor, tilts: Tensor, low: Tensor, high: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Better tilts, a narrower bracket [low, high] of each, and which tilts were not good enough.

    A step of Newton's method, or half of the bracket where that would leave it.
    """
    probs = torch.softmax(logits + tilts.unsqueeze(-1) * places, -1)
    reached = probs @ places
    miss = wanted - reached
    variance = (probs * (places - reached.unsqueeze(-1)).square()).sum(-1)
    low = torch.where(miss > 0, tilts, low)
    high = torch.where(miss < 0, tilts, high)
    newton = tilts + miss / variance.clamp_min(1e-300)
    inside = (newton > low) & (newton < high)
    better = torch.where(inside, newton, (low + high) / 2)
    far = miss.abs() > MEAN_TOLERANCE
    return torch.where(far, better, tilts), low, high, far


def _exported_search(
    logits: Tensor, places: Tensor, wanted: Tensor, tilts: Tensor, low: Tensor, high: Tensor
) -> Tensor:
    """The search as one loop of the exported graph, until all rows together are done."""
    from torch._higher_order_ops.while_loop import while_loop

    def goes_on(step: Tensor, far: Tensor, *_state: Tensor) -> Tensor:
        return far.any() & (step < MAX_SEARCH_STEPS)

    def body(step: Tensor, _far: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        *found, far = _search_step(places, logits, wanted, *state)
        return step + 1, far, *found

    start = torch.zeros((), dtype=torch.int64), torch.ones_like(high, dtype=torch.bool)
    found: tuple[Tensor, ...] = while_loop(goes_on, body, (*start, tilts, low, high))
    return found[2]
