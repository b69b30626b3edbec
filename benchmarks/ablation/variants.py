"""Each part of HistogramRegressor left out in turn: what it is called, and how it is left out.

Parts that are parameters are turned off by them, others by their number in the defaults, and two
by putting another function in the place of one. Where a part comes after the training, or is a
partner beside the networks, these are trained once (`keeps`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

from softbins import HistogramRegressor
from softbins.nn.objectives import Objective
from softbins.tabular import fit
from softbins.tabular.defaults import DEFAULTS, BySize, Defaults, Refit
from softbins.tabular.objectives import learnt_part


@dataclass(frozen=True)
class Variant:
    """A regressor of a preset without one of its parts, or with nothing left out."""

    part: str
    preset: str = "default"
    parameters: dict[str, Any] = field(default_factory=dict)
    defaults: Defaults = DEFAULTS
    replaced: dict[str, Any] = field(default_factory=dict)
    """Functions of the library, by their full names, and what takes their place in a fit."""
    keeps: tuple[str, ...] = ()
    """Stages of a fit, by their names in `softbins.tabular.fit`, that find what the whole regressor
    finds in them."""

    @property
    def name(self) -> str:
        """What records know it by."""
        return self.part if self.preset == "default" else f"{self.preset}: {self.part}"

    def regressor(self, seed: int) -> HistogramRegressor:
        """A regressor that is not yet fitted."""
        kind = type("Variant", (HistogramRegressor,), {"_defaults": self.defaults})
        made: HistogramRegressor = kind(preset=self.preset, random_state=seed, **self.parameters)
        return made

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """What is replaced is so inside."""
        with ExitStack() as stack:
            for name, value in self.replaced.items():
                stack.enter_context(patch(name, value))
            yield


def _with(group: str, **changes: Any) -> Defaults:
    return replace(DEFAULTS, **{group: replace(getattr(DEFAULTS, group), **changes)})


def _with_budget(preset: str, **changes: Any) -> Defaults:
    budget = replace(DEFAULTS.presets[preset], **changes)
    return replace(DEFAULTS, presets=DEFAULTS.presets | {preset: budget})


_choose_objective = fit.choose_objective


def _blurred_alone(*arguments: Any) -> Objective:
    return learnt_part(_choose_objective(*arguments))


NOTHING = "nothing"
TREES, PROCESS, NETWORKS, REFIT = STAGES = ("grow", "fit_process", "_train", "_refit_on_all_rows")
SHORT_REFIT = BySize(((math.inf, Refit(epochs=0.1, rate=0.1)),))
NO_REFIT = BySize(((math.inf, Refit(epochs=0.0, rate=0.1)),))
VARIANTS = (
    Variant(NOTHING),
    Variant("blurred head", parameters={"blur": None}),
    Variant("sharp head", replaced={"softbins.tabular.fit.choose_objective": _blurred_alone}),
    Variant("embeddings", parameters={"embeddings": False}),
    Variant("Muon", parameters={"optimizer": "adam", "learning_rate": 0.01}),
    Variant("trees", parameters={"trees": False}),
    Variant(
        "Gaussian process",
        parameters={"gaussian_process": False},
        keeps=(TREES, NETWORKS, REFIT),
    ),
    Variant(
        "errors of networks that count more",
        defaults=_with("blend", flattering_rows=0.0),
        keeps=STAGES,
    ),
    Variant("robust shares", defaults=_with("blend", max_error=math.inf), keeps=STAGES),
    Variant(
        "calibration",
        replaced={"softbins.tabular.aggregate.fit_calibration": lambda *_: None},
        keeps=STAGES,
    ),
    Variant("tilt", defaults=_with("calibration", max_tilt=0.0), keeps=STAGES),
    Variant("finer bins", defaults=_with("calibration", max_bin_splits=1), keeps=STAGES),
    Variant(
        "spikes and whole numbers",
        defaults=_with("support", min_share=2.0, min_end_share=2.0, max_values=1),
    ),
    Variant("bins by noise", defaults=_with("bins", min_density_ratio=math.inf)),
    Variant("bins by tails", defaults=_with("bins", heavy_tail_share=0.0)),
    Variant("robust scaling", parameters={"scaling": "standard"}),
    Variant(
        "folds without duplicates",
        defaults=_with("folds", min_rows_without_duplicates=10**9),
    ),
    Variant(
        "refit on all rows",
        defaults=_with_budget("default", refit=NO_REFIT),
        keeps=(TREES, PROCESS, NETWORKS),
    ),
    Variant(
        "longer refit",
        defaults=_with_budget("default", refit=SHORT_REFIT),
        keeps=(TREES, PROCESS, NETWORKS),
    ),
    Variant("least number of steps", defaults=_with_budget("default", min_steps=1)),
    Variant(NOTHING, "fast"),
    Variant("pruning", "fast", defaults=_with_budget("fast", prune_members=False)),
    Variant("longer refit", "fast", defaults=_with_budget("fast", refit=SHORT_REFIT)),
    Variant(
        "faster trees",
        "fast",
        defaults=_with_budget("fast", tree_speedup=BySize(((math.inf, 1),))),
    ),
)
BY_NAME = {variant.name: variant for variant in VARIANTS}
