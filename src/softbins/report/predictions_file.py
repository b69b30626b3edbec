"""The predictions of an evaluation as the text of a CSV file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from softbins._core.text import level_text

if TYPE_CHECKING:
    from softbins.report.evaluation import Evaluation


def predictions_text(evaluation: Evaluation, n_rows: int) -> str:
    """Row numbers, targets, means, errors, and medians and intervals if there are any."""
    y, mean = evaluation.y, evaluation.mean
    columns = {"true": y, "predicted": mean, "error": mean - y}
    if evaluation.distribution is not None and evaluation.interval is not None:
        columns["median"] = evaluation.distribution.median.double().numpy()
        for name, ends in zip(("low", "high"), evaluation.interval.T, strict=True):
            columns[f"{name}_{level_text(evaluation.coverage)}"] = ends
    numbers = np.column_stack([values[:n_rows] for values in columns.values()])
    lines = [",".join(["row", *columns])]
    lines += [
        f"{row}," + ",".join(f"{v:.10g}" for v in each)
        for row, each in zip(evaluation.row_numbers, numbers.tolist(), strict=False)
    ]
    return "\n".join(lines) + "\n"
