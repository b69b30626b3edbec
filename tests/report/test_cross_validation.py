"""Cross-validation: every row is predicted once, by a method that has not seen it."""

import sys
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scoringrules import crps_ensemble
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import KFold, cross_val_score

from softbins import HistogramRegressor
from softbins.report import estimators
from softbins.report.baselines import linear_regression
from softbins.report.cross_validation import ESTIMATORS, KINDS, cross_validate
from softbins.report.estimators import FoldData, constant_forecast, ended_at_its_best
from softbins.report.plain_networks import still_improving


def data(rows, noise=0.5):
    random = np.random.default_rng(0)
    x = random.normal(size=(rows, 2))
    return x, 2 * x[:, 0] - x[:, 1] + noise * random.normal(size=rows)


@pytest.fixture
def _small_regressor(monkeypatch):
    small = partial(HistogramRegressor, (8,), members=2, max_epochs=3)
    monkeypatch.setattr(estimators, "HistogramRegressor", small)


@pytest.mark.parametrize(
    ("method", "model"),
    [("linear", linear_regression()), ("trees", HistGradientBoostingRegressor(random_state=7))],
)
def test_regressors_of_scikit_learn_are_cross_validated_as_it_does_it(method, model):
    x, y = data(60)
    found, _ = cross_validate(x, y, method, folds=3, seed=7)
    folds = KFold(3, shuffle=True, random_state=7)
    for name, score in [("mae", "absolute_error"), ("rmse", "squared_error")]:
        scoring = f"neg_{'root_' if name == 'rmse' else ''}mean_{score}"
        expected = -cross_val_score(model, x, y, cv=folds, scoring=scoring)
        np.testing.assert_allclose([fold[name] for fold in found], expected)
    assert [fold["fold"] for fold in found] == [0, 1, 2]


@pytest.mark.usefixtures("_small_regressor")
@pytest.mark.parametrize("method", [*ESTIMATORS, "l2", "mdn"])
def test_every_method_has_the_same_scores(method):
    x, y = data(160)
    told = []
    found, late = cross_validate(x, y, method, folds=2, epochs=2, on_share=told.append)
    assert all(
        set(fold) == {"fold", "mae", "rmse", "crps", "coverage", "seconds"} for fold in found
    )
    has_distribution = method not in ("trees", "linear", "l2")
    for fold in found:
        assert (fold["coverage"] is not None) == has_distribution
        assert (fold["crps"] == fold["mae"]) == (not has_distribution)
        assert 0 < fold["crps"] <= fold["mae"] < fold["rmse"]
        assert fold["seconds"] >= 0
    assert told == sorted(told)
    assert told[-1] == 1.0
    assert (late is None) == (method in ("linear", "constant"))


@pytest.mark.usefixtures("_small_regressor")
def test_frames_of_words_and_gaps_are_taken_by_all():
    x, y = data(60)
    town = np.where(x[:, 0] > 0, "a", None)
    frame = pd.DataFrame({"town": town, "size": np.where(x[:, 1] > 1, np.nan, x[:, 1])})
    for method in ("softbins-fast", "trees", "linear", "constant", "l1"):
        one, _ = cross_validate(frame, y, method, folds=2, epochs=2)
        other, _ = cross_validate(pl.from_pandas(frame), y, method, folds=2, epochs=2)
        assert [fold["mae"] for fold in one] == [fold["mae"] for fold in other]


def test_the_constant_is_the_distribution_of_the_training_targets():
    y = np.random.default_rng(0).exponential(size=50)
    found = constant_forecast(FoldData(None, y[:30], None, y[30:]))
    expected = crps_ensemble(y[30:], np.tile(y[:30], (20, 1)), estimator="nrg").mean()
    assert found.crps == pytest.approx(expected)
    np.testing.assert_allclose(found.mean, np.full(20, y[:30].mean()))
    np.testing.assert_allclose(found.interval[0], np.quantile(y[:30], [0.05, 0.95]))


@pytest.mark.parametrize("name", ["lightgbm", "catboost", "xgboost"])
def test_another_library_is_compared_if_it_is_installed(name):
    pytest.importorskip(name, reason=f"{name} is not installed")
    x, y = data(200)
    found, late = cross_validate(x, y, name, folds=2)
    assert max(fold["rmse"] for fold in found) < 0.8 * y.std()
    assert late is None


def test_a_library_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(ValueError, match="methods: lightgbm is not installed .* pip install light"):
        cross_validate(*data(10), "lightgbm")


def test_plain_networks_are_trained_with_one_thread():
    before, seen = torch.get_num_threads(), set()
    torch.set_num_threads(2)
    try:
        cross_validate(
            *data(30),
            "hl-onebin",
            folds=2,
            epochs=2,
            on_share=lambda share: seen.add(torch.get_num_threads()),
        )
        assert seen == {1}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


# Undertrained


@pytest.mark.parametrize(
    ("errors", "late"),
    [
        ([3.0, 2.0, 1.0], True),
        (list(range(100, 0, -1)), True),
        ([*range(100, 50, -1), *range(51, 101)], False),
        ([*[2.0] * 90, 1.0, *[2.0] * 9], True),
        ([*[2.0] * 89, 1.0, *[2.0] * 10], False),
        ([1.0, float("nan"), float("nan")], False),
        ([float("nan")], False),
    ],
)
def test_a_training_is_too_short_if_its_best_epoch_is_at_the_end(errors, late):
    assert still_improving(errors) == late


def test_networks_that_need_more_epochs_are_marked():
    x, y = data(200)
    assert cross_validate(x, y, "l2", folds=2, epochs=10)[1] is True
    noise = np.random.default_rng(1).normal(size=200)
    assert cross_validate(x, noise, "l2", folds=2, epochs=300)[1] is False


def test_a_regressor_that_never_stopped_is_marked():
    x, y = data(200)
    how = {"members": 2, "random_state": 0, "trees": False}
    short = HistogramRegressor((16,), max_epochs=3, **how).fit(x, y)
    noise = np.random.default_rng(1).normal(size=200)
    stopped = HistogramRegressor((16,), max_epochs=60, patience=3, **how).fit(x, noise)
    assert (ended_at_its_best(short), ended_at_its_best(stopped)) == (True, False)


# Plain networks


def test_networks_learn_and_are_judged_by_rows_they_have_not_seen():
    """Noise without a signal can be learnt by heart, but not predicted."""
    x, y = data(300, noise=0.0)
    learnt, _ = cross_validate(x, y, "l2", folds=3, epochs=300)
    noise = np.random.default_rng(1).normal(size=len(y))
    unknown, _ = cross_validate(x, noise, "l2", folds=3, epochs=300)
    assert max(fold["rmse"] for fold in learnt) < 0.3 * y.std()
    assert min(fold["rmse"] for fold in unknown) > 0.9 * noise.std()


def test_folds_with_different_numbers_of_batches_are_trained_in_stacks_of_their_own():
    # Two folds train on 256 rows, one batch, and the third on 257, which are two.
    x, y = data(256 * 3 // 2 + 1)
    calls = []
    found, _ = cross_validate(x, y, "l2", folds=3, epochs=2, on_share=calls.append)
    assert [fold["fold"] for fold in found] == [0, 1, 2]
    assert calls == [0.5, 1.0, 0.5, 1.0]


def test_the_same_seed_gives_the_same_errors():
    x, y = data(40)
    found = [cross_validate(x, y, "hl-gaussian", folds=2, epochs=2, seed=s)[0] for s in (1, 1, 2)]
    first, again, other = ([fold["mae"] for fold in folds] for folds in found)
    assert first == again != other


def test_an_unknown_method_is_named():
    with pytest.raises(ValueError, match="method: expected one of softbins, .* got 'l7'"):
        cross_validate(*data(10), "l7")
    assert KINDS["hl-gaussian"] == "plain network"
