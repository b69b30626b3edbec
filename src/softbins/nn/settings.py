"""How a stack is trained: the names of choices, and the numbers that the training loop needs.

Nothing here needs torch, so that a model file can be described without it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from softbins._core.checks import require_number

Activation = Literal["silu", "relu"]
Part = Literal["train", "validation"]
Monitor = Literal["objective", "mae", "rmse"]
Schedule = Literal["constant", "cosine"]
# The objectives that a network may have, by name.
METHODS = (
    "l2",
    "l1",
    "l2-noise",
    "l2-clipping",
    "l2-softmax",
    "hl-onebin",
    "hl-uniform",
    "hl-gaussian",
    "mdn",
    "l2-many",
)
MAX_WIDENING = 1.1  # of a hidden layer, as a factor: a layer that would grow by more is left alone
# Called after every epoch with the epoch, the number of epochs, the seconds so far, and a summary.
Progress = Callable[[int, int, float, dict[str, float]], None]


@dataclass(frozen=True)
class MuonSettings:
    """How Muon takes its steps, beside the learning rate that it shares with Adam."""

    momentum: float
    """Share of the running mean of gradients that stays at each step."""
    rate_factor: float
    """Muon's learning rate as a multiple of Adam's."""
    max_inputs_per_unit: float
    """Matrices with more inputs for each unit are left to Adam."""


@dataclass(frozen=True)
class CycleRule:
    """How a training whose learning rate falls again and again finds its own end.

    Each cycle is twice as long as the one before. From the second on, a member stops after a cycle
    that has not lowered its mean absolute error on validation rows by a share of `min_gain`. In the
    root mean square a few rows would decide by chance.
    """

    first: int
    """Epochs of the first cycle."""
    min_gain: float

    def bounds(self, epoch: int, epochs: int) -> tuple[int, int]:
        """Where the cycle begins and ends that an epoch is in, counted from 0, of so many."""
        number = (epoch // self.first + 1).bit_length() - 1
        return self.first * (2**number - 1), min(self.first * (2 ** (number + 1) - 1), epochs)


@dataclass(frozen=True)
class Settings:
    """How to train. The defaults are the paper's (Section 4), with Keras's epsilon for Adam."""

    epochs: int = 100
    batch_size: int = 256
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    schedule: Schedule = "constant"
    """The learning rate stays as it is, or falls to nothing along half a cosine."""
    warm_up: float = 0.05
    """Share of the steps of its first fall in which such a learning rate rises before."""
    cycles: CycleRule | None = None
    """Cycles in which it does so, which then say which members go on in the place of `patience`.
    None is a single one, with the last epoch at its end."""
    muon: MuonSettings | None = None
    """Muon for the matrices of hidden layers, with Adam for the rest; None is Adam for all."""
    adam_epsilon: float = 1e-7
    beta_2: float = 0.999
    """Adam's decay of the mean of squared gradients, for each step."""
    patience: int | None = None
    """A member that has not improved for so many epochs stops and goes back to its best one."""
    monitor: Monitor = "objective"
    """Which error on the validation rows has to improve."""
    evaluate: tuple[Part, ...] = ("validation",)
    """The rows on which errors are measured after every epoch, for the history."""
    max_precomputed_numbers: int = 2**26
    """Numbers of precomputed targets to hold in memory: a quarter of a gigabyte in float32."""
    max_rows_per_epoch: int | None = None
    """Rows of an epoch, at most, drawn anew for each from those of a member. None takes all."""
    shuffled_rows: int | None = None
    """Rows that are shuffled among each other, of a table on disk that is in random order: these
    are read in ranges. None shuffles all."""
    gradient_norm: bool = False
    """Whether the history has the norm of the last layer's gradient as well."""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1, got {getattr(self, name)}")
        if self.cycles is not None and (self.schedule != "cosine" or self.patience is None):
            raise ValueError("cycles: need the schedule 'cosine' and validation rows")
        require_number("learning_rate", self.learning_rate)
        require_number("weight_decay", self.weight_decay, "at least 0")
        require_number("beta_2", self.beta_2, "in [0, 1)")
        if self.monitor not in get_args(Monitor):
            raise ValueError(f"monitor: expected one of {get_args(Monitor)}, got {self.monitor!r}")
        if self.schedule not in get_args(Schedule):
            raise ValueError(f"schedule: expected 'constant' or 'cosine', got {self.schedule!r}")


@dataclass(frozen=True)
class HeadSettings:
    """How a head is trained, on top of the settings that it shares with the networks."""

    steps: int
    """Steps to take, if the limits of epochs allow it."""
    min_epochs: int
    max_epochs: int
    learning_rate: float
    max_batch_size: int
    max_units: int
    """Hidden units of all members and rows to hold in memory: beyond, rows are left out."""


@dataclass(frozen=True)
class PruningRule:
    """When members are pruned, and how much longer the two that are left may learn."""

    decide_after: float
    """Share of the epochs after which it is decided."""
    max_gap: float
    """Largest error on held-out rows, as a multiple of that on a member's own rows."""
    max_remaining: float
    """Largest error on held-out rows, as a multiple of that after half as many epochs."""
    speedup: float
    """How much faster a member of a pair is trained than one of the whole stack."""
