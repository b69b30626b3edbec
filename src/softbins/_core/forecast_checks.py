"""Checks of predicted distributions, and of the targets that they are compared with."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
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


def checked_labels(groups: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """Labels as text, in which they come back from JSON."""
    labels = np.asarray(groups)
    if labels.shape != shape:
        raise ValueError(f"groups: need a label for each row, shape {shape}, got {labels.shape}")
    for i, label in enumerate(labels.reshape(-1).tolist()):
        if not isinstance(label, (str, int)):
            raise ValueError(
                f"groups: labels must be text or whole numbers, got {label!r} at index {i}"
            )
    return labels.astype(str)
