"""A training step of `EmbeddedMLP` with its gradient by hand.

Batches have a few hundred rows at most. There, autograd's nodes and the copies between them take
as long as the products of narrow networks, and a tenth as long as those of wide ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

Activation = Literal["silu", "relu"]
Gradients = tuple[Tensor | None, ...]

WAVES = 4  # parameters of an embedding: frequencies, phases, weights and offsets


class Embedded(NamedTuple):
    """Embedded inputs relu(w cos(f x + p) + b), and what led to them.

    Rows come last: products of sixteen numbers by eight are four times as quick that way round.
    Members and inputs are one dimension.
    """

    row: Tensor  # x as (V * inputs, 1, rows)
    angles: Tensor  # (V * inputs, frequencies, rows)
    waves: Tensor  # their cosines
    values: Tensor  # (V * inputs, dimensions, rows)

    @classmethod
    def of(cls, x: Tensor, parameters: Sequence[Tensor]) -> Embedded:
        """From standardised inputs (V, rows, inputs): one small product for each input."""
        flat = (parameter.flatten(0, 1).transpose(1, 2) for parameter in parameters)
        frequencies, phases, weights, offsets = flat
        row = x.transpose(1, 2).reshape(-1, 1, x.shape[1])
        angles = (frequencies * row).add_(phases)
        waves = angles.cos()
        values = torch.baddbmm(offsets, weights, waves).relu_()
        return cls(row, angles, waves, values)

    def beside(self, x: Tensor) -> Tensor:
        """All inputs (V, rows, features), and behind them what became of those embedded."""
        members, rows, _ = x.shape
        values = self.values.view(members, -1, rows)
        return torch.cat([x.transpose(1, 2), values], 1).transpose(1, 2)

    def gradients(self, above: Tensor, parameters: Sequence[Tensor]) -> Gradients:
        """Those of the four parameters, from that of the values (V, inputs * dimensions, rows)."""
        values = torch.ops.aten.threshold_backward(above.view_as(self.values), self.values, 0)
        angles = torch.bmm(parameters[2].flatten(0, 1), values).mul_(self.angles.sin().neg_())
        found = (
            torch.bmm(self.row, angles.transpose(1, 2)),
            angles.sum(2),
            torch.bmm(values, self.waves.transpose(1, 2)).transpose(1, 2),
            values.sum(2),
        )
        return tuple(own.view(p.shape) for own, p in zip(found, parameters, strict=True))


class Form(NamedTuple):
    """What is not learnt: which inputs are embedded, the activation, and dropout.

    `mask` draws the factors for a hidden layer.
    """

    embedded: Sequence[int]
    activation: Activation = "relu"
    mask: Callable[[Tensor], Tensor] | None = None

    def chosen(self, x: Tensor) -> Tensor:
        """The inputs that are embedded."""
        return x if len(self.embedded) == x.shape[-1] else x[..., self.embedded]

    def active(self, sums: Tensor) -> Tensor:
        """A hidden layer's units."""
        return F.silu(sums) if self.activation == "silu" else sums.relu()

    def pulled(self, above: Tensor, sums: Tensor) -> Tensor:
        """The gradient of a layer's sums, from that of its units."""
        if self.activation == "silu":
            below: Tensor = torch.ops.aten.silu_backward(above, sums)
        else:
            below = torch.ops.aten.threshold_backward(above, sums, 0)
        return below


class Pass:
    """One way through the network and back, for standardised inputs.

    `parameters` are the embedding's four, then the layers' weights, then their biases; of the
    inputs there is no gradient.
    """

    def __init__(self, x: Tensor, form: Form, parameters: Sequence[Tensor]) -> None:
        layers = (len(parameters) - WAVES) // 2
        self.form, self.waves = form, parameters[:WAVES]
        self.weights, self.biases = parameters[WAVES:-layers], parameters[-layers:]
        self.embedded = Embedded.of(form.chosen(x), self.waves) if form.embedded else None
        self.inputs: list[Tensor] = []  # of each layer
        self.sums: list[Tensor] = []  # of each hidden layer, before its activation
        self.masks: list[Tensor] = []
        self.outputs = self._forward(x)

    def _forward(self, x: Tensor) -> Tensor:
        if self.embedded is not None:
            x = self.embedded.beside(x)
        for bias, weight in zip(self.biases[:-1], self.weights[:-1], strict=True):
            self.inputs.append(x)
            self.sums.append(torch.baddbmm(bias, x, weight))
            x = self.form.active(self.sums[-1])
            if self.form.mask is not None:
                self.masks.append(self.form.mask(x))
                x.mul_(self.masks[-1])
        self.inputs.append(x)
        return torch.baddbmm(self.biases[-1], x, self.weights[-1])

    def gradients(self, above: Tensor) -> Gradients:
        """Those of all parameters, from that of the outputs: the chain rule, layer by layer."""
        weights: list[Tensor] = []
        biases: list[Tensor] = []
        for layer in reversed(range(len(self.weights))):
            if layer < len(self.sums):
                above = self._below(layer, above)
            weights.append(torch.bmm(self.inputs[layer].transpose(1, 2), above))
            biases.append(above.sum(1, keepdim=True))
        return *self._embedding(above), *reversed(weights), *reversed(biases)

    def _below(self, layer: int, above: Tensor) -> Tensor:
        """The gradient of a hidden layer's sums, from that of the next layer's."""
        units = torch.bmm(above, self.weights[layer + 1].transpose(1, 2))
        if self.masks:
            units.mul_(self.masks[layer])
        return self.form.pulled(units, self.sums[layer])

    def _embedding(self, above: Tensor) -> Gradients:
        if self.embedded is None:
            return (None,) * WAVES
        own = self.embedded.values.shape[1] * len(self.form.embedded)
        below = torch.bmm(self.weights[0][:, -own:], above.transpose(1, 2))
        return self.embedded.gradients(below, self.waves)


class TrainingStep(torch.autograd.Function):
    """A `Pass` as a node of autograd's graph, for losses that leave their gradient to autograd."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, form: Form, *parameters: Tensor) -> Tensor:
        """The outputs."""
        passed = Pass(x, form, parameters)
        outputs, ctx.passed = passed.outputs, passed
        del passed.outputs  # which would keep the graph alive for ever
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, above: Tensor) -> Gradients:
        """Nothing for the inputs."""
        return None, None, *ctx.passed.gradients(above)
