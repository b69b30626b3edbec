"""What a user would otherwise pick, at its defaults, on one core.

Each peer is fitted and gives a `Forecast`: a mean, and quantiles where it predicts a distribution.
A NumPy table is handed over as it is. A DataFrame, which has columns of text and gaps, is handed
over in the form that the peer takes best: see "Columns" below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from data import Array, Split, text_columns

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
    return _mean_of(model, with_categories(split))


def xgboost(split: Split, seed: int) -> Forecast:
    """XGBoost at its defaults."""
    from xgboost import XGBRegressor

    model = XGBRegressor(n_jobs=1, random_state=seed, enable_categorical=True)
    return _mean_of(model, with_categories(split))


def catboost(split: Split, seed: int) -> Forecast:
    """CatBoost at its defaults."""
    from catboost import CatBoostRegressor

    chosen = {"thread_count": 1, "random_seed": seed, "allow_writing_files": False}
    if isinstance(split.x, pd.DataFrame):
        chosen["cat_features"] = text_columns(split.x)
    return _mean_of(CatBoostRegressor(verbose=False, **chosen), with_gaps_as_text(split))


def hist_gradient_boosting(split: Split, seed: int) -> Forecast:
    """scikit-learn's HistGradientBoostingRegressor at its defaults."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    return _mean_of(HistGradientBoostingRegressor(random_state=seed), with_categories(split))


def ngboost(split: Split, seed: int) -> Forecast:
    """NGBoost at its defaults: a normal distribution for each row."""
    from ngboost import NGBRegressor
    from scipy.stats import norm

    split = as_numbers(split)
    model = NGBRegressor(verbose=False, random_state=seed).fit(split.x, split.y)
    predicted = model.pred_dist(split.x_test).params
    scale = predicted["scale"][:, None]
    return Forecast(predicted["loc"], predicted["loc"][:, None] + scale * norm.ppf(LEVELS))


def quantile_forest(split: Split, seed: int) -> Forecast:
    """quantile-forest at its defaults."""
    from quantile_forest import RandomForestQuantileRegressor

    split = as_numbers(split)
    model = RandomForestQuantileRegressor(n_jobs=1, random_state=seed).fit(split.x, split.y)
    quantiles = model.predict(split.x_test, quantiles=LEVELS.tolist())
    return Forecast(model.predict(split.x_test, quantiles="mean"), quantiles)


def realmlp(split: Split, seed: int) -> Forecast:
    """RealMLP at its tuned defaults: a mean."""
    from pytabkit import RealMLP_TD_Regressor

    return _mean_of(RealMLP_TD_Regressor(**_pytabkit(seed)), _columns_for_pytabkit(split))


def realmlp_quantiles(split: Split, seed: int) -> Forecast:
    """RealMLP with pinball losses, its way to a distribution; it predicts no mean then."""
    from pytabkit import RealMLP_TD_Regressor

    split = _columns_for_pytabkit(split)
    loss = f"multi_pinball({','.join(map(str, LEVELS.tolist()))})"
    model = RealMLP_TD_Regressor(train_metric_name=loss, val_metric_name=loss, **_pytabkit(seed))
    return Forecast(None, model.fit(split.x, split.y).predict(split.x_test))


def tabm(split: Split, seed: int) -> Forecast:
    """TabM at its defaults."""
    from pytabkit import TabM_D_Regressor

    return _mean_of(TabM_D_Regressor(**_pytabkit(seed)), _columns_for_pytabkit(split))


def xrfm(split: Split, seed: int) -> Forecast:
    """xRFM, a kernel machine that learns its features, at its defaults in pytabkit."""
    from pytabkit import XRFM_D_Regressor

    return _mean_of(XRFM_D_Regressor(**_pytabkit(seed)), _columns_for_pytabkit(split))


def _pytabkit(seed: int) -> dict[str, Any]:
    return {"device": "cpu", "random_state": seed, "n_threads": 1, "verbosity": 0}


def _columns_for_pytabkit(split: Split) -> Split:
    """It takes categories, and refuses gaps in numbers."""
    return with_medians(with_categories(split))


def _mean_of(model: Any, split: Split) -> Forecast:
    model.fit(split.x, split.y)
    return Forecast(np.asarray(model.predict(split.x_test), dtype=np.float64).reshape(-1))


# Columns


def with_categories(split: Split) -> Split:
    """Text as categories, those of the training rows; gaps, and text that is new, are missing."""
    return _changed(split, _categories)


def with_gaps_as_text(split: Split) -> Split:
    """Text columns in which a gap is a text of its own; numbers keep their gaps."""
    return _changed(split, lambda _, x: x.fillna(dict.fromkeys(text_columns(x), "missing")))


def with_medians(split: Split) -> Split:
    """The medians of the training rows for gaps in numbers, zero where all are missing."""
    return _changed(split, _medians)


def as_numbers(split: Split) -> Split:
    """A NumPy table: a column for each text of a column, and medians for gaps in numbers."""
    if not isinstance(split.x, pd.DataFrame):
        return split
    filled = with_medians(with_categories(split))
    x, x_test = (
        pd.get_dummies(part, dummy_na=True).to_numpy(np.float64)
        for part in (filled.x, filled.x_test)
    )
    return Split(x, split.y, x_test, split.y_test)


def _changed(split: Split, change: Callable[[pd.DataFrame, pd.DataFrame], pd.DataFrame]) -> Split:
    """Both parts after `change(training part, part)`; a NumPy table stays as it is."""
    if not isinstance(split.x, pd.DataFrame):
        return split
    x, x_test = (change(split.x, part) for part in (split.x, split.x_test))
    return Split(x, split.y, x_test, split.y_test)


def _categories(train: pd.DataFrame, x: pd.DataFrame) -> pd.DataFrame:
    known = {name: sorted(train[name].dropna().unique()) for name in text_columns(train)}
    seen = x.assign(**{name: x[name].where(x[name].isin(texts)) for name, texts in known.items()})
    return seen.astype({name: pd.CategoricalDtype(texts) for name, texts in known.items()})


def _medians(train: pd.DataFrame, x: pd.DataFrame) -> pd.DataFrame:
    return x.fillna(train.median(numeric_only=True).fillna(0.0))


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
    "xRFM": xrfm,
}
