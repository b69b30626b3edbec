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
    """Embedded inputs relu(w cos(f x + p) + b), and what led to them."""

    column: Tensor  # x as (V, inputs, rows, 1)
    angles: Tensor  # (V, inputs, rows, frequencies)
    waves: Tensor  # their cosines, with members and inputs as one dimension
    values: Tensor  # (V * inputs, rows, dimensions)

    @classmethod
    def of(cls, x: Tensor, parameters: Sequence[Tensor]) -> Embedded:
        """From standardised inputs (V, rows, inputs): one small product for each input."""
        frequencies, phases, weights, offsets = parameters
        column = x.transpose(1, 2).unsqueeze(-1)
        angles = torch.addcmul(phases, column, frequencies)
        waves = angles.cos().flatten(0, 1)
        values = torch.baddbmm(offsets.flatten(0, 1), waves, weights.flatten(0, 1)).relu_()
        return cls(column, angles, waves, values)

    def together(self) -> Tensor:
        """The values of all inputs side by side: (V, rows, inputs * dimensions), not yet flat."""
        return self.values.view(*self.angles.shape[:-1], -1).transpose(1, 2)

    def gradients(self, above: Tensor, weights: Tensor) -> Gradients:
        """Those of the four parameters, from that of `together`."""
        shape = (*self.angles.shape[:-1], -1)
        members, inputs, rows, _ = shape
        values = above.view(members, rows, inputs, -1).transpose(1, 2).reshape(self.values.shape)
        values = torch.ops.aten.threshold_backward(values, self.values, 0)
        flat = torch.bmm(values, weights.flatten(0, 1).transpose(1, 2))
        angles = flat.view(shape).mul_(self.angles.sin().neg_())
        return (
            self.column.transpose(2, 3) @ angles,
            angles.sum(2, keepdim=True),
            torch.bmm(self.waves.transpose(1, 2), values).view_as(weights),
            values.sum(1, keepdim=True).view(members, inputs, 1, -1),
        )


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
            x = torch.cat([x, self.embedded.together().flatten(2)], -1)
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
        own = self.embedded.values.shape[-1] * len(self.form.embedded)
        below = torch.bmm(above, self.weights[0][:, -own:].transpose(1, 2))
        return self.embedded.gradients(below, self.waves[2])


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
