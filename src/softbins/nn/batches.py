"""In which order the members of a stack see their rows: batches of an epoch, chunks of a test."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice, zip_longest

import torch
from torch import Tensor

EVALUATION_CHUNK = 4096  # rows that go through the network at a time where there is no gradient
BATCHES_OF_A_BLOCK = 16  # rows that follow each other on disk, where only a part is shuffled


def steps_of_epoch(rows: int, batch: int, max_rows: int | None = None) -> int:
    """Batches of an epoch: of all rows, or of a random part of them if there are too many."""
    return math.ceil((rows if max_rows is None else min(rows, max_rows)) / batch)


def epoch_batches(
    rows: Sequence[Tensor],
    generators: Sequence[torch.Generator],
    batch: int,
    shuffled_rows: int | None = None,
    max_rows: int | None = None,
) -> Iterator[Tensor]:
    """Row numbers (members, batch) of every step of an epoch, each member in its own random order.

    A member that has fewer rows than others goes on with row 0. Of a table on disk, about
    `shuffled_rows` rows are shuffled among each other; None shuffles all. With `max_rows`, the
    epoch ends after the batch that reaches so many rows.
    """
    size = _rows_shuffled_together(max(map(len, rows)), batch, shuffled_rows)
    steps = steps_of_epoch(max(map(len, rows)), batch, max_rows)
    members = [
        shuffled_parts(*each, batch, size, steps * batch)
        for each in zip(rows, generators, strict=True)
    ]
    return islice(_batches(members, batch), steps)


def _batches(members: Sequence[Iterator[Tensor]], batch: int) -> Iterator[Tensor]:
    """Row numbers (members, batch) from the parts of each member's rows."""
    for parts in zip_longest(*members, fillvalue=torch.zeros(0)):
        order = torch.zeros(len(parts), max(map(len, parts)), dtype=torch.int64)
        for filled, part in zip(order, parts, strict=True):
            filled[: len(part)] = part
        yield from order.split(batch, 1)


def _rows_shuffled_together(longest: int, batch: int, shuffled_rows: int | None) -> int:
    """In whole batches, or all."""
    block = batch * BATCHES_OF_A_BLOCK
    return longest if shuffled_rows is None else max(shuffled_rows // block, 1) * block


def shuffled_parts(
    rows: Tensor, generator: torch.Generator, batch: int, size: int, most: int
) -> Iterator[Tensor]:
    """All rows in random order, `size` at a time, or the first `most` of them if that is fewer.

    If rows are more than `size`, each part has random blocks of rows that follow each other; the
    last block, which may be shorter than others, comes last.
    """
    if len(rows) <= size:
        yield rows[torch.randperm(len(rows), generator=generator)[:most]]
        return
    blocks = rows.split(batch * BATCHES_OF_A_BLOCK)
    order = [*torch.randperm(len(blocks) - 1, generator=generator).tolist(), len(blocks) - 1]
    each = size // (batch * BATCHES_OF_A_BLOCK)
    for start in range(0, len(order), each):
        part = torch.cat([blocks[block] for block in order[start : start + each]])
        yield part[torch.randperm(len(part), generator=generator)]


def evaluation_chunks(rows: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    """Row numbers (V, chunk) and which of them are real, where members differ in length."""
    lengths = torch.tensor([len(part) for part in rows]).unsqueeze(-1)
    for start in range(0, int(lengths.max()), EVALUATION_CHUNK):
        end = min(start + EVALUATION_CHUNK, int(lengths.max()))
        padded = torch.zeros(len(rows), end - start, dtype=torch.int64)
        for filled, part in zip(padded, rows, strict=True):
            here = part[start:end]
            filled[: len(here)] = here
        yield padded, torch.arange(start, end) < lengths
