"""The training loss of a head whose support moves, inside a compiled graph.

A graph is compiled for tensors of one size, while a support gets more bins and moves some. So the
graph has an output for each bin that there may be, and two operators of its own: the first lets the
support follow the targets, and changes the layer; the second gives the weights of the targets, by
row of the layer. Both find their head by its number.
"""

from __future__ import annotations

import itertools
from typing import Any
from weakref import WeakValueDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from softbins._core.loss_reduction import Reduction, cross_entropy, reduced
from softbins._core.tensor_checks import require_softmax

_numbers = itertools.count()
_heads: WeakValueDictionary[int, Any] = WeakValueDictionary()


def known_as(head: nn.Module) -> int:
    """A number by which the operators find this head."""
    number = next(_numbers)
    _heads[number] = head
    return number


def compiled_loss(
    number: int,
    linear: nn.Linear,
    x: Tensor,
    y: Tensor,
    weight: Tensor | None,
    shape: tuple[int, ...],
    reduction: Reduction,
) -> Tensor:
    """The loss of a head in training mode, whose rows have the shape (outputs, -1) or (-1,)."""
    with torch.no_grad():
        _follow(y, linear.weight, linear.bias, number)
    logits = F.linear(x, linear.weight, linear.bias).unflatten(-1, shape).float()
    # Given the bias so that it comes after what has changed the bias.
    weights, used = _weights(y, linear.bias.detach(), number)
    logits = require_softmax(logits.masked_fill(~used, -torch.inf))
    return reduced(cross_entropy(weights, torch.log_softmax(logits, -1)), weight, reduction)


@torch.library.custom_op("softbins::follow", mutates_args=("weight", "bias"))
def _follow(y: Tensor, weight: Tensor, bias: Tensor, number: int) -> None:
    _heads[number]._follow(y, weight, bias)


@_follow.register_fake
def _(y: Tensor, weight: Tensor, bias: Tensor, number: int) -> None:
    return None


@torch.library.custom_op("softbins::support_weights", mutates_args=())
def _weights(y: Tensor, bias: Tensor, number: int) -> tuple[Tensor, Tensor]:
    weights, used = _heads[number]._weights(y)
    return weights, used


@_weights.register_fake
def _(y: Tensor, bias: Tensor, number: int) -> tuple[Tensor, Tensor]:
    rows = _heads[number].support.rows
    shape = (*y.shape, rows.numel())
    return (
        torch.empty(shape, dtype=torch.float32, device=y.device),
        torch.empty(rows.numel(), dtype=torch.bool, device=y.device),
    )
