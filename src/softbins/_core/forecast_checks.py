"""Checks of predicted distributions, and of the targets that they are compared with."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from softbins._core.checks import numeric_column
from softbins.histogram import Histogram


def check_histogram(distribution: Any) -> None:
    """Raise `ValueError` unless the argument `distribution` is a `Histogram`."""
    if not isinstance(distribution, Histogram):
        raise ValueError(
            "distribution: need a Histogram, such as predict_distribution gives, "
            f"got {type(distribution).__name__}"
        )


def checked_targets(distribution: Histogram, y: Any) -> Tensor:
    """Return one finite target for each histogram as a float64 tensor, or raise `ValueError`."""
    check_histogram(distribution)
    target = numeric_column("y", y)
    if distribution.batch_shape != target.shape:
        raise ValueError(
            f"distribution: batch shape {tuple(distribution.batch_shape)} does not match "
            f"{len(target)} targets; one histogram for all is distribution.expand((n,))"
        )
    return torch.from_numpy(target)
