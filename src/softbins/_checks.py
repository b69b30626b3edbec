"""Checks on numbers, and on the values of a tensor: eager, compiled, and inside `vmap`.

Raising an error because of a tensor's values needs the values. A compiled graph and a `vmap`
have none while Python runs, so there the same check travels along as an operator of its own.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from numbers import Real
from typing import Any

import torch
from torch import Tensor

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


def require_number(name: str, value: Any, rule: str = "positive") -> float:
    """Return a finite number that is "positive", "at least 0" or "in [0, 1)", or raise."""
    fits: dict[str, Callable[[float], bool]] = {
        "positive": lambda number: number > 0,
        "at least 0": lambda number: number >= 0,
        "in [0, 1)": lambda number: 0 <= number < 1,
    }
    known = isinstance(value, Real) and not isinstance(value, bool)
    if not (known and math.isfinite(value) and fits[rule](value)):
        raise ValueError(f"{name}: must be a number, {rule}, got {value!r}")
    return float(value)


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
    values = values.cpu().double()
    bad = ~torch.isfinite(values)
    fault = "NaN or infinite"
    if not bad.any():
        bad = (values < low) | (values > high)
        fault = "not positive" if low == SMALLEST_POSITIVE else f"outside [{low:g}, {high:g}]"
    where = torch.nonzero(bad)[0].tolist()
    first = values[tuple(where)].item()
    index = where[0] if len(where) == 1 else tuple(where)
    place = f", the first at index {index}" if where else ""
    found = f"{name}: {int(bad.sum())} of {values.numel()} values are {fault}{place} ({first:g})"
    return f"{found}; {hint}" if hint else found


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
