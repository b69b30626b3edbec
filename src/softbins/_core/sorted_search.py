"""Where values belong among sorted numbers."""

from __future__ import annotations

import torch
from torch import Tensor


def insertion_index(numbers: Tensor, values: Tensor, *, right: bool = False) -> Tensor:
    """How many of the sorted numbers are below each value, or at most it if `right`.

    `numbers` are (k,), or (*batch, k) for values (*batch, m); the result is as for
    `torch.searchsorted`, which ONNX has no operator for. There each value is compared with all.
    """
    if not torch.compiler.is_exporting():
        return torch.searchsorted(numbers.contiguous(), values.contiguous(), right=right)
    others, values = numbers if numbers.ndim == 1 else numbers.unsqueeze(-2), values.unsqueeze(-1)
    return (others <= values if right else others < values).sum(-1)
