"""Errors on the rows that members have left out."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from softbins.tabular.aggregate import Aggregator, Outputs


@torch.no_grad()
def held_out_scores(
    aggregator: Aggregator, outputs: Outputs, y: Tensor, weight: Tensor | None
) -> dict[str, float]:
    """MAE and RMSE of the mean, and CRPS, for outputs of members that have not seen their rows.

    The aggregator's few numbers were fitted to the same rows, which flatters a little. A coverage
    is not among the scores: on these rows the intervals have it by construction.
    """
    errors, crps, start = [], [], 0
    for chunk in aggregator.chunks(outputs):
        predicted = aggregator.distribution(chunk)
        targets = y[start : start + len(predicted.mean)]
        errors.append(predicted.mean - targets)
        crps.append(predicted.crps(targets))
        start += len(targets)
    error = torch.cat(errors)
    return {
        "mae": _mean(error.abs(), weight),
        "rmse": math.sqrt(_mean(error.square(), weight)),
        "crps": _mean(torch.cat(crps), weight),
    }


def _mean(values: Tensor, weight: Tensor | None) -> float:
    if weight is None:
        return values.mean().item()
    return ((weight * values).sum() / weight.sum()).item()
