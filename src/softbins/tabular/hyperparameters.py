"""From parameters of a `HistogramRegressor` to what a fit uses: checked, with "auto" resolved."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, Literal, get_args

from softbins._core.checks import require_number
from softbins.bins import Bins
from softbins.nn.settings import Activation, Settings
from softbins.tabular.defaults import (
    Defaults,
    Optimizer,
    Preset,
    PresetBudget,
    Refit,
    ScalingKind,
    TrainingDefaults,
)
from softbins.tabular.jobs import useful_jobs
from softbins.tabular.support import Array, Support

BYTES_PER_NUMBER = 4
# Of what a table on disk may take, for precomputed targets and again for the units of heads.
SHARE_OF_MEMORY = 0.1


@dataclass(frozen=True)
class Hyperparameters:
    """What a fit to a table of a certain size uses, with nothing left to choose but by its data."""

    defaults: Defaults
    budget: PresetBudget
    settings: Settings
    """How the networks are trained; with a patience if members leave out rows."""
    members: int
    hidden: tuple[int, ...]
    activation: Activation
    embeddings: bool
    scaling: ScalingKind
    bins: int | Bins
    adaptive_bins: bool
    """Whether bins may follow heavy tails and uneven noise."""
    lower: float | None
    upper: float | None
    sigma: float
    blur: float | Literal["auto"] | None
    trees: bool
    gaussian_process: bool
    tree_speedup: int
    early_stopping: bool
    patience: int
    """Epochs without improvement after which a member stops, where rows are left out and there are
    no cycles."""
    prune_members: bool
    refit: Refit
    device: str
    group_size: int
    """Members that are trained as one stack, about."""
    n_jobs: int | None
    max_seconds: float | None
    """For the whole of a fit."""

    def within(self, memory: float) -> Hyperparameters:
        """The same for a table on disk, with about so many bytes for what is made of its rows."""
        numbers = int(SHARE_OF_MEMORY * memory / BYTES_PER_NUMBER)
        training, settings = self.defaults.training, self.settings
        head = replace(training.head, max_units=min(numbers, training.head.max_units))
        return replace(
            self,
            defaults=replace(self.defaults, training=replace(training, head=head)),
            settings=replace(
                settings,
                shuffled_rows=training.rows_shuffled_on_disk,
                max_precomputed_numbers=min(numbers, settings.max_precomputed_numbers),
            ),
        )

    @property
    def max_bin_splits(self) -> int:
        """Into how many parts bins may be cut: those that the user gave stay as they are."""
        given = isinstance(self.bins, Bins)
        return 1 if given else self.defaults.calibration.max_bin_splits

    @property
    def warns_of_bias(self) -> bool:
        """Whether bins that move means are somebody's choice: not if they only end at a bound."""
        bounded = self.lower is not None or self.upper is not None
        return not bounded and (self.blur is None or not self.adaptive_bins)

    def support(self, y: Array) -> Support:
        """The values that targets can have: what they show, if bins may adapt and are calibrated.

        Bounds that the user knows count in any case. Where the mean comes from the same bins, none
        are cut off: it would be off next to the ends.
        """
        _check_bounds(y, self.lower, self.upper)
        if self.adaptive_bins and self.early_stopping and self.blur is not None:
            return Support.of(y, self.lower, self.upper, self.defaults.support)
        return Support(self.lower, self.upper)


def resolve(parameters: Mapping[str, Any], n_rows: int, defaults: Defaults) -> Hyperparameters:
    """What these parameters of a `HistogramRegressor` mean for a table of that many rows."""
    if parameters["preset"] not in get_args(Preset):
        raise ValueError(f"preset: expected 'default' or 'fast', got {parameters['preset']!r}")
    budget, network = defaults.presets[parameters["preset"]], defaults.network
    bins, members = parameters["bins"], min(budget.members.at(n_rows), n_rows)
    automatic = parameters["members"] == parameters["max_epochs"] == "auto"
    has_cycles = n_rows > defaults.training.rows_of_one_fall
    settings = _settings(parameters, n_rows, budget, defaults)
    patience = settings.patience
    assert patience is not None
    if not parameters["early_stopping"]:
        settings = replace(settings, patience=None, cycles=None)
    return Hyperparameters(
        defaults=defaults,
        budget=budget,
        settings=settings,
        members=_whole_number("members", parameters["members"], members),
        hidden=_layers(parameters["hidden"], (network.width.at(n_rows),) * network.layers),
        activation=parameters["activation"],
        embeddings=parameters["embeddings"],
        scaling=parameters["scaling"],
        bins=bins if isinstance(bins, Bins) else _whole_number("bins", bins, defaults.targets.bins),
        adaptive_bins=isinstance(bins, str),
        lower=_bound("lower", parameters["lower"]),
        upper=_bound("upper", parameters["upper"]),
        sigma=parameters["sigma"],
        blur=parameters["blur"],
        trees=parameters["trees"],
        gaussian_process=parameters["gaussian_process"],
        tree_speedup=budget.tree_speedup.at(n_rows),
        early_stopping=parameters["early_stopping"],
        patience=patience,
        # A number of members or epochs that is given is meant.
        prune_members=budget.prune_members and automatic and not has_cycles,
        refit=budget.refit.at(n_rows),
        device=parameters["device"],
        group_size=network.group_size.at(n_rows),
        n_jobs=useful_jobs(parameters["n_jobs"], n_rows, network.max_rows_in_turn),
        max_seconds=parameters["max_seconds"],
    )


def _settings(
    parameters: Mapping[str, Any], n_rows: int, budget: PresetBudget, defaults: Defaults
) -> Settings:
    training = defaults.training
    batch_size = _whole_number(
        "batch_size", parameters["batch_size"], training.batch_size.at(n_rows)
    )
    steps = math.ceil(n_rows * (1 - 1 / defaults.folds.count) / batch_size)
    automatic = max(budget.epochs.at(n_rows), math.ceil(budget.min_steps / steps))
    epochs = _whole_number("max_epochs", parameters["max_epochs"], automatic)
    if parameters["optimizer"] not in get_args(Optimizer):
        raise ValueError(f"optimizer: expected 'adam' or 'muon', got {parameters['optimizer']!r}")
    settings = Settings(
        epochs=epochs,
        batch_size=batch_size,
        muon=training.muon if parameters["optimizer"] == "muon" else None,
        learning_rate=_learning_rate(parameters["learning_rate"], training.learning_rate),
        beta_2=parameters["beta_2"],
        weight_decay=parameters["weight_decay"],
        schedule=parameters["schedule"],
        monitor=parameters["monitor"],
        patience=_patience(parameters["patience"], epochs, training),
        evaluate=("validation",) if parameters["early_stopping"] else ("train",),
    )
    # A number of epochs that is given is meant, and so is a patience.
    given = parameters["max_epochs"] != "auto" or parameters["patience"] != "auto"
    is_large = n_rows > training.rows_of_one_fall
    return settings if given or not is_large else _in_cycles(settings, budget, training)


def _in_cycles(settings: Settings, budget: PresetBudget, training: TrainingDefaults) -> Settings:
    """The same for a large table."""
    return replace(
        settings,
        epochs=budget.max_epochs_of_cycles,
        max_rows_per_epoch=training.max_rows_per_epoch,
        cycles=training.cycles if settings.schedule == "cosine" else None,
    )


def _patience(value: Any, epochs: int, training: TrainingDefaults) -> int:
    enough = max(training.min_patience, int(epochs * training.patience_share))
    return _whole_number("patience", value, enough)


def _bound(name: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ValueError(f"{name}: need None or a finite number, got {value!r}")
    return float(value)


def _check_bounds(y: Array, lower: float | None, upper: float | None) -> None:
    """Raise `ValueError` if targets lie beyond a bound."""
    if lower is not None and y.min() < lower:
        raise ValueError(f"lower: {lower:g} is above the smallest target, {y.min():g}")
    if upper is not None and y.max() > upper:
        raise ValueError(f"upper: {upper:g} is below the largest target, {y.max():g}")


def _whole_number(name: str, value: Any, automatic: int) -> int:
    """A parameter that is a whole number of at least 1, or "auto"."""
    if isinstance(value, str) and value == "auto":
        return automatic
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name}: need 'auto' or a whole number of at least 1, got {value!r}")
    return int(value)


def _learning_rate(value: Any, automatic: float) -> float:
    if isinstance(value, str) and value == "auto":
        return automatic
    try:
        return require_number("learning_rate", value)
    except ValueError:
        message = f"learning_rate: need 'auto' or a positive number, got {value!r}"
        raise ValueError(message) from None


def _layers(hidden: Any, automatic: Sequence[int]) -> tuple[int, ...]:
    if isinstance(hidden, str) and hidden == "auto":
        return tuple(automatic)
    if isinstance(hidden, (str, Integral)) or not len(hidden):
        raise ValueError(
            f"hidden: need 'auto' or sizes of layers, such as (64, 64), got {hidden!r}"
        )
    return tuple(_whole_number("hidden", size, automatic[0]) for size in hidden)
