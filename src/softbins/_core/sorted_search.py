"""Where values belong among sorted numbers."""

from __future__ import annotations

import torch
from torch import Tensor

MAX_COMPARED = 256  # numbers with which each value is compared, while exporting


def insertion_index(numbers: Tensor, values: Tensor, *, right: bool = False) -> Tensor:
    """How many of the sorted numbers are below each value, or at most it if `right`.

    `numbers` are (k,), or (*batch, k) for values (*batch, m); the result is as for
    `torch.searchsorted`, which ONNX has no operator for. There each value is compared with all of
    them, or among many that are the same for all rows an interval is halved.
    """
    if not torch.compiler.is_exporting():
        return torch.searchsorted(numbers.contiguous(), values.contiguous(), right=right)
    if numbers.ndim == 1 and len(numbers) > MAX_COMPARED:
        return _by_halving(numbers, values, right)
    others, values = numbers if numbers.ndim == 1 else numbers.unsqueeze(-2), values.unsqueeze(-1)
    return (others <= values if right else others < values).sum(-1)


def _by_halving(numbers: Tensor, values: Tensor, right: bool) -> Tensor:
    count = len(numbers)
    steps = [1 << power for power in reversed(range(count.bit_length()))]
    padded = torch.cat([numbers, numbers.new_full((sum(steps) - count,), torch.inf)])
    index = torch.zeros_like(values, dtype=torch.int64)
    for step in steps:
        number = padded[index + (step - 1)]
        below = number <= values if right else number < values
        index = torch.where(below, index + step, index)
    return index.clamp_max(count)
