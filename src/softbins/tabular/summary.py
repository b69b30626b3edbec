"""What the history of a training says in a few numbers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

# In the order in which they are shown.
ERRORS = ("mae", "rmse", "crps")


def training_summary(model: Any) -> dict[str, Any]:
    """Epochs of a fitted estimator, and its errors in training.

    They are those of the whole model on rows that training left out, where it knows them:
    ``held_out_mae`` and so on. Otherwise they are those of its networks, one by one.
    """
    summary = history_summary(model.history_, model.monitor if model.early_stopping else None)
    whole = whole_model_scores(model)
    if not whole:
        return summary
    errors = {f"held_out_{name}": whole[name] for name in ERRORS if name in whole}
    return {"epochs": summary["epochs"]} | errors


def whole_model_scores(model: Any) -> dict[str, float]:
    """Scores of held-out rows, each predicted by all members and trees that had not seen it.

    Only an estimator that aggregates its members may know them.
    """
    aggregates = getattr(model, "aggregator_", None) is not None
    provenance = getattr(model, "provenance_", None)
    return dict(provenance.scores) if aggregates and provenance is not None else {}


def history_summary(history: Sequence[dict[str, Any]], monitor: str | None) -> dict[str, Any]:
    """Epochs, and the errors of the weights that were kept, averaged over the members.

    `monitor` is the error by which members were stopped, None if they were not.
    """
    members: dict[int, list[dict[str, Any]]] = {}
    for row in history:
        members.setdefault(row["member"], []).append(row)
    final = [final_row(rows, monitor) for rows in members.values()]
    names = [f"{part}_{error}" for part in ("train", "validation") for error in ("mae", "rmse")]
    known = [name for name in names if final and all(row.get(name) is not None for row in final)]
    means = {name: statistics.fmean(row[name] for row in final) for name in known}
    return {"epochs": max((row["epoch"] for row in history), default=0)} | means


def final_row(history: Sequence[dict[str, Any]], monitor: str | None) -> dict[str, Any]:
    """The epoch that a member's weights come from: the last, or the best before it stopped."""
    if monitor is None:
        return history[-1]
    score = f"validation_{monitor}"
    # What is not finite is None in a file.
    known = [row for row in history if row[score] is not None and math.isfinite(row[score])]
    return min(known, key=lambda row: float(row[score]), default=history[-1])
