"""Targets on their way into a network: their range, their precision, and those that never vary."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softbins.bins import Bins
from softbins.nn.objectives import Objective
from softbins.nn.stack import StackedMLP

Array = NDArray[np.float64]

MAX_ROUNDING = 1e-5  # of the targets' spread that float32 may blur them by


def range_of(y: Array, given: tuple[float, float] | None, bins: int | Bins) -> tuple[float, float]:
    """The target's range: given, that of given bins, or that of the targets themselves."""
    if isinstance(bins, Bins):
        given = (bins.low, bins.high)
    if given is not None:
        check_range(y, *given)
        return float(given[0]), float(given[1])
    low, high = float(y.min()), float(y.max())
    if low == high:
        room = max(abs(low), 1.0) / 2
        return low - room, high + room
    return low, high


def check_range(y: Array, low: float, high: float) -> None:
    """Raise unless all targets lie in [low, high]."""
    if y.min() < low or y.max() > high:
        raise ValueError(
            f"y: targets from {y.min():g} to {y.max():g} lie outside the range "
            f"[{low:g}, {high:g}] that bins or target_range give; widen it"
        )


def float_targets(y: Array) -> Tensor:
    """Float32 unless that would blur the targets, such as prices around 1e9 that differ by 1."""
    largest, spread = float(np.abs(y).max()), float(y.max()) - float(y.min())
    is_exact = largest * np.finfo(np.float32).eps <= MAX_ROUNDING * spread
    return torch.from_numpy(y.astype(np.float32 if is_exact else np.float64))


@torch.no_grad()
def predict_constant(network: StackedMLP, objective: Objective, y: Tensor) -> None:
    """Set the output layer to the best answer for a target that never changes."""
    weight, bias = network.last_layer()
    weight.zero_()
    bias.copy_(objective.outputs_for(y))
