"""HL-Gaussian by short windows of bins where `loss_table` alone does not reach, also in float32.

- On bins that are equal in another space, a target first gets its place there, and a table for
  equal bins does the rest.
- With a sigma for each target on equal bins, the window is as long as the largest sigma needs, and
  its masses are differences of erf.
- On unequal bins, the window of p comes from an expansion about nodes inside each bin. A sigma in
  widths of a wide bin may reach over most of the others: such targets have their weights worked
  out on all bins.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from softbins._core.exact_mean import curve_of
from softbins._core.gaussian_masses import SQRT2
from softbins._core.loss_table import (
    MAX_SPACING,
    NODES_PER_SIGMA,
    WINDOW_SIGMAS,
    HistogramLossFunction,
    Lookup,
    expansion,
    inverse,
    table_of_places,
    takes,
)
from softbins._core.target_base import Target
from softbins._core.tensor_checks import is_traced
from softbins.bins import Bins
from softbins.targets import Gaussian

# Below, float32 is too coarse for the way from a target to an edge.
SMALLEST_RATIO = 0.05
# Windows have the length that is enough for so many of the bins.
SHARE_OF_BINS = 0.95
MAX_NUMBERS = 6_000_000
# With fewer weights than this, one way for all targets costs less than two, if there is one.
MIN_WEIGHTS = 40_000


class Rows(NamedTuple):
    """A lookup, and what it takes: a row for each target."""

    lookup: Lookup
    rows: Tensor


def windows_for(target: Target, bins: Bins, logits: Tensor, y: Tensor) -> Rows | None:
    """How to look up the weights of these targets, if this is a case for windows."""
    if not isinstance(target, Gaussian) or bins.atoms is not None or not takes(logits, y):
        return None
    if isinstance(target.sigma, Tensor):
        return _for_sigmas(target, target.sigma, bins, y)
    if bins.transformed_step is not None:
        return _for_places(target, bins, y)
    if bins.step is None and target.outside != "tail":
        few = y.numel() * bins.count < MIN_WEIGHTS
        table = _cell_table(bins, target, True) if few else None
        table = table or _cell_table(bins, target, False)
        return None if table is None else Rows(table, target.placed(y, bins).reshape(-1))
    return None


def windowed_loss(logits: Tensor, y: Tensor, found: Rows, over: int | None) -> Tensor:
    """The sum of the losses divided by `over`, or the losses in the shape of y if it is None."""
    apply: Callable[..., Tensor] = HistogramLossFunction.apply
    scale = None if over is None else inverse(over)
    result = apply(logits.reshape(-1, logits.shape[-1]), found.rows, found.lookup, scale)
    return result.view(y.shape) if over is None else result


# Bins that are equal in another space


def _for_places(target: Gaussian, bins: Bins, y: Tensor) -> Rows | None:
    assert bins.transformed_step is not None
    assert not isinstance(target.sigma, Tensor)
    ratio = target.sigma if target.in_bins else target.sigma / bins.transformed_step
    curve, table = curve_of(bins, ratio), table_of_places(bins.count, ratio)
    if curve is None or table is None:
        return None
    place = curve.place(target.placed(y, bins).reshape(-1))
    low, high = torch.aminmax(place)
    # A Gaussian that stands outside is none of the table's.
    inside = low.item() >= 0 and high.item() <= bins.count
    return Rows(table, place) if inside else None


# A sigma for each target


class SigmaWindows(NamedTuple):
    """Windows of equal bins for rows of a place, counted in bins, and a sigma, likewise."""

    half: int
    bins: int

    def lookup(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The bins of each target's window, and -p there."""
        start = rows[:, :1].sub(self.half - 0.5).clamp_(0, self.bins - 2 * self.half).long()
        edges = start + torch.arange(2 * self.half + 1)
        # In float64 up to here: the way to the nearest edges keeps its digits.
        shares = torch.erf(torch.sub(edges, rows[:, :1]).mul_(rows[:, 1:]).float())
        masses = shares[:, :-1] - shares[:, 1:]
        masses /= masses.sum(-1, keepdim=True).neg_()
        return edges[:, :-1], masses

    def rest(self, rows: Tensor) -> None:
        """No target is left out."""


def _for_sigmas(target: Gaussian, sigma: Tensor, bins: Bins, y: Tensor) -> Rows | None:
    if bins.step is None or bins.transformed_step is not None or target.outside == "tail":
        return None
    if sigma.requires_grad or is_traced(sigma) or not sigma.is_cpu:
        return None
    ratio = sigma.double() if target.in_bins else sigma.double() / bins.step
    low, high = torch.aminmax(ratio)
    half = math.ceil(WINDOW_SIGMAS * high.item() + 0.5)
    if low.item() < SMALLEST_RATIO or 2 * half > bins.count // 2:
        return None
    place = (target.placed(y, bins) - bins.low) / bins.step
    rows = torch.stack(torch.broadcast_tensors(place, 1 / (ratio * SQRT2)), -1)
    if rows.shape[:-1] != y.shape:
        return None  # more sigmas than targets: the general way has the error for it
    return Rows(SigmaWindows(half, bins.count), rows.reshape(-1, 2))


# Unequal bins


class CellTable(NamedTuple):
    """p(y) in its window as c0 + d (c1 + d c2) at distance d from a node inside the bin of y.

    Bin i has the nodes from `first[i]` to `last[i]`, `per_unit[i]` of them to the unit. Bins whose
    nodes need a longer window are `wide`, if there are any; these have no weight in theirs.
    """

    bins: Bins
    target: Gaussian
    first: Tensor
    last: Tensor
    per_unit: Tensor
    nodes: Tensor
    windows: Tensor
    c0: Tensor
    c1: Tensor
    c2: Tensor
    wide: Tensor | None

    def _cells(self, y: Tensor) -> Tensor:
        index = self.bins.locate(y)
        share = (y - self.bins.edges.index_select(0, index)).mul_(
            self.per_unit.index_select(0, index)
        )
        cell = share.long().add_(self.first.index_select(0, index))
        return torch.minimum(cell, self.last.index_select(0, index))

    def lookup(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """The bins of each target's window, and -p there."""
        cell = self._cells(y)
        distance = (y - self.nodes.index_select(0, cell)).float().unsqueeze(-1)
        slope = self.c1.index_select(0, cell).addcmul_(distance, self.c2.index_select(0, cell))
        negative = self.c0.index_select(0, cell).addcmul_(distance, slope)
        return self.windows.index_select(0, cell), negative

    def rest(self, y: Tensor) -> tuple[Tensor, Tensor] | None:
        """The targets for which the window is too short, and -p on all bins for them."""
        if self.wide is None:
            return None
        rows = self.wide[self.bins.locate(y)].nonzero().squeeze(-1)
        if not len(rows):
            return None
        return rows, -self.target.weights(y[rows], self.bins).float()


@lru_cache(maxsize=4)
def _cell_table(bins: Bins, target: Gaussian, complete: bool) -> CellTable | None:
    """The table of unequal bins, or None where it would be large or inexact.

    A `complete` one has windows that are long enough for all targets.
    """
    sigmas = torch.ones_like(bins.widths) * target.sigma
    sigmas = sigmas * bins.widths if target.in_bins else sigmas
    counts = (NODES_PER_SIGMA * bins.widths / sigmas).ceil()
    reach = WINDOW_SIGMAS * sigmas
    begin = bins.locate(bins.edges[:-1] - reach)
    lengths = bins.locate(bins.edges[1:] + reach) - begin + 1
    share = 1.0 if complete else SHARE_OF_BINS
    length = int(torch.quantile(lengths.double(), share).ceil())
    if 2 * length > bins.count or 3 * counts.sum() * length > MAX_NUMBERS:
        return None
    spacing = bins.widths / counts
    if not (spacing.min() > 1 / MAX_SPACING and spacing.max() < MAX_SPACING):
        return None
    with torch.inference_mode(False), torch.no_grad():
        return _built(bins, target, sigmas, counts.long(), begin, lengths, length)


def _built(
    bins: Bins,
    target: Gaussian,
    sigmas: Tensor,
    counts: Tensor,
    begin: Tensor,
    lengths: Tensor,
    length: int,
) -> CellTable:
    first, wide = counts.cumsum(0) - counts, lengths > length
    number = torch.repeat_interleave(counts)  # the bin of each node
    within = torch.arange(len(number)) - first[number]
    nodes = bins.edges[number] + (within + 0.5) * (bins.widths / counts)[number]
    start = begin.clamp(max=bins.count - length)[number].unsqueeze(-1)
    edges = bins.edges[start + torch.arange(length + 1)]
    sigma = sigmas[number].unsqueeze(-1)
    parts = expansion(edges, nodes.unsqueeze(-1), sigma, bins.edges[[0, -1]])
    c0, c1, c2 = ((-c).masked_fill(wide[number].unsqueeze(-1), 0.0) for c in parts)
    return CellTable(
        bins=bins,
        target=target,
        first=first,
        last=first + counts - 1,
        per_unit=counts / bins.widths,
        nodes=nodes,
        windows=start + torch.arange(length),
        c0=c0.float(),
        c1=c1.float(),
        c2=(c2 / 2).float(),
        wide=wide if bool(wide.any()) else None,
    )
