"""Several networks trained as one batch of matrices.

A small network wastes a CPU: launching an operation costs as much as its arithmetic. A stack of
V members holds its weights as (V, in, out) and works on (V, rows, features), so that one
operation serves all members. Everything random belongs to a member's own generator, so that a
member's result does not depend on what it is stacked with.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Stack(nn.Module):
    """Members that share their structure: parameters and buffers lead with the member.

    The standardisation of the inputs is part of the network, one for each member, because each
    may have seen other rows.
    """

    shift: Tensor
    scale: Tensor

    def __init__(self, members: int, features: int, dropout: float = 0.0) -> None:
        super().__init__()
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout: must lie in [0, 1), got {dropout}")
        self.members, self.features, self.dropout = members, features, dropout
        self.register_buffer("shift", torch.zeros(members, 1, features))
        self.register_buffer("scale", torch.ones(members, 1, features))

    def standardise(self, mean: Tensor, deviation: Tensor) -> None:
        """Take inputs minus `mean` over `deviation`, each (members, features); 0 counts as 1."""
        scale = torch.where(deviation > 0, 1 / deviation, 1.0)
        self.scale.copy_(scale.unsqueeze(1))
        self.shift.copy_((-mean * scale).unsqueeze(1))

    def forward(self, x: Tensor, generators: Sequence[torch.Generator] | None = None) -> Tensor:
        """Outputs (V, rows, outputs) for inputs (V, rows, features).

        With the members' generators this is a training step, and input dropout is on.
        """
        x = torch.addcmul(self.shift, x, self.scale)
        if generators is not None and self.dropout:
            x = x * self._mask(x, generators)
        return self.apply_members(x)

    def _mask(self, x: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        kept = torch.empty_like(x)
        for member, generator in zip(kept, generators, strict=True):
            member.bernoulli_(1 - self.dropout, generator=generator)
        return kept.div_(1 - self.dropout)

    @abstractmethod
    def apply_members(self, x: Tensor) -> Tensor:
        """Outputs for standardised inputs."""

    @abstractmethod
    def last_layer(self) -> list[nn.Parameter]:
        """The parameters of the output layer."""


class StackedMLP(Stack):
    """Fully connected ReLU networks with LeCun-uniform weights and zero biases (Section 4).

    Inside, a hidden layer may be a little wider than asked for, so that its products run at full
    speed. The units added have weights 0 on both sides, and so stay at 0.
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
        self.hidden, self.outputs = tuple(hidden), outputs
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        widths = [features, *map(_widened, hidden), outputs]
        for (inputs, units), (rows, columns) in zip(pairwise(sizes), pairwise(widths), strict=True):
            members = [_lecun_uniform(inputs, units, generator) for generator in generators]
            weight = F.pad(torch.stack(members), (0, columns - units, 0, rows - inputs))
            self.weights.append(nn.Parameter(weight))
            self.biases.append(nn.Parameter(torch.zeros(len(seeds), 1, columns)))

    def apply_members(self, x: Tensor) -> Tensor:
        """The layers in turn."""
        *hidden, last = zip(self.weights, self.biases, strict=True)
        for weight, bias in hidden:
            x = torch.baddbmm(bias, x, weight).relu_()
        weight, bias = last
        return torch.baddbmm(bias, x, weight)

    def last_layer(self) -> list[nn.Parameter]:
        """Weights and bias of the output layer."""
        return [self.weights[-1], self.biases[-1]]

    def freeze_hidden(self) -> None:
        """Train the output layer only."""
        for parameter in [*self.weights[:-1], *self.biases[:-1]]:
            parameter.requires_grad_(False)

    @torch.no_grad()
    def copy_hidden(self, source: StackedMLP) -> None:
        """Take over the hidden layers and the standardisation of other, fitted members."""
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
    """The next multiple of a vector register's 16 numbers, unless that is much more."""
    wider = 16 * math.ceil(units / 16)
    return wider if wider <= 1.1 * units else units


def _lecun_uniform(inputs: int, units: int, generator: torch.Generator) -> Tensor:
    bound = math.sqrt(3 / inputs)
    return torch.empty(inputs, units).uniform_(-bound, bound, generator=generator)


class StackedModule(Stack):
    """Members of any architecture: `factory()` makes one, called once for each seed.

    Layers that draw random numbers of their own (such as `nn.Dropout`) draw them from torch's
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
        # A name of a parameter may hold dots, which a ParameterDict does not take.
        self.names = list(stacked)
        self.stacked = nn.ParameterList(
            [nn.Parameter(value.detach()) for value in stacked.values()]
        )
        self.constant_names = list(constants)
        for i, value in enumerate(constants.values()):
            self.register_buffer(f"constant_{i}", value)
        # Kept out of the registered modules: only its structure is used.
        object.__setattr__(self, "skeleton", modules[0].to("meta"))

    def apply_members(self, x: Tensor) -> Tensor:
        """The module of every member, through torch.func."""
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
