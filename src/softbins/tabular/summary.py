"""What the history of a fitted estimator says in a few numbers."""

from __future__ import annotations

import math
import statistics
from typing import Any


def training_summary(model: Any) -> dict[str, Any]:
    """Epochs, and the errors of the weights that were kept, averaged over the members."""
    members: dict[int, list[dict[str, Any]]] = {}
    for row in model.history_:
        members.setdefault(row["member"], []).append(row)
    final = [final_row(model, rows) for rows in members.values()]
    names = [f"{part}_{error}" for part in ("train", "validation") for error in ("mae", "rmse")]
    known = [name for name in names if final and all(row.get(name) is not None for row in final)]
    means = {name: statistics.fmean(row[name] for row in final) for name in known}
    return {"epochs": max((row["epoch"] for row in model.history_), default=0)} | means


def final_row(model: Any, history: list[dict[str, Any]]) -> dict[str, Any]:
    """The epoch that a member's weights come from: the last, or the best before it stopped."""
    if not model.early_stopping:
        return history[-1]
    score = f"validation_{model.monitor}"
    # What is not finite is None in a file.
    known = [row for row in history if row[score] is not None and math.isfinite(row[score])]
    return min(known, key=lambda row: float(row[score]), default=history[-1])
