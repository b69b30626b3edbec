"""The network for tables: fully connected layers on inputs with periodic embeddings.

A network is slow to learn steps and wiggles in a plain number. An embedded input x enters as
itself and as relu(w cos(2 pi f x + p) + b), with learned frequencies f and phases p (Gorishniy,
Rubachev and Babenko, 2022). The gradient of a training step is in `embedded_pass`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from softbins.nn.embedded_pass import (
    ForwardPass,
    PeriodicEmbedding,
    Structure,
    TrainingStep,
)
from softbins.nn.random import member_generator
from softbins.nn.settings import Activation
from softbins.nn.stack import StackedMLP


class EmbeddedMLP(StackedMLP):
    """As `StackedMLP`, with periodic embeddings of the inputs whose indices are `embedded`.

    Each of them becomes `embedding_size` values, from `frequencies_per_input` cosines. Their
    first frequencies have the standard deviation `initial_frequency_scale`, in periods per
    standard deviation of the input.

    network = EmbeddedMLP(4, embedded=[0, 2], hidden=(32, 32), outputs=1, seeds=[0, 1])
    network(x)  # (2, rows, 1) for x (2, rows, 4): a batch for each of two members
    """

    def __init__(
        self,
        features: int,
        embedded: Sequence[int],
        hidden: Sequence[int],
        outputs: int,
        seeds: Sequence[int],
        *,
        activation: Activation = "relu",
        frequencies_per_input: int = 16,
        embedding_size: int = 8,
        initial_frequency_scale: float = 0.3,
    ) -> None:
        if activation not in get_args(Activation):
            raise ValueError(f"activation: expected 'silu' or 'relu', got {activation!r}")
        width = features + embedding_size * len(embedded)
        super().__init__(width, hidden, outputs, seeds)
        self.embedded, self.features = list(embedded), features
        self.activation = activation
        self.shift, self.scale = self.shift[..., :features], self.scale[..., :features]
        sizes = (len(embedded), frequencies_per_input, embedding_size)
        members = [_draw_embedding(seed, *sizes, initial_frequency_scale) for seed in seeds]
        frequencies, phases, weights = (torch.stack(part) for part in zip(*members, strict=True))
        # Model files have the parameters under these names.
        self.waves, self.phases = nn.Parameter(frequencies), nn.Parameter(phases)
        self.embedding = nn.Parameter(weights)
        self.offset = nn.Parameter(torch.zeros(len(seeds), len(embedded), 1, embedding_size))

    def forward(self, x: Tensor, generators: Sequence[torch.Generator] | None = None) -> Tensor:
        """Outputs (V, rows, outputs) for inputs (V, rows, features).

        With `generators` this is a training step, in which only parameters get a gradient. No
        random numbers are drawn.
        """
        if generators is None:
            return self.first_outputs(x, self.outputs)
        apply: Callable[..., Tensor] = TrainingStep.apply
        x = torch.addcmul(self.shift, x, self.scale)
        return apply(x, self._structure(), *self._parameters_in_order())

    @torch.no_grad()
    def step(
        self, x: Tensor, generators: Sequence[torch.Generator]
    ) -> tuple[Tensor, Callable[[Tensor], None]]:
        """Outputs of a training step, and a function that takes their gradient.

        The function sets the gradient of every parameter, without autograd.
        """
        parameters = self._parameters_in_order()
        x = torch.addcmul(self.shift, x, self.scale)
        forward_pass = ForwardPass(x, self._structure(), parameters)

        def backward(output_gradient: Tensor) -> None:
            gradients = forward_pass.gradients(output_gradient)
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient if parameter.requires_grad else None

        return forward_pass.outputs, torch.no_grad()(backward)

    def first_outputs(self, x: Tensor, count: int) -> Tensor:
        """The first `count` outputs (V, rows, count) for inputs (V, rows, features)."""
        weight, bias = self.weights[-1], self.biases[-1]
        return torch.baddbmm(bias[..., :count], self.units(x), weight[..., :count])

    def units(self, x: Tensor) -> Tensor:
        """The units (V, rows, width) of the last hidden layer for inputs (V, rows, features)."""
        x = torch.addcmul(self.shift, x, self.scale)
        if self.embedded:
            chosen = self._structure().select_embedded(x)
            x = PeriodicEmbedding.compute(chosen, self._embedding_parameters()).append_to(x)
        for layer in range(len(self.hidden)):
            x = self._hidden_layer(layer, x)
        return x

    def _hidden_layer(self, layer: int, x: Tensor) -> Tensor:
        if self.activation == "relu":
            return super()._hidden_layer(layer, x)
        return F.silu(torch.baddbmm(self.biases[layer], x, self.weights[layer]))

    def _structure(self) -> Structure:
        return Structure(self.embedded, self.activation)

    def _parameters_in_order(self) -> tuple[Tensor, ...]:
        """All parameters, in the order in which `ForwardPass` takes them."""
        return *self._embedding_parameters(), *self.weights, *self.biases

    def _embedding_parameters(self) -> tuple[Tensor, ...]:
        return self.waves, self.phases, self.embedding, self.offset


def _draw_embedding(
    seed: int, inputs: int, frequencies: int, size: int, frequency_scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Angular frequencies, phases and weights of one member's embeddings."""
    generator = member_generator(seed, "embeddings")
    shape = (inputs, 1, frequencies)
    angular = torch.randn(shape, generator=generator) * (2 * math.pi * frequency_scale)
    phases = torch.empty(shape).uniform_(-math.pi, math.pi, generator=generator)
    # The mean square of a cosine is one half: sums of weighted cosines start with variance 1.
    bound = math.sqrt(6 / frequencies)
    weights = torch.empty(inputs, frequencies, size).uniform_(-bound, bound, generator=generator)
    return angular, phases, weights
