"""What to run: a `Run` is one trained model, and each table and figure needs a list of them.

A run is identified by a hash of everything that decides its result, so that artefacts share the
runs that they have in common, and nothing is trained twice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from softbins.paper.data.datasets import original_name
from softbins.paper.data.splits import SplitKind
from softbins.paper.run.methods import METHODS, Parameters, parameter_grid

PROTOCOL_VERSION = 1  # raised when the same Run would give another result

# How meta-parameters are chosen: by the MAE on the test rows, as the paper did, or on a part of
# the training rows.
Selection = Literal["paper", "honest"]
Representation = Literal["default", "fixed", "initialized", "random"]
Artefact = Literal[
    "table", "representations", "claims", "bins", "sigma", "curves", "overview", "targets"
]
ARTEFACTS: tuple[Artefact, ...] = get_args(Artefact)
SELECTIONS: tuple[Selection, ...] = get_args(Selection)
REPRESENTATIONS: tuple[Representation, ...] = get_args(Representation)

BIN_COUNTS = (10, 20, 50, 100, 200, 500)
SIGMAS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
CURVE_METHODS = ("l2", "hl-onebin", "hl-gaussian")
REPRESENTATION_METHODS = ("l2", "hl-gaussian")
WIDE_HIDDEN = (512, 512, 512, 512)


@dataclass(frozen=True)
class TrainingSetting:
    """How the paper trains on a dataset (Section 4); `patience` where it stops early."""

    hidden: tuple[int, ...]
    epochs: int
    dropout: float
    patience: int | None = None


TRAINING_SETTINGS = {
    "bike": TrainingSetting((64,) * 4, 500, 0.0, patience=50),
    "ct": TrainingSetting((192,) * 4, 1000, 0.05),
    "song": TrainingSetting((45,) * 4, 150, 0.05),
}


@dataclass(frozen=True)
class Scale:
    """How much of the paper's experiment to run."""

    name: str
    epochs: float  # share of the paper's
    seeds: int
    rows: int | None
    full_grids: bool


SCALES = {
    scale.name: scale
    for scale in (
        Scale("demo", 0.2, 3, 20_000, full_grids=False),
        Scale("quick", 0.4, 3, 60_000, full_grids=False),
        Scale("paper", 1.0, 5, None, full_grids=True),
    )
}


@dataclass(frozen=True)
class Run:
    """One model to train and judge.

    `parameters` are those of its objective, sorted by name. `held_out` keeps the validation rows
    out of the training; early stopping after `patience` epochs always does.
    """

    dataset: str
    method: str
    seed: int
    epochs: int
    hidden: tuple[int, ...]
    dropout: float
    patience: int | None
    held_out: bool
    parameters: tuple[tuple[str, float | int], ...] = ()
    split: SplitKind = "random"
    rows: int | None = None
    representation: Representation = "default"
    curves: bool = False
    protocol: int = PROTOCOL_VERSION

    @property
    def identity(self) -> str:
        """A hash of everything above."""
        text = json.dumps(self.to_json(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self) | {"hidden": list(self.hidden), "parameters": dict(self.parameters)}

    @property
    def configuration(self) -> Run:
        """The same for the first seed: runs that share it differ in their seed only."""
        return replace(self, seed=0)

    def source(self) -> Run | None:
        """The run whose hidden layers this one starts from (Table 2): the other loss's."""
        if self.representation not in ("fixed", "initialized"):
            return None
        other = {"l2": "hl-gaussian", "hl-gaussian": "l2"}[self.method]
        return replace(self, method=other, representation="default")


def method_runs(dataset: str, method: str, scale: Scale, **changes: Any) -> list[Run]:
    """A method on a dataset as the paper trains it, once for each seed."""
    setting = TRAINING_SETTINGS[original_name(dataset)]
    run = Run(
        dataset=dataset,
        method=method,
        seed=0,
        epochs=0 if method == "linear" else max(1, round(setting.epochs * scale.epochs)),
        hidden=() if method == "linear" else setting.hidden,
        dropout=0.0 if method == "linear" else setting.dropout,
        patience=None if method == "linear" else setting.patience,
        held_out=setting.patience is not None,
        rows=scale.rows,
    )
    return [replace(run, seed=seed, **changes) for seed in range(scale.seeds)]


def with_parameters(dataset: str, method: str, scale: Scale, **parameters: Any) -> list[Run]:
    """The same with parameters of the objective."""
    return method_runs(dataset, method, scale, parameters=tuple(sorted(parameters.items())))


def candidate_settings(
    dataset: str, method: str, scale: Scale, split: SplitKind = "random"
) -> list[tuple[Parameters, list[Run], list[Run]]]:
    """A method's settings to choose from, each with the runs to report and those to judge by.

    The paper judges by the runs it reports. An honest choice needs runs that have not seen the
    validation rows, which are others unless early stopping has held these rows out anyway.
    """
    found = []
    for parameters in parameter_grid(method, scale.full_grids):
        chosen = tuple(sorted(parameters.items()))
        runs = method_runs(dataset, method, scale, parameters=chosen, split=split)
        found.append((parameters, runs, [replace(run, held_out=True) for run in runs]))
    return found


def representation_runs(dataset: str, method: str, variant: str, scale: Scale) -> list[Run]:
    """Table 2: swapped and fixed, swapped as a start, or random and fixed hidden layers."""
    return method_runs(dataset, method, scale, representation=variant)


def bin_count_runs(dataset: str, bins: int, scale: Scale) -> list[Run]:
    """HL-Gaussian with a number of bins; sigma stays one bin wide (Figure 1, a and b)."""
    return with_parameters(dataset, "hl-gaussian", scale, **({} if bins == 100 else {"bins": bins}))


def sigma_runs(dataset: str, sigma: float, scale: Scale) -> list[Run]:
    """HL-Gaussian with a sigma in bin widths (Figure 1, c)."""
    changes = {} if sigma == 1.0 else {"sigma": sigma}
    return with_parameters(dataset, "hl-gaussian", scale, **changes)


def curve_runs(dataset: str, method: str, scale: Scale) -> list[Run]:
    """All epochs without dropout or stopping, and the norm of the gradient (Figure 2)."""
    return method_runs(dataset, method, scale, dropout=0.0, patience=None, curves=True)


def many_output_runs(dataset: str, scale: Scale) -> list[Run]:
    """The footnote's l2 with 100 outputs."""
    return method_runs(dataset, "l2-many", scale)


def wide_network_runs(dataset: str, scale: Scale) -> list[Run]:
    """l2 with four hidden layers of 512 (Appendix C)."""
    return method_runs(dataset, "l2", scale, hidden=WIDE_HIDDEN)


def split_kinds(dataset: str) -> tuple[SplitKind, ...]:
    """The ways in which a dataset is split: the paper's, and CT's honest one."""
    extra: dict[str, SplitKind] = {"song": "fixed", "ct": "grouped"}
    name = original_name(dataset)
    return ("random", extra[name]) if name in extra else ("random",)


def artefact_runs(artefact: Artefact, dataset: str, scale: Scale) -> list[Run]:
    """Every run that a table or figure rests on."""
    groups: Iterable[list[Run]]
    match artefact:
        case "table":
            groups = _table(dataset, scale)
        case "representations":
            groups = [
                representation_runs(dataset, method, variant, scale)
                for method in REPRESENTATION_METHODS
                for variant in REPRESENTATIONS
            ]
        case "claims":
            groups = [many_output_runs(dataset, scale), wide_network_runs(dataset, scale)]
            groups = [*groups, method_runs(dataset, "l2", scale)]
        case "bins":
            groups = [
                method_runs(dataset, "l2", scale),
                *(bin_count_runs(dataset, b, scale) for b in BIN_COUNTS),
            ]
        case "sigma":
            groups = [
                method_runs(dataset, "l2", scale),
                *(sigma_runs(dataset, s, scale) for s in SIGMAS),
            ]
        case "curves":
            groups = [curve_runs(dataset, method, scale) for method in CURVE_METHODS]
        case "overview" | "targets":
            groups = []  # they show the data themselves
    return list(dict.fromkeys(run for group in groups for run in group))


def _table(dataset: str, scale: Scale) -> list[list[Run]]:
    groups = []
    for split in split_kinds(dataset):
        for method in METHODS:
            choices = candidate_settings(dataset, method, scale, split)
            groups += [runs for _, runs, _ in choices]
            if len(choices) > 1:
                groups += [judging for _, _, judging in choices]
    return groups


def plan_runs(artefacts: Iterable[Artefact], dataset: str, scale: Scale) -> list[Run]:
    """The runs of several artefacts, each once."""
    runs = (run for artefact in artefacts for run in artefact_runs(artefact, dataset, scale))
    return list(dict.fromkeys(runs))
