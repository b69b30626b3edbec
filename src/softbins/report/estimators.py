"""Whole regressors to compare: HistogramRegressor, boosted trees, baselines, other libraries.

Each learns from the training rows of a fold and nothing else. All but HistogramRegressor get the
columns encoded, as HistogramRegressor does it itself.
"""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor

from softbins import scores
from softbins.nn.settings import Progress
from softbins.report.baselines import linear_regression
from softbins.report.forecasts import COVERAGE, Forecast
from softbins.report.intervals import possible_interval
from softbins.report.plain_networks import still_improving
from softbins.tabular.columns import Columns
from softbins.tabular.defaults import Preset
from softbins.tabular.histogram_regressor import HistogramRegressor

Array = NDArray[np.float64]
# The regressors of libraries that may be installed, and what keeps them quiet and repeatable. One
# thread each, because threads that wait for each other count as seconds of the processor.
LIBRARIES: dict[str, tuple[str, dict[str, Any]]] = {
    "lightgbm": ("LGBMRegressor", {"verbose": -1, "n_jobs": 1}),
    "catboost": (
        "CatBoostRegressor",
        {"verbose": False, "allow_writing_files": False, "thread_count": 1},
    ),
    "xgboost": ("XGBRegressor", {"verbosity": 0, "n_jobs": 1}),
}


@dataclass(frozen=True)
class FoldData:
    """The rows of a fold: those to learn from, and those to predict with their targets."""

    X_train: Any
    y_train: Array
    X_test: Any
    y_test: Array

    def encoded(self) -> tuple[Array, Array]:
        """The columns of both as numbers, by what the training rows say about them."""
        columns = Columns.fit(self.X_train)
        return columns.transform(self.X_train), columns.transform(self.X_test)


def histogram_forecast(
    fold: FoldData, preset: Preset, seed: int, progress: Progress | None
) -> Forecast:
    """What `softbins fit` fits."""
    model = HistogramRegressor(preset=preset, random_state=seed, progress=progress or False)
    seconds = _seconds(lambda: model.fit(fold.X_train, fold.y_train))
    return Forecast(
        mean=model.predict(fold.X_test),
        seconds=seconds,
        crps=scores.crps(model.predict_distribution(fold.X_test), fold.y_test),
        interval=possible_interval(model, fold.X_test, COVERAGE),
        undertrained=ended_at_its_best(model),
    )


def trees_forecast(fold: FoldData, seed: int) -> Forecast:
    """scikit-learn's boosted trees with its own defaults."""
    train, test = fold.encoded()
    model = HistGradientBoostingRegressor(random_state=seed)
    seconds = _seconds(lambda: model.fit(train, fold.y_train))
    stages = list(model.staged_predict(test))
    errors = [float(np.abs(stage - fold.y_test).mean()) for stage in stages]
    return Forecast(stages[-1], seconds, undertrained=still_improving(errors))


def linear_forecast(fold: FoldData) -> Forecast:
    """Linear regression with a penalty that it chooses."""
    train, test = fold.encoded()
    model = linear_regression()
    seconds = _seconds(lambda: model.fit(train, fold.y_train))
    return Forecast(model.predict(test), seconds)


def constant_forecast(fold: FoldData) -> Forecast:
    """The same for every row: the mean of the training targets, and all of them as distribution."""
    known, count = np.sort(fold.y_train), len(fold.y_test)
    # E|Y - y| - E|Y - Y'| / 2 for Y drawn from the training targets.
    weights = 2 * np.arange(1, len(known) + 1) - len(known) - 1
    spread = 2 * float(weights @ known) / len(known) ** 2
    distance = float(np.mean([np.abs(known - y).mean() for y in fold.y_test]))
    ends = np.quantile(known, [0.5 - COVERAGE / 2, 0.5 + COVERAGE / 2])
    return Forecast(
        mean=np.full(count, known.mean()),
        seconds=0.0,
        crps=distance - spread / 2,
        interval=np.tile(ends, (count, 1)),
    )


def library_forecast(name: str, fold: FoldData, seed: int) -> Forecast:
    """A regressor of another library with its own defaults."""
    class_name, how = LIBRARIES[name]
    train, test = fold.encoded()
    model = getattr(importlib.import_module(name), class_name)(random_state=seed, **how)
    seconds = _seconds(lambda: model.fit(train, fold.y_train))
    return Forecast(np.asarray(model.predict(test), dtype=np.float64), seconds)


def check_installed(name: str) -> None:
    """Raise unless a library can be imported."""
    try:
        importlib.import_module(name)
    except ImportError as error:
        way_out = f"pip install {name}, or leave it out"
        raise ValueError(f"methods: {name} is not installed ({error}); {way_out}") from error


def ended_at_its_best(model: Any) -> bool:
    """Whether most members were at their best when the last epoch ended, and never stopped."""
    members: dict[int, list[float]] = {}
    for row in model.history_:
        error = row[f"validation_{model.monitor}"]
        members.setdefault(row["member"], []).append(math.inf if error is None else error)
    late = [np.argmin(errors) == len(errors) - 1 for errors in members.values()]
    return bool(sum(late) > len(late) / 2)


def _seconds(fit: Callable[[], object]) -> float:
    """The processor's seconds that a fit takes."""
    start = time.process_time()
    fit()
    return time.process_time() - start
