"""The plan: which runs each table and figure of the paper needs.

A `Run` is one model to train. Its identity is a hash of everything that decides its result, so
that tables and figures share the runs that they have in common, and nothing is trained twice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

from softbins.paper.data.datasets import original_name
from softbins.paper.data.splits import SplitKind
from softbins.paper.run.methods import METHODS, Parameters, parameter_grid

# The version is part of every identity. It is raised when the same run would give another result.
PROTOCOL_VERSION = 1

# How a method's parameters are chosen: by the MAE on the test rows, as the paper did, or by the
# MAE on a part of the training rows.
Selection = Literal["paper", "honest"]
Representation = Literal["default", "fixed", "initialized", "random"]
# The tables and figures by the names that the command line uses.
Artefact = Literal[
    "table", "representations", "claims", "bins", "sigma", "curves", "overview", "targets"
]
ARTEFACTS: tuple[Artefact, ...] = get_args(Artefact)
SELECTIONS: tuple[Selection, ...] = get_args(Selection)
REPRESENTATIONS: tuple[Representation, ...] = get_args(Representation)

BIN_COUNTS = (10, 20, 50, 100, 200, 500)
DEFAULT_BIN_COUNT = 100
# The standard deviation of HL-Gaussian's targets, in bin widths.
SIGMAS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
DEFAULT_SIGMA = 1.0
CURVE_METHODS = ("l2", "hl-onebin", "hl-gaussian")
REPRESENTATION_METHODS = ("l2", "hl-gaussian")
# The hidden layers of the wide network in Appendix C.
WIDE_HIDDEN = (512, 512, 512, 512)


@dataclass(frozen=True)
class TrainingSetting:
    """How the paper trains networks on a dataset (Section 4).

    With `patience`, the training stops when the error on the validation rows has not fallen for so
    many epochs.
    """

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
    """How much of the paper's experiments to run.

    `epoch_share` is the share of the paper's epochs, `n_seeds` the number of runs of each setting.
    Larger datasets are reduced to `max_rows` rows. Without `full_grids`, each method has one
    setting.
    """

    name: str
    epoch_share: float
    n_seeds: int
    max_rows: int | None
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
    """One model to train and to evaluate.

    The names and values of these fields are what records and identities are made of: a change
    would orphan the records of finished runs. `parameters` are those of the objective, sorted by
    name. `held_out` keeps the validation rows out of the training, as early stopping after
    `patience` epochs always does. `rows` is the number of rows that the dataset is reduced to.
    With `curves`, the errors after every epoch are recorded.
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
        """A hash of all fields, which names the record of the run."""
        text = json.dumps(self.to_json(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """All fields as plain data for JSON."""
        return asdict(self) | {"hidden": list(self.hidden), "parameters": dict(self.parameters)}

    @property
    def configuration(self) -> Run:
        """The run with the first seed: runs with the same one differ in their seed only."""
        return replace(self, seed=0)

    @property
    def layer_source(self) -> Run | None:
        """The run of the other loss whose hidden layers this one starts from (Table 2)."""
        if self.representation not in ("fixed", "initialized"):
            return None
        other = {"l2": "hl-gaussian", "hl-gaussian": "l2"}[self.method]
        return replace(self, method=other, representation="default")


class Candidate(NamedTuple):
    """One setting of a method, the runs that report its errors, and those that it is chosen by."""

    parameters: Parameters
    reported: list[Run]
    judging: list[Run]


# Runs, once for each seed of the scale


def method_runs(dataset: str, method: str, scale: Scale, **changes: Any) -> list[Run]:
    """A method on a dataset as the paper trains it, except for `changes` of fields of `Run`."""
    setting = TRAINING_SETTINGS[original_name(dataset)]
    if method == "linear":
        trained = TrainingSetting(hidden=(), epochs=0, dropout=0.0)
    else:
        trained = replace(setting, epochs=max(1, round(setting.epochs * scale.epoch_share)))
    run = Run(
        dataset=dataset,
        method=method,
        seed=0,
        epochs=trained.epochs,
        hidden=trained.hidden,
        dropout=trained.dropout,
        patience=trained.patience,
        held_out=setting.patience is not None,
        rows=scale.max_rows,
    )
    return [replace(run, seed=seed, **changes) for seed in range(scale.n_seeds)]


def candidate_settings(
    dataset: str, method: str, scale: Scale, split: SplitKind = "random"
) -> list[Candidate]:
    """The settings that a method is chosen from.

    The paper judges a setting by the runs that it reports. An honest choice needs runs that have
    not trained on the validation rows. Where early stopping holds these rows out anyway, they are
    the same runs.
    """
    candidates = []
    for parameters in parameter_grid(method, scale.full_grids):
        pairs = tuple(sorted(parameters.items()))
        reported = method_runs(dataset, method, scale, parameters=pairs, split=split)
        judging = [replace(run, held_out=True) for run in reported]
        candidates.append(Candidate(parameters, reported, judging))
    return candidates


def representation_runs(dataset: str, method: str, variant: str, scale: Scale) -> list[Run]:
    """Table 2: a method on its own hidden layers, or on others.

    "fixed" takes the hidden layers of the other loss and keeps them, "initialized" takes them as a
    start, and "random" keeps random ones.
    """
    return method_runs(dataset, method, scale, representation=variant)


def bin_count_runs(dataset: str, bin_count: int, scale: Scale) -> list[Run]:
    """HL-Gaussian with a number of bins; sigma stays one bin wide (Figure 1, a and b)."""
    # The default has no parameter, so that the runs are those of the main table.
    parameters = () if bin_count == DEFAULT_BIN_COUNT else (("bins", bin_count),)
    return method_runs(dataset, "hl-gaussian", scale, parameters=parameters)


def sigma_runs(dataset: str, sigma: float, scale: Scale) -> list[Run]:
    """HL-Gaussian with a sigma in bin widths (Figure 1, c)."""
    parameters = () if sigma == DEFAULT_SIGMA else (("sigma", sigma),)
    return method_runs(dataset, "hl-gaussian", scale, parameters=parameters)


def curve_runs(dataset: str, method: str, scale: Scale) -> list[Run]:
    """All epochs without dropout or early stopping, with the norm of the gradient (Figure 2)."""
    return method_runs(dataset, method, scale, dropout=0.0, patience=None, curves=True)


def many_output_runs(dataset: str, scale: Scale) -> list[Run]:
    """l2 with 100 outputs (a footnote of Section 4)."""
    return method_runs(dataset, "l2-many", scale)


def wide_network_runs(dataset: str, scale: Scale) -> list[Run]:
    """l2 with four hidden layers of 512 units (Appendix C)."""
    return method_runs(dataset, "l2", scale, hidden=WIDE_HIDDEN)


# Plans


def split_kinds(dataset: str) -> tuple[SplitKind, ...]:
    """The ways in which a dataset is split: the paper's, and for CT Position also by patient."""
    extra: dict[str, SplitKind] = {"song": "fixed", "ct": "grouped"}
    name = original_name(dataset)
    return ("random", extra[name]) if name in extra else ("random",)


def artefact_runs(artefact: Artefact, dataset: str, scale: Scale) -> list[Run]:
    """All runs that a table or figure needs, each once."""
    groups = _run_groups(artefact, dataset, scale)
    return list(dict.fromkeys(run for group in groups for run in group))


def plan_runs(artefacts: Iterable[Artefact], dataset: str, scale: Scale) -> list[Run]:
    """All runs that several tables and figures need, each once."""
    runs = (run for artefact in artefacts for run in artefact_runs(artefact, dataset, scale))
    return list(dict.fromkeys(runs))


def _run_groups(artefact: Artefact, dataset: str, scale: Scale) -> list[list[Run]]:
    l2 = method_runs(dataset, "l2", scale)
    match artefact:
        case "table":
            return _main_table_groups(dataset, scale)
        case "representations":
            return [
                representation_runs(dataset, method, variant, scale)
                for method in REPRESENTATION_METHODS
                for variant in REPRESENTATIONS
            ]
        case "claims":
            return [many_output_runs(dataset, scale), wide_network_runs(dataset, scale), l2]
        case "bins":
            return [l2, *(bin_count_runs(dataset, count, scale) for count in BIN_COUNTS)]
        case "sigma":
            return [l2, *(sigma_runs(dataset, sigma, scale) for sigma in SIGMAS)]
        case "curves":
            return [curve_runs(dataset, method, scale) for method in CURVE_METHODS]
        case "overview" | "targets":
            return []  # These two show the data themselves.


def _main_table_groups(dataset: str, scale: Scale) -> list[list[Run]]:
    groups = []
    for split in split_kinds(dataset):
        for method in METHODS:
            candidates = candidate_settings(dataset, method, scale, split)
            groups += [candidate.reported for candidate in candidates]
            if len(candidates) > 1:
                groups += [candidate.judging for candidate in candidates]
    return groups
