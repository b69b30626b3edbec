"""What a model predicts for the rows of a request, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from softbins._core.text import finite
from softbins.histogram import Histogram
from softbins.serve.request_reader import PredictRequest


@dataclass(frozen=True)
class PredictedRow:
    """One row predicted for people: numbers, and the distribution if the model has any."""

    numbers: dict[str, Any]
    distribution: Histogram | None


def answer(model: Any, request: PredictRequest) -> dict[str, Any]:
    """The answer to a request: a dict of numbers for each row."""
    return finite({"predictions": _predictions(model, request)})  # type: ignore[no-any-return]


def predicted_row(model: Any, request: PredictRequest) -> PredictedRow:
    """What is predicted for the only row of a request."""
    distribution = None
    if model.objective_.has_distribution:
        distribution = model.predict_distribution(request.frame)
    return PredictedRow(answer(model, request)["predictions"][0], distribution)


def _predictions(model: Any, request: PredictRequest) -> list[dict[str, Any]]:
    means = model.predict(request.frame).tolist()
    if not model.objective_.has_distribution:
        return [{"mean": mean} for mean in means]
    intervals = model.predict_interval(request.frame, request.coverage).tolist()
    levels = request.quantiles
    quantiles = model.predict_quantiles(request.frame, (0.5, *levels)).tolist()
    return [
        {
            "mean": mean,
            "median": median,
            "interval": interval,
            "quantiles": dict(zip(map(str, levels), values, strict=True)),
        }
        for mean, interval, (median, *values) in zip(means, intervals, quantiles, strict=True)
    ]
