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
from functools import partial
from itertools import pairwise
from typing import get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from softbins._checks import require_number
from softbins.nn.embedded_pass import Activation, Embedded, Form, Pass, TrainingStep

# The embeddings' weights and the layers' draw from different streams of the same seed.
EMBEDDING_STREAM = 2**33

STRIP = 4  # masks that the random factors of a strip would make, side by side
USES = 12  # masks that are cut from it; with many more, their common part is noise that stays
MOST_SPARE = 2**20  # numbers that a strip has beyond one mask: large batches need no more
GOLDEN_RATIO = (math.sqrt(5) - 1) / 2


class Stack(nn.Module):
    """Members that share their structure: parameters and buffers lead with the member.

    The standardisation of the inputs is part of the network, one for each member, because each
    may have seen other rows.
    """

    shift: Tensor
    scale: Tensor

    def __init__(self, members: int, features: int, dropout: float = 0.0) -> None:
        super().__init__()
        require_number("dropout", dropout, "in [0, 1)")
        self.members, self.features, self.dropout = members, features, dropout
        self.strength = 1.0  # of the dropout, which a schedule may lower
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
        if generators is not None and self.dropout * self.strength > 0:
            x = x * self._mask(x, generators)
        return self.apply_members(x)

    def step(
        self, x: Tensor, generators: Sequence[torch.Generator]
    ) -> tuple[Tensor, Callable[[Tensor], None]]:
        """Outputs of a training step, and what to call with their gradient."""
        outputs: Tensor = self(x, generators)
        return outputs.detach(), outputs.backward

    def _mask(self, x: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        kept, share = torch.empty_like(x), 1 - self.strength * self.dropout
        for member, generator in zip(kept, generators, strict=True):
            member.bernoulli_(share, generator=generator)
        return kept.div_(share)

    @torch.no_grad()
    def keep(self, index: Tensor) -> None:
        """Cut the stack down to some of its members."""
        for tensor in (*self.parameters(), *self.buffers()):
            tensor.data, tensor.grad = tensor.data[index.to(tensor.device)], None
        self.members = len(index)

    def forget_masks(self) -> None:
        """Forget what dropout has drawn for the last epoch."""

    @abstractmethod
    def apply_members(self, x: Tensor) -> Tensor:
        """Outputs for standardised inputs."""

    @abstractmethod
    def last_layer(self) -> list[nn.Parameter]:
        """The parameters of the output layer."""

    def matrices(self) -> list[nn.Parameter]:
        """Weights (members, inputs, units) of hidden layers, where it is known which they are."""
        return []


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
        self.hidden, self.outputs, self.seeds = tuple(hidden), outputs, list(seeds)
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
        for layer in range(len(self.hidden)):
            x = self._hidden_layer(layer, x)
        return torch.baddbmm(self.biases[-1], x, self.weights[-1])

    def _hidden_layer(self, layer: int, x: Tensor) -> Tensor:
        return torch.baddbmm(self.biases[layer], x, self.weights[layer]).relu_()

    def last_layer(self) -> list[nn.Parameter]:
        """Weights and bias of the output layer."""
        return [self.weights[-1], self.biases[-1]]

    def matrices(self) -> list[nn.Parameter]:
        """Those of every hidden layer."""
        return list(self.weights[:-1])

    def add_outputs(self, weight: Tensor, bias: Tensor) -> None:
        """Further outputs, from weights (V, units, outputs) and biases (V, 1, outputs)."""
        for layers, more in ((self.weights, weight), (self.biases, bias)):
            layers[-1] = nn.Parameter(torch.cat([layers[-1].detach(), more], -1))
        self.outputs += weight.shape[-1]

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


class EmbeddedMLP(StackedMLP):
    """As `StackedMLP`, for tables: periodic embeddings of some inputs, dropout in hidden layers.

    A network is slow to learn steps and wiggles in a plain number. An embedded input x enters as
    itself and as relu(w cos(2 pi f x + p) + b), with learnt frequencies f and phases p (Gorishniy,
    Rubachev and Babenko, 2022).
    """

    frequencies = 16
    dimensions = 8
    spread = 0.3  # of the first frequencies, in periods per standard deviation of the input

    def __init__(
        self,
        features: int,
        embedded: Sequence[int],
        hidden: Sequence[int],
        outputs: int,
        seeds: Sequence[int],
        dropout: float = 0.0,
        activation: Activation = "relu",
    ) -> None:
        if activation not in get_args(Activation):
            raise ValueError(f"activation: expected 'silu' or 'relu', got {activation!r}")
        width = features + self.dimensions * len(embedded)
        super().__init__(width, hidden, outputs, seeds, dropout)
        self.embedded, self.features = list(embedded), features
        self.activation = activation
        self.strip: Tensor | None = None
        self.cut = 0  # windows of it that were used
        self.shift, self.scale = self.shift[..., :features], self.scale[..., :features]
        # A stream of its own: the layers were drawn from the seeds themselves.
        parts = [self._drawn(torch.Generator().manual_seed(s + EMBEDDING_STREAM)) for s in seeds]
        waves, phases, weights = (torch.stack(part) for part in zip(*parts, strict=True))
        self.waves, self.phases = nn.Parameter(waves), nn.Parameter(phases)
        self.embedding = nn.Parameter(weights)
        self.offset = nn.Parameter(torch.zeros(len(seeds), len(embedded), 1, self.dimensions))

    def _drawn(self, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Angular frequencies, phases and weights of one member, for each embedded input."""
        shape = (len(self.embedded), 1, self.frequencies)
        waves = torch.randn(shape, generator=generator) * (2 * math.pi * self.spread)
        phases = torch.empty(shape).uniform_(-math.pi, math.pi, generator=generator)
        weights = torch.empty(len(self.embedded), self.frequencies, self.dimensions)
        # The mean square of a cosine is one half.
        bound = math.sqrt(6 / self.frequencies)
        return waves, phases, weights.uniform_(-bound, bound, generator=generator)

    def forward(self, x: Tensor, generators: Sequence[torch.Generator] | None = None) -> Tensor:
        """Outputs (V, rows, outputs); with the members' generators this is a training step.

        Then dropout is on, and only the parameters get a gradient.
        """
        if generators is None:
            return torch.baddbmm(self.biases[-1], self.units(x), self.weights[-1])
        apply: Callable[..., Tensor] = TrainingStep.apply
        x = torch.addcmul(self.shift, x, self.scale)
        return apply(x, self._form(generators), *self._ordered())

    @torch.no_grad()
    def step(
        self, x: Tensor, generators: Sequence[torch.Generator]
    ) -> tuple[Tensor, Callable[[Tensor], None]]:
        """Outputs of a training step, and what to call with their gradient; without autograd."""
        parameters = self._ordered()
        x = torch.addcmul(self.shift, x, self.scale)
        passed = Pass(x, self._form(generators), parameters)

        def pull(gradient: Tensor) -> None:
            found = passed.gradients(gradient)
            for parameter, own in zip(parameters, found, strict=True):
                parameter.grad = own if parameter.requires_grad else None

        return passed.outputs, torch.no_grad()(pull)

    def _form(self, generators: Sequence[torch.Generator]) -> Form:
        drops = self.dropout * self.strength > 0
        mask = partial(self._mask, generators=generators) if drops else None
        return Form(self.embedded, self.activation, mask)

    def _ordered(self) -> tuple[Tensor, ...]:
        """The parameters as `Pass` takes them."""
        return *self._waves(), *self.weights, *self.biases

    def units(self, x: Tensor) -> Tensor:
        """What the last hidden layer makes of inputs (V, rows, features)."""
        x = torch.addcmul(self.shift, x, self.scale)
        if self.embedded:
            x = Embedded.of(Form(self.embedded).chosen(x), self._waves()).beside(x)
        for layer in range(len(self.hidden)):
            x = self._hidden_layer(layer, x)
        return x

    def _hidden_layer(self, layer: int, x: Tensor) -> Tensor:
        if self.activation == "relu":
            return super()._hidden_layer(layer, x)
        return F.silu(torch.baddbmm(self.biases[layer], x, self.weights[layer]))

    def _waves(self) -> tuple[Tensor, ...]:
        return self.waves, self.phases, self.embedding, self.offset

    def forget_masks(self) -> None:
        """The next mask is cut from a new strip."""
        self.strip = None

    def _mask(self, x: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        """The next window of a strip of random factors, no copy of it.

        Drawing a mask anew for each layer and step would take a quarter of a small network's time.
        """
        rows, units = x.shape[1:]
        if self.strip is None or self.cut == USES or self.strip.shape[1] < rows * units:
            self.strip, self.cut = self._drawn_strip(rows, generators).to(x), 0
        spare = self.strip.shape[1] - rows * units
        self.cut += 1
        # Multiples of the golden ratio lie everywhere, and none twice.
        start = int(spare * math.modf(self.cut * GOLDEN_RATIO)[0])
        return self.strip[:, start : start + rows * units].view(x.shape)

    def _drawn_strip(self, rows: int, generators: Sequence[torch.Generator]) -> Tensor:
        """Factors (V, length): 0 for the share to be dropped, else what makes up for it.

        They come from random bytes, which are drawn quickly, so that rates are 256ths.
        """
        window = rows * max(weight.shape[-1] for weight in self.weights[:-1])
        length = window + min((STRIP - 1) * window, MOST_SPARE)
        draws = torch.empty(self.members, math.ceil(length / 8), dtype=torch.int64)
        for member, generator in zip(draws, generators, strict=True):
            member.random_(torch.iinfo(torch.int64).min, None, generator=generator)
        dropped = self._rates().mul(256 * self.strength).round().clamp(max=255).view(-1, 1)
        return (draws.view(torch.uint8) >= dropped.to(torch.uint8)) * (256 / (256 - dropped))

    def _rates(self) -> Tensor:
        """Each member's share of units to drop."""
        return torch.full((self.members,), self.dropout)


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
