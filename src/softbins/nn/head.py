"""A further output layer for trained networks: a sharp histogram of their last hidden units.

The hidden layers learn from blurred targets alone. Given their units, a sharp histogram is a
linear softmax, whose loss is convex, so that a few hundred steps are enough. To train it beside
the hidden layers instead would take a tenth of the time of wide networks and a fifth of that of
narrow ones, and be no better.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from softbins.nn.batches import EVALUATION_CHUNK
from softbins.nn.embedded import EmbeddedMLP
from softbins.nn.objectives import HistogramObjective
from softbins.nn.settings import HeadSettings, Settings
from softbins.nn.stack import StackedMLP
from softbins.nn.stopping import Stop
from softbins.nn.trainer import MemberData, Trainer

MAX_TARGETS_FOR_START = 10_000  # targets whose common distribution is where the training starts
SMALLEST_START_WEIGHT = 1e-6  # of a bin in that distribution, whose logarithm has to be finite


class Head(NamedTuple):
    """An output layer: weights (members, units, outputs) and biases (members, 1, outputs)."""

    weight: Tensor
    bias: Tensor


@torch.no_grad()
def fit_head(
    network: EmbeddedMLP,
    objective: HistogramObjective,
    data: MemberData,
    seeds: Sequence[int],
    settings: Settings,
    head_settings: HeadSettings,
    stop: Stop | None = None,
) -> Head:
    """Train an output layer on the hidden units of each member's own rows.

    Of the networks' settings, weight decay, Adam's memory and the batch size count.
    """
    batch_size = min(settings.batch_size, head_settings.max_batch_size)
    per_row = network.members * network.weights[-1].shape[1]
    index = _equally_many(data.rows, max(batch_size, head_settings.max_units // per_row))
    index = index if stop is None else _rows_in_time(network, data.x, index, stop)
    units = _hidden_units(network, data.x, index)
    length, width = units.shape[1:]
    head = StackedMLP(width, (), objective.outputs, seeds).to(units)
    weight, bias = head.last_layer()
    flat = index.reshape(-1).to(data.y.device)
    weight.zero_()
    bias.copy_(_common_distribution(objective, data.y[flat].view(index.shape)))
    unit_data = MemberData(
        x=units.view(-1, width),
        y=data.y[flat],
        rows=list(torch.arange(len(flat)).view(index.shape)),
        weight=None if data.weight is None else data.weight[flat],
    )
    settings = _settings(replace(settings, batch_size=batch_size), head_settings, length)
    if length < min(map(len, data.rows)):  # for want of memory, so that targets have none either
        settings = replace(settings, max_precomputed_numbers=0)
    with torch.enable_grad():
        Trainer(head, objective, unit_data, settings, seeds, standardize=False, stop=stop).run()
    return Head(weight.detach(), bias.detach())


def _settings(settings: Settings, head_settings: HeadSettings, n_rows: int) -> Settings:
    epochs = math.ceil(head_settings.steps / math.ceil(n_rows / settings.batch_size))
    return replace(
        settings,
        epochs=max(head_settings.min_epochs, min(head_settings.max_epochs, epochs)),
        learning_rate=head_settings.learning_rate,
        schedule="cosine",
        cycles=None,
        max_rows_per_epoch=None,
        patience=None,
        evaluate=(),
    )


def _equally_many(rows: Sequence[Tensor], max_rows: int) -> Tensor:
    """Indices (members, m) of as many rows for each member, at equal distances if too many."""
    spaced = [part[:: math.ceil(len(part) / max_rows)] for part in rows]
    fewest = min(map(len, spaced))
    return torch.stack([part[:fewest] for part in spaced]).long()


def _rows_in_time(network: EmbeddedMLP, x: Tensor, index: Tensor, stop: Stop) -> Tensor:
    """Rows at equal distances whose hidden units take no more than half of the time left."""
    if stop.seconds_left == math.inf:
        return index
    some = index[:, :EVALUATION_CHUNK]
    start = time.perf_counter()
    _hidden_units(network, x, some)
    seconds = (time.perf_counter() - start) * index.shape[1] / some.shape[1]
    longest = max(stop.seconds_left / 2, seconds * some.shape[1] / index.shape[1])
    return index[:, :: math.ceil(seconds / longest)]


def _hidden_units(network: EmbeddedMLP, x: Tensor, index: Tensor) -> Tensor:
    network.eval()
    width = network.weights[-1].shape[1]
    # Written to their place, because a list of parts that is joined takes twice the memory.
    units = x.new_empty(*index.shape, width)
    for start in range(0, index.shape[1], EVALUATION_CHUNK):
        part = index[:, start : start + EVALUATION_CHUNK].to(x.device)
        units[:, start : start + EVALUATION_CHUNK] = network.units(x[part])
    return units


def _common_distribution(objective: HistogramObjective, y: Tensor) -> Tensor:
    """Outputs (members, 1, outputs) that predict the distribution of all of a member's targets."""
    some = y[:, :: math.ceil(y.shape[1] / MAX_TARGETS_FOR_START)].double()
    weights = objective.weights(some).mean(1, keepdim=True)
    return weights.clamp_min(SMALLEST_START_WEIGHT).log()
