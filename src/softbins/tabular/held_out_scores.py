"""Errors on the rows that members have left out."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from softbins.tabular.aggregate import Aggregator, Outputs, with_targets
from softbins.tabular.jobs import run_in_threads


def held_out_scores(
    aggregator: Aggregator, outputs: Outputs, y: Tensor, weight: Tensor | None, threads: int = 1
) -> dict[str, float]:
    """MAE and RMSE of the mean, and CRPS, for outputs of members that have not seen their rows.

    The aggregator's few numbers were fitted to the same rows, which flatters a little. A coverage
    is not among the scores: on these rows the intervals have it by construction.
    """
    pairs = with_targets(aggregator.chunks(outputs), y)

    def error_and_crps(pair: tuple[Outputs, Tensor]) -> Tensor:
        chunk, target = pair
        predicted = aggregator.distribution(chunk)
        return torch.stack([predicted.mean - target, predicted.crps(target)])

    error, crps = torch.cat(run_in_threads(error_and_crps, pairs, threads), 1)
    return {
        "mae": _mean(error.abs(), weight),
        "rmse": math.sqrt(_mean(error.square(), weight)),
        "crps": _mean(crps, weight),
    }


def _mean(values: Tensor, weight: Tensor | None) -> float:
    if weight is None:
        return values.mean().item()
    return ((weight * values).sum() / weight.sum()).item()
