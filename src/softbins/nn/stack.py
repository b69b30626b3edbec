"""Several small networks that are trained as one: a stack of members.

A small network wastes a CPU: launching an operation costs as much as its arithmetic. A stack of
V members holds its weights as (V, inputs, units) and works on (V, rows, features), so that one
operation serves all members. Every member draws its random numbers from a generator of its own,
so that its result does not depend on the other members of the stack.

    stack = StackedMLP(features=4, hidden=(32, 32), outputs=1, seeds=[0, 1, 2])
    stack(x)  # (3, rows, 1) for x (3, rows, 4): a batch for each of three networks
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from softbins._core.checks import require_number
from softbins.nn.random import member_generator
from softbins.nn.settings import MAX_WIDENING

# Matrix products run at full speed on widths that fill vector registers of this many floats.
VECTOR_REGISTER_FLOATS = 16


class Stack(nn.Module):
    """Networks of the same structure; the first dimension of every parameter is the member.

    Standardizing the inputs is part of the network, and members do it differently, because each
    may have been trained on other rows. `dropout` is the share of inputs that a training step
    sets to 0.
    """

    shift: Tensor
    scale: Tensor

    def __init__(self, members: int, features: int, dropout: float = 0.0) -> None:
        super().__init__()
        require_number("dropout", dropout, "in [0, 1)")
        self.members, self.features, self.dropout = members, features, dropout
        self.register_buffer("shift", torch.zeros(members, 1, features))
        self.register_buffer("scale", torch.ones(members, 1, features))

    def standardize(self, mean: Tensor, deviation: Tensor) -> None:
        """From now on, subtract `mean` from the inputs and divide them by `deviation`.

        Both are (members, features). A deviation of 0 counts as 1.
        """
        scale = torch.where(deviation > 0, 1 / deviation, 1.0)
        self.scale.copy_(scale.unsqueeze(1))
        self.shift.copy_((-mean * scale).unsqueeze(1))

    def forward(self, x: Tensor, generators: Sequence[torch.Generator] | None = None) -> Tensor:
        """Outputs (V, rows, outputs) for inputs (V, rows, features).

        With `generators`, one for each member, this is a training step, and dropout is on.
        """
        x = torch.addcmul(self.shift, x, self.scale)
        if generators is not None and self.dropout > 0:
            x = x * self._mask(x, generators)
        return self.apply_members(x)

    def step(
        self, x: Tensor, generators: Sequence[torch.Generator]
    ) -> tuple[Tensor, Callable[[Tensor], None]]:
        """Outputs of a training step, and a function that takes their gradient.

        The function sets the gradient of every parameter.
        """
        outputs: Tensor = self(x, generators)
        return outputs.detach(), outputs.backward

    def _mask(self, x: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        """Factors for the inputs: 0, or what keeps the mean as it is without dropout."""
        mask, keep_probability = torch.empty_like(x), 1 - self.dropout
        for member, generator in zip(mask, generators, strict=True):
            member.bernoulli_(keep_probability, generator=generator)
        return mask.div_(keep_probability)

    @torch.no_grad()
    def keep_members(self, index: Tensor) -> None:
        """Remove all members from the stack but those with these indices."""
        for tensor in (*self.parameters(), *self.buffers()):
            tensor.data, tensor.grad = tensor.data[index.to(tensor.device)], None
        self.members = len(index)

    @abstractmethod
    def apply_members(self, x: Tensor) -> Tensor:
        """Outputs (V, rows, outputs) for standardized inputs (V, rows, features)."""

    @abstractmethod
    def last_layer(self) -> list[nn.Parameter]:
        """The parameters of the output layer."""

    def hidden_weights(self) -> list[nn.Parameter]:
        """The weights (V, inputs, units) of the hidden layers; none if they are not known."""
        return []


class StackedMLP(Stack):
    """Fully connected ReLU networks with LeCun-uniform weights and zero biases (Section 4).

    A hidden layer may be a little wider than asked for, so that matrix products run at full
    speed. The weights to and from the added units are 0, and training leaves them there.
    """

    def __init__(
        self,
        features: int,
        hidden: Sequence[int],
        outputs: int,
        seeds: Sequence[int],
        dropout: float = 0.0,
    ) -> None:
        super().__init__(len(seeds), features, dropout)
        sizes = [features, *hidden, outputs]
        if min(sizes) < 1 or not seeds:
            raise ValueError(f"hidden: need at least one unit in every layer, got sizes {sizes}")
        self.hidden, self.outputs, self.seeds = tuple(hidden), outputs, list(seeds)
        generators = [member_generator(seed, "weights") for seed in seeds]
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        widened = [features, *map(_widened, hidden), outputs]
        for (inputs, units), (rows, columns) in zip(
            pairwise(sizes), pairwise(widened), strict=True
        ):
            members = [_lecun_uniform(inputs, units, generator) for generator in generators]
            weight = F.pad(torch.stack(members), (0, columns - units, 0, rows - inputs))
            self.weights.append(nn.Parameter(weight))
            self.biases.append(nn.Parameter(torch.zeros(len(seeds), 1, columns)))

    def apply_members(self, x: Tensor) -> Tensor:
        """Outputs (V, rows, outputs) for standardized inputs (V, rows, features)."""
        for layer in range(len(self.hidden)):
            x = self._hidden_layer(layer, x)
        return torch.baddbmm(self.biases[-1], x, self.weights[-1])

    def _hidden_layer(self, layer: int, x: Tensor) -> Tensor:
        return torch.baddbmm(self.biases[layer], x, self.weights[layer]).relu_()

    def last_layer(self) -> list[nn.Parameter]:
        """The weights and the biases of the output layer."""
        return [self.weights[-1], self.biases[-1]]

    def hidden_weights(self) -> list[nn.Parameter]:
        """The weights (V, inputs, units) of the hidden layers."""
        return list(self.weights[:-1])

    def add_outputs(self, weight: Tensor, bias: Tensor) -> None:
        """Append outputs, given their weights (V, units, outputs) and biases (V, 1, outputs)."""
        for layers, more in ((self.weights, weight), (self.biases, bias)):
            layers[-1] = nn.Parameter(torch.cat([layers[-1].detach(), more], -1))
        self.outputs += weight.shape[-1]

    def freeze_hidden(self) -> None:
        """Train the output layer only."""
        for parameter in [*self.weights[:-1], *self.biases[:-1]]:
            parameter.requires_grad_(False)

    @torch.no_grad()
    def copy_hidden(self, source: StackedMLP) -> None:
        """Copy the hidden layers and the standardization of another stack of the same shape."""
        if (self.members, self.features, self.hidden) != (
            source.members,
            source.features,
            source.hidden,
        ):
            raise ValueError(
                f"source: needs {self.members} members of shape {self.features}-{self.hidden}, "
                f"got {source.members} of {source.features}-{source.hidden}"
            )
        ours = [self.shift, self.scale, *self.weights[:-1], *self.biases[:-1]]
        theirs = [source.shift, source.scale, *source.weights[:-1], *source.biases[:-1]]
        for mine, other in zip(ours, theirs, strict=True):
            mine.copy_(other)


def _widened(units: int) -> int:
    """The number of units that a hidden layer gets, where this many are asked for."""
    wider = VECTOR_REGISTER_FLOATS * math.ceil(units / VECTOR_REGISTER_FLOATS)
    return wider if wider <= MAX_WIDENING * units else units


def _lecun_uniform(inputs: int, units: int, generator: torch.Generator) -> Tensor:
    bound = math.sqrt(3 / inputs)
    return torch.empty(inputs, units).uniform_(-bound, bound, generator=generator)


class StackedModule(Stack):
    """Members of any architecture: `factory()` is called once for each seed, and returns one.

    Layers that draw random numbers themselves, such as `nn.Dropout`, draw them from torch's
    global generator.
    """

    def __init__(
        self,
        factory: Callable[[], nn.Module],
        features: int,
        seeds: Sequence[int],
        dropout: float = 0.0,
    ) -> None:
        super().__init__(len(seeds), features, dropout)
        modules = [_seeded(factory, seed) for seed in seeds]
        stacked, constants = torch.func.stack_module_state(modules)
        # A list and not a ParameterDict, which refuses names with dots.
        self.names = list(stacked)
        self.stacked = nn.ParameterList(
            [nn.Parameter(value.detach()) for value in stacked.values()]
        )
        self.constant_names = list(constants)
        for i, value in enumerate(constants.values()):
            self.register_buffer(f"constant_{i}", value)
        # Not registered as a submodule: only its structure is used, and its parameters are empty.
        object.__setattr__(self, "skeleton", modules[0].to("meta"))

    def apply_members(self, x: Tensor) -> Tensor:
        """Outputs of every member's module for standardized inputs (V, rows, features)."""
        skeleton: nn.Module = self.__dict__["skeleton"]
        skeleton.train(self.training)

        def one(parameters: dict[str, Tensor], constants: dict[str, Tensor], x: Tensor) -> Tensor:
            result: Tensor = torch.func.functional_call(skeleton, (parameters, constants), (x,))
            return result

        parameters = dict(zip(self.names, self.stacked, strict=True))
        names = enumerate(self.constant_names)
        constants = {name: getattr(self, f"constant_{i}") for i, name in names}
        run = torch.func.vmap(one, randomness="different")
        outputs: Tensor = run(parameters, constants, x)
        return outputs

    def last_layer(self) -> list[nn.Parameter]:
        """The parameters of the module that was registered last."""
        owner = self.names[-1].rpartition(".")[0]
        pairs = zip(self.names, self.stacked, strict=True)
        return [value for name, value in pairs if name.rpartition(".")[0] == owner]


def _seeded(factory: Callable[[], nn.Module], seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return factory()
