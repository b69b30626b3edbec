"""Where tensors are: an objective with all that it holds on one device."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import TypeVar, cast

import torch
from torch import Tensor

from softbins.bins import Bins

Value = TypeVar("Value")


def on_device(value: Value, device: torch.device | str) -> Value:
    """The same value with its tensors and bins on a device, those of its fields as well."""
    if isinstance(value, (Tensor, Bins)):
        return cast(Value, value.to(device))
    if not is_dataclass(value) or isinstance(value, type):
        return value
    parts = {part.name: getattr(value, part.name) for part in fields(value) if part.init}
    return replace(value, **{name: on_device(part, device) for name, part in parts.items()})
