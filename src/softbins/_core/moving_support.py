"""How a support moves: which bins are added, cut in two or merged, and whose probability they take.

Two of three changes keep what is predicted, whatever the features:

- A bin beyond the ends takes a copy of the outermost bin's row, with a small share of its
  probability: exp(-8).
- A bin is cut in two, each with a copy of its row and half of its probability.

Neighbours are merged only where no output is free. Their row is the mean of both, which for two
equal probabilities is right, and otherwise takes a little from both.

A bin beyond the ends takes the optimizer long to raise by a factor of exp(8). If a network begins
with that, it pushes all of its features into one direction on the way, and may lose what tells its
rows apart. So what bins were withheld that the first targets ask for is given back while the head
trains, a factor of exp(2) with each loss. Later it is not: a network that has learnt would predict
too much in wide bins far out, and does worse on targets that keep growing.

For the same reason bins are cut as often as they have to be at once: from targets in one and the
same bin, a network learns nothing that tells them apart.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from softbins._core.checks import require_whole_number
from softbins._core.tensor_checks import require
from softbins.bins import Bins

# The probability that the outermost bin hands to a new one beyond it, as a logarithm.
LOG_SHARE_BEYOND = -8.0
# How much of that each loss gives back.
RELEASED = 2.0
# A support that grows does so by at least this share of its length.
LEAST_GROWTH = 0.25
# Bins are merged if together they are at most this share of the support.
MERGED_SHARE = 2e-3
# A bin with targets is cut while it is wider than this share of the range of recent targets.
BINS_OF_RANGE = 25
# The range of recent targets gives way by so much of what a batch leaves of it at an end.
FORGOTTEN = 0.01
LARGEST = torch.finfo(torch.float32).max / 4


class Cell(NamedTuple):
    """A new bin: its ends, the old bins that it comes from, and what is added to their bias."""

    low: float
    high: float
    sources: tuple[int, ...]
    offset: float = 0.0

    @property
    def width(self) -> float:
        """The width, in the target's unit."""
        return self.high - self.low


def plan(
    edges: list[float], low: float, high: float, wide: list[int], free: int
) -> list[Cell] | None:
    """The new bins for targets in [low, high], or None if all stays as it is.

    `wide` are the bins that should be cut in two, and `free` is the number of further bins that
    there may be. `ValueError` if the support would not fit into float32.
    """
    cells = _cells(edges)
    added = _beyond(edges, low, high)
    cells = _merged(cells, len(added) - free, math.inf)
    spare = free + len(edges) - 1 - len(cells) - len(added)
    narrow = MERGED_SHARE * (edges[-1] - edges[0])
    before = len(cells)
    cells = _merged(cells, len(wide) - spare, narrow, kept=wide)
    spare += before - len(cells)
    cells = _cut(cells, wide, spare)
    if not added and len(cells) == len(edges) - 1:
        return None
    return sorted([*cells, *added])


def _cells(edges: list[float]) -> list[Cell]:
    return [Cell(*ends, (number,)) for number, ends in enumerate(pairwise(edges))]


def _beyond(edges: list[float], low: float, high: float) -> list[Cell]:
    """One new bin on each side on which a target is beyond the outermost center."""
    added, length, last = [], edges[-1] - edges[0], len(edges) - 2
    if low < (edges[0] + edges[1]) / 2:
        end = edges[0] - max(LEAST_GROWTH * length, 2.5 * (edges[0] - low))
        added.append(Cell(end, edges[0], (0,), LOG_SHARE_BEYOND))
    if high > (edges[-1] + edges[-2]) / 2:
        end = edges[-1] + max(LEAST_GROWTH * length, 2.5 * (high - edges[-1]))
        added.append(Cell(edges[-1], end, (last,), LOG_SHARE_BEYOND))
    for cell in added:
        if max(abs(cell.low), abs(cell.high)) > LARGEST:
            raise ValueError(
                f"y: for targets in [{low:g}, {high:g}] the support would have to reach beyond "
                "float32; scale the targets"
            )
    return added


def _merged(
    cells: list[Cell], wanted: int, widest: float, kept: list[int] | None = None
) -> list[Cell]:
    """The cells with some neighbours merged, the narrowest first, each cell once at most."""
    taken = {number for number, cell in enumerate(cells) if len(cell.sources) > 1}
    taken |= set(kept or [])
    order = sorted(range(len(cells) - 1), key=lambda i: cells[i + 1].high - cells[i].low)
    firsts: set[int] = set()
    for i in order:
        if len(firsts) >= wanted or cells[i + 1].high - cells[i].low > widest:
            break
        if not taken & {i, i + 1}:
            firsts.add(i)
            taken |= {i, i + 1}
    return [
        _merge(cells[i], cells[i + 1]) if i in firsts else cells[i]
        for i in range(len(cells))
        if i - 1 not in firsts
    ]


def _merge(one: Cell, other: Cell) -> Cell:
    return Cell(one.low, other.high, one.sources + other.sources, math.log(2))


def _cut(cells: list[Cell], wide: list[int], spare: int) -> list[Cell]:
    """The cells with those that come from wide bins cut in two, the widest first."""
    chosen = [cell for cell in cells if cell.sources[0] in wide and len(cell.sources) == 1]
    chosen = sorted(chosen, key=lambda cell: -cell.width)[: max(spare, 0)]
    halves = []
    for cell in chosen:
        middle = cell.low + cell.width / 2
        halves += [
            Cell(cell.low, middle, cell.sources, -math.log(2)),
            Cell(middle, cell.high, cell.sources, -math.log(2)),
        ]
    return sorted([cell for cell in cells if cell not in chosen] + halves)


class MovingSupport(nn.Module):
    """What a support that moves has to remember, as buffers.

    `rows` are the rows of the layer that the bins have, from left to right, and behind them those
    that are free; `recent` is the range of recent targets, NaN at first; `finest` is the width of
    the narrowest bin at first, below which none is cut; `held` is what the bias of each row has to
    get back.
    """

    rows: Tensor
    recent: Tensor
    finest: Tensor
    held: Tensor

    def __init__(self, bins: Bins, spare: int) -> None:
        super().__init__()
        self.register_buffer("rows", torch.arange(bins.count + spare))
        self.register_buffer("recent", torch.full((2,), math.nan, dtype=torch.float64))
        self.register_buffer("finest", bins.widths.min().clone())
        self.register_buffer("held", torch.zeros(bins.count + spare))

    def follow(self, y: Tensor, bins: Bins, weight: Tensor, bias: Tensor) -> Bins:
        """The bins for such targets, which are the same if none has to move.

        Weight and bias, (copies, rows, ...), are changed in place.
        """
        seen = _seen(y, bins)
        if not seen.low <= seen.high:
            return bins  # there was no target
        begins, recent = bool(self.recent.isnan().any()), self._recent(seen)
        wide, free = self._wide(seen, bins, recent), self.rows.numel() - bins.count
        cells = plan(bins.edges.tolist(), seen.low, seen.high, wide, free)
        self.recent.copy_(torch.tensor(recent))
        while cells is not None:
            bins = self._move(cells, bins, weight, bias, begins)
            cells = self._cuts(y, bins)
        return bins

    def _cuts(self, y: Tensor, bins: Bins) -> list[Cell] | None:
        """The bins with some more cut in two, as long as there are free outputs for it."""
        free = self.rows.numel() - bins.count
        if not free:
            return None
        wide = self._wide(_seen(y, bins), bins, tuple(self.recent.tolist()))
        return _cut(_cells(bins.edges.tolist()), wide, free) if wide else None

    def _wide(self, seen: Seen, bins: Bins, recent: tuple[float, ...]) -> list[int]:
        """The bins that hold targets and are wide beside the range of recent ones."""
        limit = max((recent[1] - recent[0]) / BINS_OF_RANGE, 2 * self.finest.item())
        found: list[int] = (seen.holds & (bins.widths > limit)).nonzero().flatten().tolist()
        return found

    def _move(
        self, cells: list[Cell], bins: Bins, weight: Tensor, bias: Tensor, begins: bool
    ) -> Bins:
        """Give each of the new bins its row of the layer."""
        old, new = self.rows, moved_rows(cells, self.rows)
        offsets = bias.new_tensor([cell.offset for cell in cells])
        for values in (weight, bias, self.held.unsqueeze(0)):
            move_rows(values, cells, old, new)
        own, free = new[: len(cells)], new[len(cells) :]
        bias[:, own] += offsets
        if begins:
            self.held[own] -= offsets.where(offsets == LOG_SHARE_BEYOND, 0.0).to(self.held)
        self.held[free] = 0.0
        self.rows.copy_(new)
        edges = [cell.low for cell in cells] + [cells[-1].high]
        return Bins(edges, bins.transformed_step).to(bins.edges.device)

    def release(self, bias: Tensor) -> None:
        """Give back some of what bins beyond the ends were withheld, to a bias (copies, rows)."""
        if not self.held.any():
            return
        step = self.held.clamp(max=RELEASED)
        bias += step.to(bias)
        self.held -= step

    def _recent(self, seen: Seen) -> tuple[float, float]:
        low, high = self.recent.tolist()
        if math.isnan(low):
            return seen.low, seen.high
        low += FORGOTTEN * max(seen.low - low, 0.0)
        high -= FORGOTTEN * max(high - seen.high, 0.0)
        return min(low, seen.low), max(high, seen.high)

    def _apply(self, fn: Any, recurse: bool = True) -> MovingSupport:
        recent, finest = self.recent, self.finest
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        # In float64 whatever `.half()` does to the network.
        self.recent, self.finest = (old.to(self.rows.device) for old in (recent, finest))
        return self


class Seen(NamedTuple):
    """The range of some targets, and which bins hold one."""

    low: float
    high: float
    holds: Tensor


def _seen(y: Tensor, bins: Bins) -> Seen:
    """What there is to know of a batch, that of all processes if there are several."""
    good = bool(torch.isfinite(y).all())
    several = dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
    if not several:
        require("y", y, hint="drop or impute those rows")
    values = y.detach().to(bins.edges).flatten() if good else bins.edges.new_empty(0)
    found = bins.edges.new_full((3 + bins.count,), -math.inf)
    found[2] = float(not good)
    if len(values):
        found[0], found[1] = -values.min(), values.max()
        found[3 + bins.locate(values)] = 1.0
    if several:
        dist.all_reduce(found, dist.ReduceOp.MAX)
        require("y", y, hint="drop or impute those rows")
        if found[2] > 0:
            raise ValueError("y: another process has targets that are NaN or infinite")
    low, high = found[:2].tolist()
    return Seen(-low, high, found[3:] > 0)


def checked_spare(spare: int, bins: Any) -> int:
    """The number of bins that a support may get, or raise `ValueError`."""
    spare = require_whole_number("spare", spare, 0)
    if spare and not isinstance(bins, Bins):
        raise ValueError(
            "spare: outputs with a range each cannot move; give each a head of its own"
        )
    return spare


def movable(bins: Bins) -> Bins:
    """The bins as they are to a support that moves: each counts as much as any other."""
    step = bins.transformed_step or bins.step
    if step is None:
        raise ValueError(f"bins: {bins} cannot move; use Bins.uniform, symlog or transformed")
    return Bins(bins.edges, step)


def moved_rows(cells: list[Cell], rows: Tensor) -> Tensor:
    """Which row of the layer each new bin has, followed by the rows that are free.

    `rows` is the same for the old bins. A bin keeps the row of its first source, if it is the
    first to come from there and lies inside the old support.
    """
    known, used, result = rows.tolist(), set(), []
    for cell in cells:
        row = known[cell.sources[0]]
        own = cell.offset != LOG_SHARE_BEYOND and row not in used
        result.append(row if own else None)
        used |= {row} if own else set()
    free = [row for row in known if row not in used]
    placed = [free.pop(0) if row is None else row for row in result]
    return torch.tensor(placed + free, device=rows.device)


def move_rows(values: Tensor, cells: list[Cell], old: Tensor, new: Tensor) -> None:
    """Give each new bin its row of a weight or bias (outputs, rows, ...), in place."""
    before = values.clone()
    first = torch.tensor([cell.sources[0] for cell in cells], device=old.device)
    last = torch.tensor([cell.sources[-1] for cell in cells], device=old.device)
    values[:, new[: len(cells)]] = (before[:, old[first]] + before[:, old[last]]) / 2
