"""A sharp histogram on top of trained networks: an output layer for their last hidden units.

The hidden layers learn from blurred targets alone (`BlurredObjective`). Given their units, a sharp
histogram is a linear softmax, whose loss is convex: some hundred steps are enough. Trained beside
the hidden layers it would take a tenth of the time of wide networks and a fifth of that of narrow
ones, and be no better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from softbins.nn.embedded import EmbeddedMLP
from softbins.nn.objectives import HistogramObjective
from softbins.nn.stack import StackedMLP
from softbins.nn.trainer import CHUNK, Settings, Trainer

STEPS = 400
LEAST_EPOCHS, MOST_EPOCHS = 12, 24  # whatever the number of steps
LEARNING_RATE = 0.06
LARGEST_BATCH = 256
FOR_AVERAGE = 10_000  # targets, whose common distribution is where the training starts
MOST_UNITS = 2**26  # numbers, a quarter of a gigabyte; a table with more has rows to spare


@torch.no_grad()
def fit_head(
    network: EmbeddedMLP,
    objective: HistogramObjective,
    x: Tensor,
    y: Tensor,
    rows: Sequence[Tensor],
    seeds: Sequence[int],
    settings: Settings,
    weight: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Weights (V, units, outputs) and biases (V, 1, outputs), trained on each member's rows.

    Of the settings, weight decay, Adam's memory and, up to a limit, the batch size count.
    """
    settings = replace(settings, batch_size=min(settings.batch_size, LARGEST_BATCH))
    most = max(settings.batch_size, MOST_UNITS // (network.members * network.weights[-1].shape[1]))
    index = _alike([_some(part, most) for part in rows])
    units = _units(network, x, index)
    length, width = units.shape[1:]
    head = StackedMLP(width, (), objective.outputs, seeds).to(units)
    weights, bias = head.last_layer()
    weights.zero_()
    flat = index.reshape(-1).to(y.device)
    bias.copy_(_average(objective, y[flat].view(index.shape)))
    own = list(torch.arange(len(flat)).view(index.shape))
    data = (units.view(-1, width), y[flat], own, seeds, _settings(settings, length))
    weighted = None if weight is None else weight[flat]
    with torch.enable_grad():
        Trainer(head, objective, *data, weight=weighted, standardise=False).run()
    return weights.detach(), bias.detach()


def _settings(settings: Settings, length: int) -> Settings:
    steps = math.ceil(length / settings.batch_size)
    return replace(
        settings,
        epochs=max(LEAST_EPOCHS, min(MOST_EPOCHS, math.ceil(STEPS / steps))),
        learning_rate=LEARNING_RATE,
        schedule="cosine",
        max_seconds=None,
        patience=None,
        evaluate=(),
    )


def _some(rows: Tensor, most: int) -> Tensor:
    """At equal distances, so many at most."""
    return rows[:: math.ceil(len(rows) / most)]


def _alike(rows: Sequence[Tensor]) -> Tensor:
    """As many rows of each member: (V, fewest)."""
    fewest = min(map(len, rows))
    return torch.stack([part[:fewest] for part in rows])


def _units(network: EmbeddedMLP, x: Tensor, index: Tensor) -> Tensor:
    network.eval()
    return torch.cat([network.units(x[part.to(x.device)]) for part in index.split(CHUNK, 1)], 1)


def _average(objective: HistogramObjective, y: Tensor) -> Tensor:
    """Outputs (V, 1, outputs) that predict the common distribution of each member's targets."""
    some = y[:, :: math.ceil(y.shape[1] / FOR_AVERAGE)].double()
    return objective.weights(some).mean(1, keepdim=True).clamp_min(1e-6).log()
