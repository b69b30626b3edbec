"""Every number of `HistogramRegressor` that was chosen by experiment, once, with its reason.

The numbers were chosen by errors on the development tables of benchmarks/accuracy. What each part
of the regressor brings is measured by benchmarks/ablation, on these tables and on others that no
choice was made on; `docs/decisions.md` has the result. Numbers that are parameters of the
regressor itself (`sigma`, `weight_decay`, `beta_2`) stand in its signature.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from softbins.tabular.defaults.by_size import BySize
from softbins.tabular.defaults.calibration import CalibrationDefaults
from softbins.tabular.defaults.networks import (
    BinDefaults,
    NetworkDefaults,
    SupportDefaults,
    TargetDefaults,
    TrainingDefaults,
)
from softbins.tabular.defaults.partners import (
    BlendDefaults,
    GaussianProcessDefaults,
    TreeDefaults,
    TreeGrowth,
)
from softbins.tabular.defaults.rows import ColumnDefaults, FoldDefaults, StatisticsDefaults

__all__ = [
    "DEFAULTS",
    "PAPER_PARAMETERS",
    "BinDefaults",
    "BlendDefaults",
    "BySize",
    "CalibrationDefaults",
    "ColumnDefaults",
    "Defaults",
    "FoldDefaults",
    "GaussianProcessDefaults",
    "NetworkDefaults",
    "Optimizer",
    "Preset",
    "PresetBudget",
    "Refit",
    "ScalingKind",
    "StatisticsDefaults",
    "SupportDefaults",
    "TargetDefaults",
    "TimeDefaults",
    "TrainingDefaults",
    "TreeDefaults",
    "TreeGrowth",
    "TuningDefaults",
]

Preset = Literal["default", "fast"]
Optimizer = Literal["adam", "muon"]
ScalingKind = Literal["robust", "standard"]


@dataclass(frozen=True)
class TuningDefaults:
    """What `HistogramRegressor.tune` tries."""

    folds: int = 2
    """Folds that judge each candidate."""
    blur_factors: tuple[float, ...] = (0.5, 2.0)
    """Blurs, as multiples of the one that it starts from."""
    weight_decays: tuple[float, ...] = (0.0, 1e-2, 1e-1)
    histograms: tuple[tuple[int, float], ...] = ((64, 1.0), (128, 1.0), (128, 2.0), (256, 3.0))
    """Numbers of bins, each with a sigma in bin widths."""
    epochs_share: float = 0.5
    """Epochs of a candidate, as a share of those of `fit`."""
    min_gain: float = 0.005
    """Share of the error that another value has to save: less may be chance."""


@dataclass(frozen=True)
class TimeDefaults:
    """What each part of a fit may take of the time that is left for it, where that is limited."""

    cells_per_second: float = 200_000.0
    """Cells of a table to learn from, for each second. To encode five times as many, of which a
    quarter are text, takes about all of the time."""
    min_rows: int = 10_000
    """Rows up to which all are taken, however little time there is."""
    trees: float = 0.25
    """Trees that have not half of their rounds then are given up."""
    gaussian_process: float = 0.15
    """A Gaussian process that is not ready then is given up."""
    networks: float = 0.85
    """Networks and their heads. What is left is for calibration and the last pass over all rows."""

    def max_rows(self, seconds: float | None, columns: int) -> float:
        """Rows of a table of so many columns to learn from in that time."""
        if seconds is None:
            return math.inf
        return max(self.min_rows, self.cells_per_second * seconds / columns)


@dataclass(frozen=True)
class Refit:
    """The final pass of all members over all rows."""

    epochs: float
    """As a share of the mean best epoch."""
    rate: float
    """Learning rate, as a share of the usual one."""


@dataclass(frozen=True)
class PresetBudget:
    """What a preset spends on a table."""

    members: BySize[int]
    """Networks, by the number of rows."""
    epochs: BySize[int]
    """Epochs, by the number of rows, at least."""
    max_epochs_of_cycles: int
    """Epochs of large tables, at most: whole cycles."""
    min_steps: int
    """Steps of the training, at least: small tables get more epochs."""
    prune_members: bool
    """Whether two members go on with the time of all, where there is no noise."""
    refit: BySize[Refit]
    """The final pass over all rows, by their number. Of the default preset, instead of a tenth of
    the epochs at a tenth of the rate: half of them at 0.3 times the rate have an MAE of 0.989 on
    16 tables of up to 1000 rows. 0.3 of them at 0.2 times the rate have one of 0.974 on nine
    tables of up to 25 000 rows (pol 1.007, the others less than 1; at 0.3 times the rate 0.981 on
    the nine), and a fifth of them one of 0.989 on kin40k and keggdirected (single splits)."""
    tree_ensembles: int
    """Ensembles of boosted trees, at least, and one for each fold."""
    tree_speedup: BySize[int]
    """How many times as fast trees learn, from as many times fewer rounds."""


def _default_preset() -> PresetBudget:
    # With a member or a pair for each fold, many rows calibrate: pruning, after which only one fold
    # does, is not for this preset. Up to 3000 rows a fit is to take no more than 20 s: with the
    # longer refit, 8 members and 48 epochs have an MAE of 0.997 and an RMSE of 0.992 of those of 16
    # members and 76 epochs with the short one, on bike, pol, sml and songs cut to 2990 rows, in
    # half of the time, and 44 epochs keep even sml below 20 s. Without noise more would help:
    # kin40k errs 8% less with 76 than with 48.
    return PresetBudget(
        members=BySize(((3_000, 8), (25_000, 12), (math.inf, 8))),
        epochs=BySize(((3_000, 44), (25_000, 76), (math.inf, 100))),
        max_epochs_of_cycles=45,
        min_steps=700,
        prune_members=False,
        refit=BySize(
            (
                (1_000, Refit(0.5, 0.3)),
                (25_000, Refit(0.3, 0.2)),
                (50_000, Refit(0.2, 0.2)),
                (math.inf, Refit(0.1, 0.1)),
            )
        ),
        tree_ensembles=4,
        tree_speedup=BySize(((math.inf, 1),)),
    )


def _fast_preset() -> PresetBudget:
    # About a quarter of the default's time. Up to 5000 rows trees learn as slowly as by default:
    # small tables need them, and their error decides how far targets are blurred.
    return PresetBudget(
        members=BySize(((math.inf, 4),)),
        epochs=BySize(((math.inf, 38),)),
        max_epochs_of_cycles=21,
        min_steps=310,
        prune_members=True,
        refit=BySize(((math.inf, Refit(0.2, 0.2)),)),
        tree_ensembles=1,
        tree_speedup=BySize(((5_000, 1), (math.inf, 2))),
    )


@dataclass(frozen=True)
class Defaults:
    """All of them together."""

    columns: ColumnDefaults = ColumnDefaults()
    statistics: StatisticsDefaults = StatisticsDefaults()
    folds: FoldDefaults = FoldDefaults()
    network: NetworkDefaults = NetworkDefaults()
    training: TrainingDefaults = TrainingDefaults()
    targets: TargetDefaults = TargetDefaults()
    bins: BinDefaults = BinDefaults()
    support: SupportDefaults = SupportDefaults()
    trees: TreeDefaults = TreeDefaults()
    gaussian_process: GaussianProcessDefaults = GaussianProcessDefaults()
    blend: BlendDefaults = BlendDefaults()
    calibration: CalibrationDefaults = CalibrationDefaults()
    tuning: TuningDefaults = TuningDefaults()
    times: TimeDefaults = TimeDefaults()
    presets: dict[str, PresetBudget] = field(
        default_factory=lambda: {"default": _default_preset(), "fast": _fast_preset()}
    )


DEFAULTS = Defaults()

# The setting of the paper (Section 4), as parameters of a HistogramRegressor.
PAPER_PARAMETERS: dict[str, Any] = {
    "hidden": (64, 64, 64, 64),
    "bins": 100,
    "sigma": 1.0,
    "blur": None,
    "members": 1,
    "embeddings": False,
    "trees": False,
    "gaussian_process": False,
    "scaling": "standard",
    "activation": "relu",
    "optimizer": "adam",
    "learning_rate": 1e-3,
    "beta_2": 0.999,
    "weight_decay": 0.0,
    "schedule": "constant",
    "batch_size": 256,
    "max_epochs": 100,
    "early_stopping": False,
}
