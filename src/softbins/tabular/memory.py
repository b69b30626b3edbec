"""Whether networks fit into memory and time, found out before any of it is taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from softbins._core.memory import available_memory, gigabytes
from softbins.nn.batches import EVALUATION_CHUNK

# Parameters, gradients, the best ones, two moments, and those of the last steps on all rows, in
# float32; and the copy in float64 that predicts.
BYTES_PER_PARAMETER = 40
# A layer's values, what goes through it backwards, and one more for what is computed from them.
BYTES_PER_UNIT = 12
# What is to come beside the features, which are there: the rows of a fold, in bins for trees.
BYTES_PER_CELL = 1

MAX_OPERATIONS_PER_SECOND = 2e11  # of one thread
MIN_STEP_SECONDS = 1.0  # a shorter step is taken, however little time there is


@dataclass(frozen=True)
class NetworkSize:
    """What decides how much memory a stack of networks takes."""

    members: int
    inputs: int
    hidden: Sequence[int]
    outputs: int
    rows: int
    batch_size: int
    embedding_units: int = 0
    """Values that embeddings add to the inputs of each network."""
    by_muon: bool = False
    """Whether Muon, whose steps are products of matrices, trains the hidden layers."""

    @property
    def parameters(self) -> int:
        """The number of parameters of all members together."""
        return self.members * sum((below + 1) * above for below, above in self._layers)

    @property
    def _layers(self) -> list[tuple[int, int]]:
        sizes = [self.inputs + self.embedding_units, *self.hidden, self.outputs]
        return list(pairwise(sizes))

    @property
    def step_seconds(self) -> float:
        """How long a training step takes at least, on a machine faster than most."""
        passes = 6 * self.parameters * min(self.rows, self.batch_size)
        products = [12 * below * above * min(below, above) for below, above in self._layers[:-1]]
        return (passes + self.members * sum(products) * self.by_muon) / MAX_OPERATIONS_PER_SECOND

    @property
    def bytes(self) -> int:
        """About how much memory training takes."""
        units = self.inputs + 4 * self.embedding_units + sum(self.hidden) + self.outputs
        rows = min(self.rows, max(self.batch_size, EVALUATION_CHUNK))
        table = BYTES_PER_CELL * self.rows * self.inputs
        layers = BYTES_PER_UNIT * self.members * rows * units
        return BYTES_PER_PARAMETER * self.parameters + layers + table


def check_size(size: NetworkSize, max_seconds: float | None) -> None:
    """Raise `ValueError` if networks of that size need more memory, or time, than there is."""
    there = available_memory()
    if size.bytes > there:
        left = gigabytes(max(there, 0))
        need = f"about {gigabytes(size.bytes)} of memory to train, but {left} are left"
        raise ValueError(_too_large(size, need))
    if max_seconds is not None and size.step_seconds > max(max_seconds, MIN_STEP_SECONDS):
        need = f"more than {size.step_seconds:.0f} seconds for a step, but max_seconds is"
        raise ValueError(_too_large(size, f"{need} {max_seconds:g}"))


def _too_large(size: NetworkSize, need: str) -> str:
    units = ", ".join(map(str, size.hidden))
    count = f"{size.members} networks" if size.members > 1 else "a network"
    return (
        f"hidden: {count} with {size.inputs} inputs, layers of ({units}) units and {size.outputs} "
        f"outputs would need {need}; use fewer hidden units, members, bins or columns"
    )
