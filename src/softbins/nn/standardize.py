"""Mean and standard deviation of the features over each member's own rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

CHUNK = 65_536  # rows at a time: a second copy of all of them in float64 takes too much memory


def moments(x: Tensor, rows: Sequence[Tensor], weight: Tensor | None) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of every feature over each member's rows."""
    known: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
    keys = [(part.data_ptr(), len(part)) for part in rows]  # members often share their rows
    for key, part in zip(keys, rows, strict=True):
        if key not in known:
            known[key] = _moments_of(x, part, torch.ones(len(x)) if weight is None else weight)
    means, deviations = zip(*(known[key] for key in keys), strict=True)
    return torch.stack(means), torch.stack(deviations)


def _moments_of(x: Tensor, rows: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """In float64 and in two passes, a chunk at a time: exact, and no copy of the data."""
    weight = weight.to(x.device, torch.float64)

    def average(values: Callable[[Tensor], Tensor]) -> Tensor:
        parts = [weight[c] @ values(x[c].double()) for c in rows.split(CHUNK)]
        return torch.stack(parts).sum(0) / weight[rows].sum()

    mean = average(lambda part: part)
    deviation = average(lambda part: (part - mean).square()).sqrt()
    # Rounding leaves a constant column a tiny spread, which must not be blown up to one.
    return mean.to(x), torch.where(deviation > 1e-7 * mean.abs(), deviation, 0.0).to(x)
