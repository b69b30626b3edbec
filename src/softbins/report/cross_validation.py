"""Cross-validation of methods on the same folds of a table.

"softbins" and "softbins-fast" are HistogramRegressor with both of its presets, "trees" are
scikit-learn's boosted trees; "linear" and "constant" are what every method should beat; and the
objectives of the paper are its plain networks. Other libraries are compared if they are named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softbins.nn.objectives import make_objective
from softbins.nn.settings import METHODS as OBJECTIVES
from softbins.nn.settings import Progress
from softbins.report.estimators import (
    LIBRARIES,
    FoldData,
    check_installed,
    constant_forecast,
    histogram_forecast,
    library_forecast,
    linear_forecast,
    trees_forecast,
)
from softbins.report.forecasts import Forecast
from softbins.report.plain_networks import PlainNetworks
from softbins.report.splits import Split, make_splits
from softbins.tabular.columns import Columns
from softbins.tabular.frames import take_rows

Array = NDArray[np.float64]
# Called with the share of a method's work that is done.
OnShare = Callable[[float], object]

ESTIMATORS = {
    "softbins": "HistogramRegressor",
    "softbins-fast": "HistogramRegressor, fast",
    "trees": "boosted trees",
    "linear": "baseline",
    "constant": "baseline",
}
KINDS = (
    ESTIMATORS | dict.fromkeys(OBJECTIVES, "plain network") | dict.fromkeys(LIBRARIES, "library")
)


def check_methods(methods: Sequence[str]) -> None:
    """Raise unless all methods are known, and what they need is installed."""
    for method in methods:
        if method not in KINDS:
            raise ValueError(f"method: expected one of {', '.join(KINDS)}, got {method!r}")
        if method in LIBRARIES:
            check_installed(method)


def cross_validate(
    X: Any,
    y: Array,
    method: str,
    *,
    folds: int = 5,
    epochs: int = 100,
    seed: int = 0,
    on_share: OnShare | None = None,
) -> tuple[list[dict[str, Any]], bool | None]:
    """The scores of a method on each held-out fold, and whether it is undertrained in most.

    `epochs` are those of plain networks.
    """
    check_methods([method])
    splits = make_splits(len(y), folds, seed)
    tell = on_share or (lambda share: None)
    if method in OBJECTIVES:
        forecasts = _network_forecasts(X, y, method, splits, epochs, seed, tell)
    else:
        forecasts = [
            _estimator_forecast(X, y, method, split, seed, _of_fold(tell, number, folds))
            for number, split in enumerate(splits)
        ]
    pairs = enumerate(zip(forecasts, splits, strict=True))
    found = [forecast.scores(fold, y[split.test]) for fold, (forecast, split) in pairs]
    return found, _in_most(forecasts)


def _in_most(forecasts: Sequence[Forecast]) -> bool | None:
    known = [each.undertrained for each in forecasts if each.undertrained is not None]
    return sum(known) > len(known) / 2 if known else None


def _network_forecasts(
    X: Any,
    y: Array,
    method: str,
    splits: Sequence[Split],
    epochs: int,
    seed: int,
    tell: OnShare,
) -> list[Forecast]:
    def show(epoch: int, epochs: int, *_: Any) -> None:
        tell(epoch / epochs)

    x = Columns.fit(X).transform(X)
    objective = make_objective(method, float(y.min()), float(y.max()))
    return PlainNetworks.on(x, y, objective, epochs, seed).forecasts(splits, show)


def _estimator_forecast(
    X: Any, y: Array, method: str, split: Split, seed: int, tell: OnShare
) -> Forecast:
    fold = FoldData(
        X_train=take_rows(X, split.train),
        y_train=y[split.train],
        X_test=take_rows(X, split.test),
        y_test=y[split.test],
    )
    forecast = _fitted(method, fold, seed, tell)
    tell(1.0)
    return forecast


def _fitted(method: str, fold: FoldData, seed: int, tell: OnShare) -> Forecast:
    def show(epoch: int, epochs: int, *_: Any) -> None:
        tell(epoch / epochs)

    progress: Progress = show
    match method:
        case "softbins":
            return histogram_forecast(fold, "default", seed, progress)
        case "softbins-fast":
            return histogram_forecast(fold, "fast", seed, progress)
        case "trees":
            return trees_forecast(fold, seed)
        case "linear":
            return linear_forecast(fold)
        case "constant":
            return constant_forecast(fold)
    return library_forecast(method, fold, seed)


def _of_fold(tell: OnShare, number: int, folds: int) -> OnShare:
    """Told the share of one fold that is done, tell that of all."""
    return lambda share: tell((number + share) / folds)
