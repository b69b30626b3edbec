"""Losses of rows from weights and log probabilities, and their mean or sum.

What is rare, an infinite loss or products that overflow, is looked for in the result, and worked
out with more care only then. A compiled graph, which cannot look, always takes the careful way.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from softbins._core.histogram_numerics import expected_value
from softbins._core.tensor_checks import is_traced, require, require_tensor

Reduction = Literal["mean", "sum", "none"]
SMALLEST_TOTAL_WEIGHT = torch.finfo(torch.float32).tiny
# Weights that sum to more than this share of the largest float are divided by their sum before
# they multiply a loss, which might overflow otherwise.
LARGE_TOTAL_AS_SHARE_OF_MAX = 1e-9
DIVIDE_WEIGHTS = "divide all weights by the same number, which leaves the mean as it is"


def cross_entropy(weights: Tensor, log_f: Tensor) -> Tensor:
    """-sum_i p_i log f_i, where a bin without weight counts for nothing even if f_i is 0."""
    if is_traced(weights) or is_traced(log_f):
        return -expected_value(weights, log_f)
    losses = -(weights * log_f).sum(-1)
    # 0 times infinity is NaN: only then is it worth the time to look at every bin.
    return -expected_value(weights, log_f) if holds_nan(losses) else losses


def holds_nan(losses: Tensor) -> bool:
    """Whether one of some losses is NaN; none is minus infinity, so that their sum tells."""
    return math.isnan((losses if losses.ndim == 0 else losses.detach().sum()).item())


def reduced(losses: Tensor, weight: Tensor | None, reduction: Reduction) -> Tensor:
    """The losses, their sum, or their mean, weighted if there are weights."""
    if reduction == "mean" and losses.numel() == 0:
        raise ValueError("y: the mean over no targets is undefined; use reduction='sum'")
    if weight is None:
        return _reduce(losses, reduction)
    weight = _checked_weight(weight, losses)
    if reduction == "mean":
        return _weighted_mean(losses, weight)
    return _reduce(_weighted(losses, weight), reduction)


def _reduce(losses: Tensor, reduction: Reduction) -> Tensor:
    if reduction == "none":
        return losses
    return losses.mean() if reduction == "mean" else losses.sum()


def _checked_weight(weight: Tensor, losses: Tensor) -> Tensor:
    require_tensor("weight", weight)
    if weight.shape != losses.shape:
        raise ValueError(
            f"weight: shape {tuple(weight.shape)} does not match y of shape {tuple(losses.shape)}"
        )
    largest = torch.finfo(losses.dtype).max
    hint = f"weights must not be negative, nor too large for {losses.dtype}: {DIVIDE_WEIGHTS}"
    return require("weight", weight, 0.0, largest, hint).to(losses)


def _weighted(losses: Tensor, weight: Tensor) -> Tensor:
    """The losses times their weights, where weight 0 leaves out a loss even if it is infinite."""
    product = losses * weight
    if not is_traced(product) and not holds_nan(product):
        return product
    return losses.masked_fill((weight == 0) & torch.isinf(losses), 0.0) * weight


def _weighted_mean(losses: Tensor, weight: Tensor) -> Tensor:
    total = _checked_total(weight)
    mean = (losses * weight).sum() / total
    if not is_traced(mean) and math.isfinite(mean.item()):
        return mean
    # The products may have overflowed, but not the mean: dividing by 1 changes no bit.
    large = total > LARGE_TOTAL_AS_SHARE_OF_MAX * torch.finfo(total.dtype).max
    unit = torch.where(large, total, 1.0)
    return _weighted(losses, weight / unit).sum() / (total / unit)


def _checked_total(weight: Tensor) -> Tensor:
    """The sum of the weights, above 0 and finite, or raise `ValueError`."""
    total = weight.sum()
    if is_traced(total) or not SMALLEST_TOTAL_WEIGHT <= total.item() < math.inf:
        hint = f"the sum of the weights overflows {total.dtype}; {DIVIDE_WEIGHTS}"
        total = require("weight.sum()", total, hint=hint)
        hint = "give some row a weight above 0"
        total = require("weight", total, SMALLEST_TOTAL_WEIGHT, hint=hint)
    return total
