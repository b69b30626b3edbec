"""The error that a fitted model knows from its own training."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from softbins._core.text import number_text
from softbins.tabular.description import aggregator_of
from softbins.tabular.summary import training_summary


@dataclass(frozen=True)
class KnownError:
    """A mean absolute error in training, and on which rows it was measured.

    `held_out` says whether these were new to what predicted them, `rows` how many there were
    (infinity if that is not known), and `text` all of it in words.
    """

    mae: float
    held_out: bool
    rows: float
    text: str


def known_error(model: Any) -> KnownError | None:
    """The error of a fitted estimator on rows that training left out, or else on those it saw."""
    summary = training_summary(model)
    for part, held_out in (("held_out", True), ("validation", True), ("train", False)):
        mae = summary.get(f"{part}_mae")
        if mae is not None and math.isfinite(mae):
            return KnownError(mae, held_out, _rows(model), _words(model, mae, part))
    return None


def _rows(model: Any) -> float:
    aggregator = aggregator_of(model)
    return math.inf if aggregator is None else aggregator.rows


def _words(model: Any, mae: float, part: str) -> str:
    if part == "train":
        return f"against {number_text(mae)} on the rows that it has learnt from"
    alone = part == "validation" and model.network_.members > 1
    each = " for each of its networks alone" if alone else ""
    return f"against {number_text(mae)}{each} on rows that training left out"
