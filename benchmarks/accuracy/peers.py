"""What a user would otherwise pick, at its defaults, on one core.

Each peer is fitted and gives a `Forecast`: a mean, and quantiles where it predicts a distribution.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from data import Split
from numpy.typing import NDArray

Array = NDArray[np.float64]
# Fine enough for the CRPS, with the ends of central intervals from 50% to 99% among them.
LEVELS = np.unique(np.round([*np.linspace(0.025, 0.975, 39), 0.005, 0.01, 0.99, 0.995], 4))


class Forecast(NamedTuple):
    """For each test row a mean, quantiles at LEVELS and the ends of a 90% interval, if any."""

    mean: Array | None
    quantiles: Array | None = None
    interval: Array | None = None


def lightgbm(split: Split, seed: int) -> Forecast:
    """LightGBM at its defaults."""
    return _lightgbm(split, seed)


def lightgbm_500(split: Split, seed: int) -> Forecast:
    """LightGBM with 500 trees at a learning rate of 0.05."""
    return _lightgbm(split, seed, n_estimators=500, learning_rate=0.05)


def _lightgbm(split: Split, seed: int, **chosen: Any) -> Forecast:
    from lightgbm import LGBMRegressor

    model = LGBMRegressor(n_jobs=1, random_state=seed, verbose=-1, **chosen)
    return _mean_of(model, split)


def xgboost(split: Split, seed: int) -> Forecast:
    """XGBoost at its defaults."""
    from xgboost import XGBRegressor

    return _mean_of(XGBRegressor(n_jobs=1, random_state=seed), split)


def catboost(split: Split, seed: int) -> Forecast:
    """CatBoost at its defaults."""
    from catboost import CatBoostRegressor

    chosen = {"thread_count": 1, "random_seed": seed, "allow_writing_files": False}
    return _mean_of(CatBoostRegressor(verbose=False, **chosen), split)


def hist_gradient_boosting(split: Split, seed: int) -> Forecast:
    """scikit-learn's HistGradientBoostingRegressor at its defaults."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    return _mean_of(HistGradientBoostingRegressor(random_state=seed), split)


def ngboost(split: Split, seed: int) -> Forecast:
    """NGBoost at its defaults: a normal distribution for each row."""
    from ngboost import NGBRegressor
    from scipy.stats import norm

    model = NGBRegressor(verbose=False, random_state=seed).fit(split.x, split.y)
    predicted = model.pred_dist(split.x_test).params
    scale = predicted["scale"][:, None]
    return Forecast(predicted["loc"], predicted["loc"][:, None] + scale * norm.ppf(LEVELS))


def quantile_forest(split: Split, seed: int) -> Forecast:
    """quantile-forest at its defaults."""
    from quantile_forest import RandomForestQuantileRegressor

    model = RandomForestQuantileRegressor(n_jobs=1, random_state=seed).fit(split.x, split.y)
    quantiles = model.predict(split.x_test, quantiles=LEVELS.tolist())
    return Forecast(model.predict(split.x_test, quantiles="mean"), quantiles)


def realmlp(split: Split, seed: int) -> Forecast:
    """RealMLP at its tuned defaults: a mean."""
    from pytabkit import RealMLP_TD_Regressor

    return _mean_of(RealMLP_TD_Regressor(**_pytabkit(seed)), split)


def realmlp_quantiles(split: Split, seed: int) -> Forecast:
    """RealMLP with pinball losses, its way to a distribution; it predicts no mean then."""
    from pytabkit import RealMLP_TD_Regressor

    loss = f"multi_pinball({','.join(map(str, LEVELS.tolist()))})"
    model = RealMLP_TD_Regressor(train_metric_name=loss, val_metric_name=loss, **_pytabkit(seed))
    return Forecast(None, model.fit(split.x, split.y).predict(split.x_test))


def tabm(split: Split, seed: int) -> Forecast:
    """TabM at its defaults."""
    from pytabkit import TabM_D_Regressor

    return _mean_of(TabM_D_Regressor(**_pytabkit(seed)), split)


def _pytabkit(seed: int) -> dict[str, Any]:
    return {"device": "cpu", "random_state": seed, "n_threads": 1, "verbosity": 0}


def _mean_of(model: Any, split: Split) -> Forecast:
    model.fit(split.x, split.y)
    return Forecast(np.asarray(model.predict(split.x_test), dtype=np.float64).reshape(-1))


PEERS: dict[str, Callable[[Split, int], Forecast]] = {
    "LightGBM": lightgbm,
    "LightGBM 500": lightgbm_500,
    "XGBoost": xgboost,
    "CatBoost": catboost,
    "HistGradientBoosting": hist_gradient_boosting,
    "quantile-forest": quantile_forest,
    "NGBoost": ngboost,
    "RealMLP": realmlp,
    "RealMLP quantiles": realmlp_quantiles,
    "TabM": tabm,
}
