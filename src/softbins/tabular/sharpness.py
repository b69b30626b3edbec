"""Histograms on finer bins, where more is known of a target than the width of a bin can say."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

from softbins._core.atoms import atom_parts
from softbins.bins import Bins
from softbins.histogram import Histogram

CHUNK_NUMBERS = 2**17  # numbers at a time, a megabyte: what stays in the cache is 3 times as fast


def spread_evenly(n_rows: int, most: int) -> slice:
    """Rows at equal distances, where there are many: `most` of them, and fewer than twice that."""
    return slice(None, None, max(1, n_rows // most))


def rows_per_chunk(numbers_per_row: int) -> int:
    """How many rows to work with at a time, if each has so many numbers."""
    return max(1, CHUNK_NUMBERS // numbers_per_row)


def split_bins(predicted: Histogram, parts: int) -> Histogram:
    """Each bin cut into parts, between which the probability changes as it does between bins.

    The logarithms follow the parabola through those of a bin and its neighbors, which a
    Gaussian's do. Atoms stay as they are, and are no neighbors.
    """
    if parts == 1:
        return predicted
    finer = _finer(predicted.bins, parts)
    if predicted.bins.atoms is None:
        return Histogram(finer, logits=_parabolas(predicted.logits, parts))
    wide, at_atoms = atom_parts(predicted.bins).split(predicted.logits)
    share = torch.logsumexp(wide, -1, keepdim=True)
    split = torch.log_softmax(_parabolas(wide, parts), -1) + share
    return Histogram(finer, logits=atom_parts(finer).joined(split, at_atoms))


def _parabolas(logits: Tensor, parts: int) -> Tensor:
    """Logits (..., k) of equal parts of each of k bins, (..., k * parts)."""
    first = 2 * logits[..., :1] - logits[..., 1:2]
    last = 2 * logits[..., -1:] - logits[..., -2:-1]
    around = torch.cat([first, logits, last], -1).unsqueeze(-1)
    before, after = around[..., :-2, :], around[..., 2:, :]
    place = (torch.arange(parts).to(logits) + 0.5) / parts - 0.5
    slope, bend = (after - before) / 2, (after + before) / 2 - around[..., 1:-1, :]
    return (around[..., 1:-1, :] + place * (slope + place * bend)).flatten(-2)


@lru_cache(maxsize=16)
def _finer(bins: Bins, parts: int) -> Bins:
    """The bins cut into parts, made once: making bins looks at values, which no export can."""
    return bins.finer(parts)


def choose_splits(bins: Bins, mean: Tensor, y: Tensor, limit: int) -> int:
    """Into how many parts bins are cut: the power of two that makes them as wide as an error."""
    width = bins.widths[bins.locate(mean)]
    ratio = (width / (y - mean).abs().clamp_min(torch.finfo(y.dtype).tiny)).median().item()
    wanted = 1 << max(0, math.ceil(math.log2(min(max(ratio, 1.0), limit))))
    return min(wanted, limit, most_splits(bins, limit))


def most_splits(bins: Bins, limit: int) -> int:
    """Into how many parts float64 can cut the narrowest bin, up to a limit."""
    smallest = 4 * torch.finfo(bins.edges.dtype).eps * bins.edges.abs().max()
    narrowest = bins.widths[bins.widths > 0].min()
    return max(1, int((narrowest / smallest).clamp(max=limit)))
