"""A training step of `EmbeddedMLP` with its gradient by hand: one node of autograd's graph.

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


class Trace(NamedTuple):
    """What a forward pass leaves for the way back; lists have an entry for each layer."""

    embedded: Embedded | None
    inputs: list[Tensor]
    sums: list[Tensor]
    masks: list[Tensor]


class TrainingStep(torch.autograd.Function):
    """Outputs for standardised inputs, of which only the parameters get a gradient.

    Those are the embedding's four, then the layers' weights, then their biases.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, form: Form, *parameters: Tensor) -> Tensor:
        """Layer by layer, keeping what backward needs."""
        layers = (len(parameters) - WAVES) // 2
        weights, biases = parameters[WAVES:-layers], parameters[-layers:]
        embedded = Embedded.of(form.chosen(x), parameters[:WAVES]) if form.embedded else None
        if embedded is not None:
            x = torch.cat([x, embedded.together().flatten(2)], -1)
        trace = Trace(embedded, [x], [], [])
        for bias, weight in zip(biases[:-1], weights[:-1], strict=True):
            trace.sums.append(torch.baddbmm(bias, x, weight))
            x = form.active(trace.sums[-1])
            if form.mask is not None:
                trace.masks.append(form.mask(x))
                x.mul_(trace.masks[-1])
            trace.inputs.append(x)
        ctx.save_for_backward(*parameters)
        ctx.form, ctx.trace = form, trace
        return torch.baddbmm(biases[-1], x, weights[-1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, above: Tensor) -> Gradients:
        """The chain rule from the outputs down to the frequencies."""
        form, trace, parameters = ctx.form, ctx.trace, ctx.saved_tensors
        ways = parameters[WAVES : WAVES + len(trace.inputs)]
        weights: list[Tensor] = []
        biases: list[Tensor] = []
        for layer in reversed(range(len(ways))):
            weights.append(torch.bmm(trace.inputs[layer].transpose(1, 2), above))
            biases.append(above.sum(1, keepdim=True))
            if layer == 0:
                break
            above = torch.bmm(above, ways[layer].transpose(1, 2))
            if trace.masks:
                above.mul_(trace.masks[layer - 1])
            above = form.pulled(above, trace.sums[layer - 1])
        waves: Gradients = (None,) * WAVES
        if trace.embedded is not None:
            own = trace.embedded.values.shape[-1] * len(form.embedded)
            below = torch.bmm(above, ways[0][:, -own:].transpose(1, 2))
            waves = trace.embedded.gradients(below, parameters[2])
        return None, None, *waves, *reversed(weights), *reversed(biases)
