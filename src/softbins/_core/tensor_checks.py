"""Checks of the values of a tensor: eager, compiled, and inside `vmap`.

Raising an error because of a tensor's values needs the values. A compiled graph and a `vmap`
have none while Python runs, so there the same check travels along as an operator of its own.
`torch.export` leaves the checks out: what it writes, such as ONNX, knows no operators of ours.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softbins._core.checks import SMALLEST_POSITIVE, bad_values_message

LARGEST = sys.float_info.max
NO_SOFTMAX_HINT = (
    "lower the learning rate, or look for NaN and infinity in the inputs of the network"
)


def require(
    name: str, values: Tensor, low: float = -LARGEST, high: float = LARGEST, hint: str = ""
) -> Tensor:
    """Return `values`, all of which are within [low, high], or raise `ValueError`.

    They must be finite, unless a bound is infinite itself. While exporting nothing is checked.
    """
    if torch.compiler.is_exporting():
        return values
    if is_traced(values):
        checked: Tensor = _require(values, name, low, high, hint)
        return checked
    _inspect(values, name, low, high, hint)
    return values


def require_softmax(logits: Tensor) -> Tensor:
    """Return logits (..., k), each row of which has a softmax, or raise `ValueError`.

    A row has one exactly if its largest logit is finite. In a compiled graph and in `vmap` the
    result is shifted by these, which does not change the softmax, and ties the check to it.
    """
    if torch.compiler.is_exporting():
        return logits
    largest = logits.detach().amax(-1)
    if is_traced(logits):
        shift: Tensor = _require_softmax(largest)
        return logits - shift.unsqueeze(-1)
    _inspect_largest(largest)
    return logits


def require_tensor(name: str, values: Any) -> None:
    """Raise `TypeError` unless `values` are a tensor."""
    if not isinstance(values, Tensor):
        raise TypeError(
            f"{name}: need a tensor, got {type(values).__name__}; convert with torch.as_tensor"
        )


def is_traced(values: Tensor) -> bool:
    """Whether Python sees a placeholder here (torch.compile, torch.func) and not the values."""
    if torch.compiler.is_compiling():
        return True
    wrapped: bool = torch._C._functorch.is_functorch_wrapped_tensor(values)
    return wrapped


def _inspect(values: Tensor, name: str, low: float, high: float, hint: str) -> None:
    if not _all_within(values, low, high):
        found = values.detach().cpu().double().numpy()
        raise ValueError(range_complaint(name, found, low, high, hint))


def _all_within(values: Tensor, low: float, high: float) -> bool:
    if values.numel() == 0:
        return True
    # One fused pass for the usual case. NaN passes through aminmax and fails both comparisons.
    smallest, largest = torch.aminmax(values)
    return bool(low <= smallest.item() and largest.item() <= high)


def range_complaint(name: str, found: NDArray[Any], low: float, high: float, hint: str) -> str:
    """Which of some numbers are not finite, or else not within [low, high]."""
    bad, fault = ~np.isfinite(found) & (found != low) & (found != high), "NaN or infinite"
    if not bad.any():
        bad = (found < low) | (found > high)
        fault = "not positive" if low == SMALLEST_POSITIVE else f"outside [{low:g}, {high:g}]"
    return bad_values_message(name, found, bad, fault, hint)


def _inspect_largest(largest: Tensor) -> None:
    if not _all_within(largest, -LARGEST, LARGEST):
        raise ValueError(_softmax_complaint(largest.cpu().double().numpy()))


def _softmax_complaint(largest: NDArray[Any]) -> str:
    """Which rows have no softmax, and what the first of them holds, by its largest logit."""
    bad = ~np.isfinite(largest)
    place = np.argwhere(bad)[0].tolist()
    value = largest[tuple(place)]
    fault = "holds NaN" if np.isnan(value) else "holds inf"
    fault = "is -inf throughout" if value == -np.inf else fault
    index = f"row {place[0] if len(place) == 1 else tuple(place)}" if place else "the row"
    count = f"rows without a softmax: {int(bad.sum())} of {bad.size}"
    return f"logits: {index} {fault} ({count}); {NO_SOFTMAX_HINT}"


@torch.library.custom_op("softbins::require", mutates_args=())
def _require(values: Tensor, name: str, low: float, high: float, hint: str) -> Tensor:
    _inspect(values, name, low, high, hint)
    return values.clone()


@_require.register_fake
def _(values: Tensor, name: str, low: float, high: float, hint: str) -> Tensor:
    return torch.empty_like(values)


@_require.register_vmap
def _(info: Any, in_dims: Any, values: Tensor, *rest: Any) -> tuple[Tensor, int | None]:
    return _require(values, *rest), in_dims[0]


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return grad, None, None, None, None


_require.register_autograd(_backward)


@torch.library.custom_op("softbins::require_softmax", mutates_args=())
def _require_softmax(largest: Tensor) -> Tensor:
    _inspect_largest(largest)
    return largest.clone()


@_require_softmax.register_fake
def _(largest: Tensor) -> Tensor:
    return torch.empty_like(largest)


@_require_softmax.register_vmap
def _(info: Any, in_dims: Any, largest: Tensor) -> tuple[Tensor, int | None]:
    return _require_softmax(largest), in_dims[0]
