"""HL-Gaussian in one go: loss and gradient without the matrix of weights, for float32 on a CPU.

A Gaussian reaches a dozen bins, so that p is a short window of them, and the gradient f - p
(Appendix A) is a by-product of the loss. The time that is left goes, for small batches, into
launching operations, and for large ones into moving memory (measured with `make bench`):

- The window of p comes from a table: its second-order Taylor expansion about the nearest of a
  few thousand nodes. That takes five cheap operations where erf, differences and normalization
  take nine costly ones, and is exact to 2e-7.
- log f comes from the softmax that the gradient needs anyway.
- Rows are worked on in blocks that stay in the cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from softbins._core.tensor_checks import is_traced
from softbins.bins import Bins
from softbins.targets import Gaussian, Target

# Logits are worked on in blocks of so many: few enough to stay in the cache together with their
# softmax, and enough for the arithmetic to take longer than launching it.
LOGITS_PER_BLOCK = 4096 * 100
# Up to so many rows, one dot product of BLAS is quicker than multiply and sum, and as exact.
MAX_ROWS_FOR_DOT = 512
# A softmax below this has lost digits, and its logarithm with it.
SMALLEST_EXACT_SOFTMAX = 1e-37
# A window reaches at least so far to either side; what is left out weighs less than 4e-8.
WINDOW_SIGMAS = 5.5
# The cubic term of the expansion, which is left out, is then at most 2e-7.
NODES_PER_SIGMA = 48
MAX_NUMBERS_IN_TABLE = 2_000_000
# The spacing of nodes, and its inverse: cubes of distances must fit into float32.
MAX_SPACING = 1e10
# As an integer NaN is the most negative one on x86, where no cell is, but 0 on some processors.
NAN_HAS_A_CELL = torch.tensor(math.nan).long().item() >= 0


class Table(NamedTuple):
    """p(y) in its window as a function of y: c0 + d (c1 + d c2) at distance d from a node.

    Cell 0 and the last one lie outside the bins, and hold the end's own p.
    """

    nodes: Tensor
    windows: Tensor
    c0: Tensor
    c1: Tensor
    c2: Tensor
    origin: Tensor
    per_unit: Tensor

    def lookup(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """The bins of each target's window, and -p there; IndexError if there is no such cell."""
        nodes, windows, c0, c1, c2, origin, per_unit = self
        # Which node is nearest need not be exact, so that float32 will do.
        cell = torch.sub(y, origin).mul_(per_unit).long()
        distance = torch.sub(y, nodes.index_select(0, cell)).view(-1, 1)
        if distance.dtype != torch.float32:
            distance = distance.float()
        slope = c1.index_select(0, cell).addcmul_(distance, c2.index_select(0, cell))
        negative = c0.index_select(0, cell).addcmul_(distance, slope)
        return windows.index_select(0, cell), negative

    def rest(self, y: Tensor) -> None:
        """No target is left out."""


class Lookup(Protocol):
    """Where the windows come from: a table, or what `loss_windows` has in its place."""

    def lookup(self, y: Tensor, /) -> tuple[Tensor, Tensor]:
        """The bins of each target's window, and -p there."""

    def rest(self, y: Tensor, /) -> tuple[Tensor, Tensor] | None:
        """The rows whose windows are too short and hold no weight, and -p on all bins for them."""


def table_of_places(count: int, ratio: float) -> Table | None:
    """The table for places that are counted in bins, if there is one."""
    return _table(0.0, float(count), count, ratio)


def takes(logits: Tensor, y: Tensor) -> bool:
    """Whether loss and gradient can be had in one go for such tensors."""
    if not (logits.is_cpu and logits.dtype == torch.float32) or y.requires_grad or not y.numel():
        return False
    return not is_traced(logits) and not is_traced(y)


def table_for(target: Target, bins: Bins, logits: Tensor, y: Tensor) -> Table | None:
    """The table if this is a case for it: float32 on a CPU, equal bins, one moderate sigma."""
    if not isinstance(target, Gaussian) or isinstance(target.sigma, Tensor) or bins.step is None:
        return None
    if bins.transformed_step is not None or target.outside == "tail" or not takes(logits, y):
        return None
    ratio = target.sigma if target.in_bins else target.sigma / bins.step
    return _table(bins.low, bins.high, bins.count, ratio)


@lru_cache(maxsize=32)
def _table(low: float, high: float, count: int, ratio: float) -> Table | None:
    """The table for sigma = ratio * width, or None where it would be large or inexact."""
    half = math.ceil(WINDOW_SIGMAS * ratio + 0.5)
    cells = count * max(1, math.ceil(NODES_PER_SIGMA / ratio))
    spacing = (high - low) / cells
    rounding = max(abs(low), abs(high)) * torch.finfo(torch.float32).eps
    if 2 * half > count or 6 * half * cells > MAX_NUMBERS_IN_TABLE or rounding > spacing / 4:
        return None
    if not 1 / MAX_SPACING < spacing < MAX_SPACING:
        return None
    with torch.inference_mode(False), torch.no_grad():
        return _build(low, high, count, ratio, half, cells)


def _build(low: float, high: float, count: int, ratio: float, half: int, cells: int) -> Table:
    width, spacing = (high - low) / count, (high - low) / cells
    middles = low + (torch.arange(cells, dtype=torch.float64) + 0.5) * spacing
    # Nodes are float32 numbers: then the distance of a target from them is exact in float32.
    inner = middles.float().double()
    nodes = torch.cat([inner.new_tensor([low]), inner, inner.new_tensor([high])])
    place = (nodes - low) / width
    start = (place - (half - 0.5)).clamp(0, count - 2 * half).long().unsqueeze(-1)
    edges = (start + torch.arange(2 * half + 1)).double()
    ends = torch.tensor([0.0, count], dtype=torch.float64)
    c0, c1, c2 = (-c for c in expansion(edges, place.unsqueeze(-1), ratio, ends))
    c1[[0, -1]] = c2[[0, -1]] = 0.0
    return Table(
        nodes=nodes.float(),
        windows=start + torch.arange(2 * half),
        c0=c0.float(),
        c1=(c1 / width).float(),
        c2=(c2 / (2 * width**2)).float(),
        origin=torch.tensor([low - spacing], dtype=torch.float32),
        per_unit=torch.tensor([1 / spacing], dtype=torch.float32),
    )


def expansion(
    edges: Tensor, place: Tensor, ratio: float | Tensor, ends: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The window p = n / Z and its first two derivatives in the target's place.

    The Gaussian is truncated to the two ends, and all are in the unit of sigma, the ratio.
    """
    n0, n1, n2 = (part.diff() for part in _normal(edges, place, ratio))
    z0, z1, z2 = (part.diff() for part in _normal(ends, place, ratio))
    p0 = n0 / z0
    p1 = (n1 - p0 * z1) / z0
    return p0, p1, (n2 - 2 * p1 * z1 - p0 * z2) / z0


def _normal(edges: Tensor, place: Tensor, ratio: float | Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Phi((edge - place) / ratio) and its first two derivatives in `place`."""
    z = (edges - place) / ratio
    density = torch.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    return torch.special.ndtr(z), -density / ratio, -z * density / ratio**2


class HistogramLossFunction(torch.autograd.Function):
    """-sum_i p_i log f_i for each target, or `scale` times their sum, with p from a table."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, y: Tensor, table: Lookup, scale: Tensor | None) -> Tensor:
        """Loss, and on the way the gradient f - p, which is all that backward needs."""
        result, ctx.gradient = _loss_and_gradient(logits, y, table, scale)
        ctx.save_for_backward(logits)
        ctx.rest = y, table, scale
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """(f - p) times the incoming gradient; differentiable once more when asked."""
        (logits,), scale = ctx.saved_tensors, ctx.rest[-1]
        # Handed over, not shared: whoever gets it may change it. A retained graph makes a new one.
        gradient, ctx.gradient = ctx.gradient, None
        if gradient is None:
            with torch.no_grad():
                gradient = _loss_and_gradient(logits, *ctx.rest)[1]
        if torch.is_grad_enabled():
            softmax = torch.softmax(logits, -1)
            change = softmax - softmax.detach()
            gradient = gradient + (change if scale is None else change * scale)
        elif scale is not None and grad.item() == 1.0:
            return gradient, None, None, None  # the usual end of a network: nothing to multiply
        return gradient * (grad.unsqueeze(-1) if scale is None else grad), None, None, None


def _loss_and_gradient(
    logits: Tensor, y: Tensor, table: Lookup, scale: Tensor | None
) -> tuple[Tensor, Tensor]:
    if logits.numel() <= LOGITS_PER_BLOCK:
        gradient = torch.softmax(logits, -1)
        result = _block(logits, gradient, y, table, scale)
    else:
        gradient = torch.empty_like(logits)
        result = _blocks(logits, gradient, y, table, scale)
    rest = table.rest(y)
    if rest is not None:
        result = _with_rest(result, logits, gradient, scale, *rest)
    return result, gradient


def _blocks(
    logits: Tensor, gradient: Tensor, y: Tensor, table: Lookup, scale: Tensor | None
) -> Tensor:
    """`_block` for many rows, as many at a time as the cache holds; writes the softmax as well."""
    parts, rows = [], max(LOGITS_PER_BLOCK // logits.shape[-1], 1)
    for block, f, targets in zip(*(t.split(rows) for t in (logits, gradient, y)), strict=True):
        torch.softmax(block, -1, out=f)
        parts.append(_block(block, f, targets, table, scale))
    return torch.cat(parts) if scale is None else torch.stack(parts).sum()


def _block(
    logits: Tensor, gradient: Tensor, y: Tensor, table: Lookup, scale: Tensor | None
) -> Tensor:
    """The losses of some rows, or their scaled sum; turns f in `gradient` into the gradient."""
    window, negative = table.lookup(y)
    log_f = gradient.gather(-1, window)
    if log_f.min().item() > SMALLEST_EXACT_SOFTMAX:
        log_f.log_()
    else:
        log_f = torch.log_softmax(logits, -1).gather(-1, window)
        # A bin that the network rules out costs nothing where the target has no weight.
        log_f.masked_fill_(torch.isneginf(log_f) & (negative >= 0), 0.0)
    gradient.scatter_add_(-1, window, negative)
    if scale is None:
        return log_f.mul_(negative).sum(-1)
    gradient.mul_(scale)
    if len(y) <= MAX_ROWS_FOR_DOT:
        return torch.dot(log_f.view(-1), negative.view(-1)).mul_(scale)
    return log_f.mul_(negative).sum().mul_(scale)


def _with_rest(
    result: Tensor,
    logits: Tensor,
    gradient: Tensor,
    scale: Tensor | None,
    rows: Tensor,
    negative: Tensor,
) -> Tensor:
    """The losses, or their scaled sum, with those of rows that have their weights on all bins."""
    log_f = torch.log_softmax(logits[rows], -1)
    log_f.masked_fill_(torch.isneginf(log_f) & (negative >= 0), 0.0)
    losses = log_f.mul_(negative).sum(-1)
    if scale is None:
        gradient.index_add_(0, rows, negative)
        return result.index_add_(0, rows, losses)
    gradient.index_add_(0, rows, negative.mul_(scale))
    return result + losses.sum() * scale


@lru_cache(maxsize=64)
def inverse(count: int) -> Tensor:
    """1 / count as a tensor: multiplying by a Python number takes 10 us longer."""
    with torch.inference_mode(False):
        return torch.tensor(1.0 / count)


def histogram_loss(
    logits: Tensor,
    y: Tensor,
    *,
    target: Target,
    bins: Bins,
    table: Table,
    over: int | None,
    nan_has_a_cell: bool = NAN_HAS_A_CELL,
) -> Tensor:
    """The loss by table: the sum divided by `over`, or the losses in the shape of y if it is None.

    `nan_has_a_cell` says that a NaN would be looked up without an error, as on some processors.
    """
    scale = None if over is None else inverse(over)
    flat_logits, flat_y = logits, y
    if y.ndim != 1:
        flat_logits, flat_y = logits.reshape(-1, logits.shape[-1]), y.reshape(-1)
    # The cell just outside the bins would let a target pass that "error" must refuse.
    if target.outside == "error" or nan_has_a_cell or not y.is_floating_point():
        flat_y = target.placed(y, bins).reshape(-1)
    apply: Callable[..., Tensor] = HistogramLossFunction.apply
    try:
        result = apply(flat_logits, flat_y, table, scale)
    except IndexError:
        # Some target is far outside or not finite: only now is it worth looking at which.
        result = apply(flat_logits, target.placed(y, bins).reshape(-1), table, scale)
    return result.view(y.shape) if over is None else result
