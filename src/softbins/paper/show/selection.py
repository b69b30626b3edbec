"""The choice of a method's setting: which of its finished settings a table reports."""

from __future__ import annotations

import math
from typing import NamedTuple

from softbins.paper.data.splits import SplitKind
from softbins.paper.run.methods import Parameters
from softbins.paper.run.plan import Candidate, Run, Scale, Selection, candidate_settings
from softbins.paper.run.store import Store
from softbins.paper.show.tables import Cell, mean_cell


class Choice(NamedTuple):
    """The setting of a method that a table reports, and how many it was chosen from.

    `compared` of the `settings` had enough finished runs to be compared. If it is 0, nothing was
    chosen, and `parameters` mean nothing.
    """

    parameters: Parameters
    runs: list[Run]
    compared: int
    settings: int

    @property
    def note(self) -> str:
        """The chosen parameters in words, such as "noise=0.001"."""
        chosen = self.parameters if self.compared else {}
        return ", ".join(f"{name}={value:g}" for name, value in chosen.items())


def choose_setting(
    dataset: str,
    method: str,
    scale: Scale,
    store: Store,
    selection: Selection = "paper",
    split: SplitKind = "random",
) -> Choice:
    """Choose the setting with the smallest mean absolute error on the test or validation rows.

    Only the settings with the most finished runs are compared, which are the complete ones as soon
    as there are any.
    """
    candidates = candidate_settings(dataset, method, scale, split)
    if len(candidates) == 1:
        (only,) = candidates
        return Choice(only.parameters, only.reported, compared=1, settings=1)
    errors = [_judge(candidate, selection, store) for candidate in candidates]
    most_runs = max(error.runs for error in errors)
    compared = [i for i, error in enumerate(errors) if error.runs == most_runs > 0]
    best = min(compared, key=lambda i: _sort_key(errors[i].mean), default=0)
    chosen = candidates[best]
    return Choice(chosen.parameters, chosen.reported, len(compared), len(candidates))


def _judge(candidate: Candidate, selection: Selection, store: Store) -> Cell:
    """The error that a setting is chosen by."""
    if selection == "paper":
        return mean_cell(candidate.reported, "test_mae", store)
    return mean_cell(candidate.judging, "validation_mae", store)


def _sort_key(mean: float | None) -> float:
    """A setting that diverged is the last to be chosen."""
    return math.inf if mean is None or math.isnan(mean) else mean
