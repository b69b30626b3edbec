"""Dates, times and durations as targets are refused as they are among features, by everybody."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from softbins import Bins, Histogram, HistogramRegressor, NeuralRegressor, calibration, scores
from softbins.evaluation import compare_methods, evaluate

ROWS = 24
X = np.arange(2.0 * ROWS).reshape(ROWS, 2)
Y = np.arange(float(ROWS))
MESSAGE = "^y: dates, times and durations are not taken; turn them into numbers first"
QUICK = {"hidden": (4,), "max_epochs": 1, "random_state": 0}
PREDICTED = Histogram(Bins.uniform(0.0, float(ROWS), 4), probs=torch.full((ROWS, 4), 0.25))


def dates_of(generator):
    """Some column of moments or durations, of one of many kinds in one of many units."""
    days = generator.integers(0, 20_000, ROWS)
    unit = generator.choice(["D", "h", "s", "ms", "us", "ns"])
    python = [datetime.datetime(1970, 1, 1) + datetime.timedelta(int(day)) for day in days]
    stamps, mixed = days.astype(f"datetime64[{unit}]"), list(map(float, days))
    mixed[generator.integers(ROWS)] = python[0]
    return {
        "datetime64": stamps,
        "column of datetime64": stamps[:, None],
        "timedelta64": days.astype(f"timedelta64[{unit}]"),
        "objects of datetime64": np.array([*stamps, None], dtype=object)[:ROWS],
        "list": python,
        "list of days": [moment.date() for moment in python],
        "list of times": [moment.time() for moment in python],
        "list of durations": [moment - python[0] for moment in python],
        "objects": np.array([moment.date() for moment in python], dtype=object),
        "one among numbers": mixed,
        "one among objects": np.array(mixed, dtype=object),
        "pandas": pd.Series(python),
        "pandas with a zone": pd.Series(python).dt.tz_localize("UTC"),
        "pandas durations": pd.Series(python) - python[0],
        "pandas periods": pd.Series(python).dt.to_period("M"),
        "pandas frame": pd.DataFrame({"y": python}),
        "pandas arrow": pd.Series(python).astype("timestamp[us][pyarrow]"),
        "polars dates": pl.Series(python).cast(pl.Date),
        "polars moments": pl.Series(python),
        "polars moments with a zone": pl.Series(python).dt.replace_time_zone("UTC"),
        "polars durations": pl.Series([moment - python[0] for moment in python]),
        "polars times": pl.Series([moment.time() for moment in python]),
    }


KINDS = sorted(dates_of(np.random.default_rng(0)))
FITTED = NeuralRegressor(bins=4, **QUICK).fit(X, Y)
TAKERS = {
    "HistogramRegressor.fit": lambda y: HistogramRegressor(**QUICK).fit(X, y),
    "HistogramRegressor.fit of a frame": lambda y: HistogramRegressor(**QUICK).fit(
        pd.DataFrame(X, columns=["a", "b"]), y
    ),
    "HistogramRegressor.tune": lambda y: HistogramRegressor(**QUICK).tune(X, y),
    "NeuralRegressor.fit": lambda y: NeuralRegressor(**QUICK).fit(X, y),
    "score": lambda y: FITTED.score(X, y),
    "evaluate": lambda y: evaluate(FITTED, X, y),
    "compare_methods": lambda y: compare_methods(X, y, ["linear", "l2"], folds=2, epochs=1),
    "predict_cdf": lambda y: FITTED.predict_cdf(X, y),
    "crps": lambda y: scores.crps(PREDICTED, y),
    "pit": lambda y: scores.pit(PREDICTED, y),
    "reliability": lambda y: scores.reliability(PREDICTED, y),
    "neg_nll": lambda y: scores.neg_nll(FITTED, X, y),
    "coverage": lambda y: scores.coverage(y, Y, Y + 1),
    "pinball": lambda y: scores.pinball(y, Y[:, None], [0.5]),
    "conformal": lambda y: calibration.Conformal.fit(PREDICTED, y),
    "calibrator": lambda y: calibration.Calibrator.fit(PREDICTED, y),
    "bins": lambda y: Bins.quantile(y, 4),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("taker", TAKERS)
def test_dates_are_no_targets(taker, kind):
    for seed in range(3):
        y = dates_of(np.random.default_rng(seed))[kind]
        with pytest.raises(ValueError, match=MESSAGE):
            TAKERS[taker](y)


@pytest.mark.parametrize("kind", KINDS)
def test_dates_are_no_weights_either(kind):
    weight = dates_of(np.random.default_rng(0))[kind]
    with pytest.raises(ValueError, match="^sample_weight: dates, times and durations"):
        NeuralRegressor(**QUICK).fit(X, Y, weight)
