"""Checks of the values of a tensor: eager, compiled, and inside `vmap`.

Raising an error because of a tensor's values needs the values. A compiled graph and a `vmap`
have none while Python runs, so there the same check travels along as an operator of its own.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softbins._core.checks import bad_values_message

LARGEST = sys.float_info.max
SMALLEST_POSITIVE = 5e-324


def require(
    name: str, values: Tensor, low: float = -LARGEST, high: float = LARGEST, hint: str = ""
) -> Tensor:
    """Return `values`, all of which are finite and within [low, high], or raise `ValueError`."""
    if is_traced(values):
        checked: Tensor = _require(values, name, low, high, hint)
        return checked
    _inspect(values, name, low, high, hint)
    return values


def is_traced(values: Tensor) -> bool:
    """Whether Python sees a placeholder here (torch.compile, torch.func) and not the values."""
    if torch.compiler.is_compiling():
        return True
    wrapped: bool = torch._C._functorch.is_functorch_wrapped_tensor(values)
    return wrapped


def _inspect(values: Tensor, name: str, low: float, high: float, hint: str) -> None:
    if values.numel() == 0:
        return
    # One fused pass for the usual case. NaN passes through aminmax and fails both comparisons.
    smallest, largest = torch.aminmax(values)
    if not (low <= smallest.item() and largest.item() <= high):
        raise ValueError(_complaint(values, name, low, high, hint))


def _complaint(values: Tensor, name: str, low: float, high: float, hint: str) -> str:
    found = values.detach().cpu().double().numpy()
    bad, fault = ~np.isfinite(found), "NaN or infinite"
    if not bad.any():
        bad = (found < low) | (found > high)
        fault = "not positive" if low == SMALLEST_POSITIVE else f"outside [{low:g}, {high:g}]"
    return bad_values_message(name, found, bad, fault, hint)


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
