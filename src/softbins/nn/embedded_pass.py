"""A training step of `EmbeddedMLP` with a gradient written by hand.

Batches have a few hundred rows at most. For those, autograd's nodes and the copies between them
take as long as the matrix products of narrow networks, and a tenth as long as those of wide ones.

    forward = ForwardPass(x, Structure(embedded=[0, 2]), parameters)
    gradients = forward.gradients(output_gradient)  # one for each parameter
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from softbins.nn.settings import Activation

Gradients = tuple[Tensor | None, ...]

EMBEDDING_PARAMETERS = 4  # tensors: frequencies, phases, weights and offsets


class PeriodicEmbedding(NamedTuple):
    """The embeddings relu(w cos(f x + p) + b) of inputs x, and the steps that led to them.

    Members and inputs share the first dimension, and rows are the last one: that way round,
    products of 16 frequencies by 8 values are four times as quick.
    """

    inputs: Tensor  # x as (V * inputs, 1, rows)
    angles: Tensor  # f x + p as (V * inputs, frequencies, rows)
    cosines: Tensor  # of the angles
    values: Tensor  # (V * inputs, embedding size, rows)

    @classmethod
    def compute(cls, x: Tensor, parameters: Sequence[Tensor]) -> PeriodicEmbedding:
        """Embed standardized inputs (V, rows, inputs), with one small product for each input."""
        flat = (parameter.flatten(0, 1).transpose(1, 2) for parameter in parameters)
        frequencies, phases, weights, offsets = flat
        inputs = x.transpose(1, 2).reshape(-1, 1, x.shape[1])
        angles = (frequencies * inputs).add_(phases)
        cosines = angles.cos()
        values = torch.baddbmm(offsets, weights, cosines).relu_()
        return cls(inputs, angles, cosines, values)

    def append_to(self, x: Tensor) -> Tensor:
        """The inputs (V, rows, features) followed by the values of the embedding."""
        members, rows, _ = x.shape
        values = self.values.view(members, -1, rows)
        return torch.cat([x.transpose(1, 2), values], 1).transpose(1, 2)

    def gradients(self, values_gradient: Tensor, parameters: Sequence[Tensor]) -> Gradients:
        """The gradients of the four parameters.

        They follow from that of the values (V, inputs * embedding size, rows).
        """
        above = values_gradient.view_as(self.values)
        sums = torch.ops.aten.threshold_backward(above, self.values, 0)
        angles = torch.bmm(parameters[2].flatten(0, 1), sums).mul_(self.angles.sin().neg_())
        found = (
            torch.bmm(self.inputs, angles.transpose(1, 2)),
            angles.sum(2),
            torch.bmm(sums, self.cosines.transpose(1, 2)).transpose(1, 2),
            sums.sum(2),
        )
        return tuple(own.view(p.shape) for own, p in zip(found, parameters, strict=True))


class Structure(NamedTuple):
    """The part of a network that is not learned: which inputs are embedded, and the activation."""

    embedded: Sequence[int]
    activation: Activation = "relu"

    def select_embedded(self, x: Tensor) -> Tensor:
        """The inputs that are embedded, out of all inputs (V, rows, features)."""
        return x if len(self.embedded) == x.shape[-1] else x[..., self.embedded]

    def activate(self, sums: Tensor) -> Tensor:
        """The units of a hidden layer, from its weighted sums."""
        return F.silu(sums) if self.activation == "silu" else sums.relu()

    def sums_gradient(self, units_gradient: Tensor, sums: Tensor) -> Tensor:
        """The gradient of a hidden layer's weighted sums, from that of its units."""
        if self.activation == "silu":
            gradient: Tensor = torch.ops.aten.silu_backward(units_gradient, sums)
        else:
            gradient = torch.ops.aten.threshold_backward(units_gradient, sums, 0)
        return gradient


class ForwardPass:
    """The outputs of a network for a batch, and everything that their gradients need.

    `x` are standardized inputs (V, rows, features); there is no gradient for them. `parameters`
    are the four of the embedding, then the weights of all layers, then their biases.
    """

    def __init__(self, x: Tensor, structure: Structure, parameters: Sequence[Tensor]) -> None:
        layers = (len(parameters) - EMBEDDING_PARAMETERS) // 2
        self.structure = structure
        self.embedding_parameters = parameters[:EMBEDDING_PARAMETERS]
        self.weights, self.biases = parameters[EMBEDDING_PARAMETERS:-layers], parameters[-layers:]
        self.embedding: PeriodicEmbedding | None = None
        if structure.embedded:
            chosen = structure.select_embedded(x)
            self.embedding = PeriodicEmbedding.compute(chosen, self.embedding_parameters)
            x = self.embedding.append_to(x)
        self.inputs: list[Tensor] = []  # of every layer
        self.sums: list[Tensor] = []  # of every hidden layer, before its activation
        self.outputs = self._apply_layers(x)

    def _apply_layers(self, x: Tensor) -> Tensor:
        for bias, weight in zip(self.biases[:-1], self.weights[:-1], strict=True):
            self.inputs.append(x)
            self.sums.append(torch.baddbmm(bias, x, weight))
            x = self.structure.activate(self.sums[-1])
        self.inputs.append(x)
        return torch.baddbmm(self.biases[-1], x, self.weights[-1])

    def gradients(self, output_gradient: Tensor) -> Gradients:
        """The gradients of all parameters, by the chain rule from the last layer to the first."""
        weights: list[Tensor] = []
        biases: list[Tensor] = []
        gradient = output_gradient  # of the weighted sums of a layer
        for layer in reversed(range(len(self.weights))):
            if layer < len(self.sums):
                units = torch.bmm(gradient, self.weights[layer + 1].transpose(1, 2))
                gradient = self.structure.sums_gradient(units, self.sums[layer])
            weights.append(torch.bmm(self.inputs[layer].transpose(1, 2), gradient))
            biases.append(gradient.sum(1, keepdim=True))
        return *self._embedding_gradients(gradient), *reversed(weights), *reversed(biases)

    def _embedding_gradients(self, first_layer_gradient: Tensor) -> Gradients:
        if self.embedding is None:
            return (None,) * EMBEDDING_PARAMETERS
        values = self.embedding.values.shape[1] * len(self.structure.embedded)
        gradient = torch.bmm(self.weights[0][:, -values:], first_layer_gradient.transpose(1, 2))
        return self.embedding.gradients(gradient, self.embedding_parameters)


class TrainingStep(torch.autograd.Function):
    """A `ForwardPass` as a node of autograd's graph, for losses whose gradient autograd finds."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, structure: Structure, *parameters: Tensor) -> Tensor:
        """The outputs of the network."""
        forward_pass = ForwardPass(x, structure, parameters)
        outputs, ctx.forward_pass = forward_pass.outputs, forward_pass
        del forward_pass.outputs  # a reference from the graph to its own result: it would leak
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, output_gradient: Tensor) -> Gradients:
        """None for the inputs and the structure, and the gradients of the parameters."""
        return None, None, *ctx.forward_pass.gradients(output_gradient)
