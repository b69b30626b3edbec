"""Mean and standard deviation of the features over each member's own training rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

# Rows are looked at in chunks, because a copy of all of them would need much memory.
CHUNK_ROWS = 16_384
# A constant column gets a tiny standard deviation by rounding. Up to this multiple of the mean, it
# counts as 0, so that standardizing does not blow up rounding errors.
MAX_ROUNDING_DEVIATION = 1e-7
# The same where a feature hardly varies over a member's rows, as a multiple of its largest value in
# all rows: the rows that the member leaves out would be farther away than float32 can square.
MIN_DEVIATION = 1e-15


def moments(x: Tensor, rows: Sequence[Tensor], weight: Tensor | None) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of every feature over each member's rows: two (V, features).

    `x` is (n, features), `rows[v]` has the row numbers of member v, and `weight` (n,) weighs the
    rows. Members with the same row numbers in the same order share one computation.
    """
    largest = x.new_zeros(x.shape[1])
    for part in x.split(CHUNK_ROWS):
        torch.maximum(largest, part.abs().amax(0), out=largest)
    least = MIN_DEVIATION * largest.double()
    found: list[tuple[Tensor, tuple[Tensor, Tensor]]] = []
    for index in rows:
        shared = next((result for other, result in found if torch.equal(other, index)), None)
        found.append((index, shared or _moments_of_rows(x, index, weight, least)))
    means, deviations = zip(*(result for _, result in found), strict=True)
    return torch.stack(means), torch.stack(deviations)


def _moments_of_rows(
    x: Tensor, index: Tensor, weight: Tensor | None, least: Tensor
) -> tuple[Tensor, Tensor]:
    """Weighted mean and standard deviation of the rows with these numbers, in two passes.

    A deviation of at most `least` (features,), or of mere rounding, is 0.
    """

    def weights(chunk: Tensor) -> Tensor:
        ones = torch.ones(len(chunk), dtype=torch.float64, device=x.device)
        return ones if weight is None else weight[chunk].to(ones)

    def average(values: Callable[[Tensor], Tensor]) -> Tensor:
        # No list of sums: small tensors between large ones keep memory from being given back.
        total = torch.zeros(x.shape[1] + 1, dtype=torch.float64, device=x.device)
        for chunk in (part.long() for part in index.split(CHUNK_ROWS)):
            own = weights(chunk)
            total[:-1] += own @ values(x[chunk].double())
            total[-1] += own.sum()
        return total[:-1] / total[-1]

    mean = average(lambda part: part)
    deviation = average(lambda part: (part - mean).square()).sqrt()
    varies = deviation > torch.maximum(least, MAX_ROUNDING_DEVIATION * mean.abs())
    return mean.to(x), torch.where(varies, deviation, 0.0).to(x)
