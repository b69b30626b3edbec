"""A model judged on rows: its predictions, scores and remarks."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

from softbins import Bins, Histogram, scores
from softbins.evaluation import Evaluation, evaluate, predictions
from tests.report.small_models import fitted, table


def test_the_scores_are_those_of_the_model_s_predictions(found):
    x, y = table(40, seed=1)
    model = found.model
    low, high = model.predict_interval(x, 0.8).T
    predicted = model.predict_distribution(x)
    expected = {
        "mae": mean_absolute_error(y, model.predict(x)),
        "median_mae": mean_absolute_error(y, model.predict(x, output="median")),
        "rmse": root_mean_squared_error(y, model.predict(x)),
        "r2": r2_score(y, model.predict(x)),
        "crps": scores.crps(predicted, y),
        "nll": scores.nll(predicted, y),
        "coverage": scores.coverage(y, low, high),
        "width": scores.width(low, high),
    }
    assert found.scores() == pytest.approx(expected)
    summary = found.summary()
    assert (summary["rows"], summary["interval"]) == (40, 0.8)
    assert summary["objective"] == model.objective


def test_a_model_of_numbers_has_no_scores_of_distributions():
    found = evaluate(fitted("l2"), *table())
    known = {name for name, value in found.summary().items() if value is not None}
    assert known == {"objective", "rows", "mae", "rmse", "r2"}
    (remark,) = found.remarks()
    assert "(l2) predicts numbers, no distributions: only MAE, RMSE and R²" in remark


def test_an_evaluation_is_shown_as_a_short_table(found):
    lines = repr(found).splitlines()
    assert lines[0] == f"Evaluation of {found.model.objective} on 40 rows"
    shown = {line.rsplit("  ", 1)[0].strip(): line.rsplit("  ", 1)[1] for line in lines[1:]}
    assert list(shown) == [name.replace("_", " ") for name in found.scores()]
    assert float(shown["mae"]) == pytest.approx(found.scores()["mae"], rel=1e-3)


def test_targets_that_are_all_the_same_have_no_r2(models):
    found = evaluate(models["equal bins"], table(5)[0], np.ones(5))
    assert found.scores()["r2"] is None


def test_targets_outside_the_bins_are_counted(models):
    x, y = table()
    found = evaluate(models["equal bins"], x, np.where(np.arange(80) < 3, 99.0, y))
    assert found.scores()["nll"] == math.inf
    assert found.remarks()[0].startswith("3 of 80 targets lie outside the bins, [")
    assert len(found.remarks()) == 1


def test_targets_in_bins_without_probability_are_counted():
    half = Histogram(Bins.uniform(0, 1, 2), probs=torch.tensor([[0.0, 1.0]] * 3))
    y, mean, interval = np.array([0.2, 0.7, 3.0]), np.full(3, 0.75), np.array([[0.5, 1.0]] * 3)
    found = Evaluation(None, y, mean, distribution=half, interval=interval, coverage=0.9)
    assert found.scores()["nll"] == math.inf
    assert found.remarks() == [
        "1 of 3 targets lie outside the bins, [0, 1], where the density is zero.",
        "1 of 3 targets lie in bins to which their distributions give no probability.",
    ]


@pytest.mark.parametrize(
    ("y", "coverage", "message"),
    [
        ([1.0], 0.9, "y: need one number for each of 80 rows, got 1"),
        ([math.nan] * 80, 0.9, "y: 80 of 80 values are NaN"),
        (["a"] * 80, 0.9, "y: need an array of numbers"),
        ([1.0] * 80, 1.5, "coverage: must lie strictly between 0 and 1, got 1.5"),
    ],
    ids=["short", "nan", "words", "coverage"],
)
def test_bad_input_names_the_argument(models, y, coverage, message):
    with pytest.raises(ValueError, match=message):
        evaluate(models["equal bins"], table()[0], y, coverage)


def test_a_model_that_has_diverged_is_refused():
    model = SimpleNamespace(predict=lambda x: np.array([1.0, math.nan]))
    with pytest.raises(ValueError, match="model: 1 of 2 predictions are not finite; fit it again"):
        evaluate(model, [[0], [0]], [1.0, 2.0])


def test_predictions_are_columns_by_name(models):
    x, model = table(5, seed=1)[0], models["calibrated"]
    assert list(predictions(model, x)) == ["prediction"]
    asked = {"output": "median", "interval": 0.8, "quantiles": (0.1, 0.9)}
    found, raw = predictions(model, x, **asked), predictions(model, x, **asked, raw=True)
    names = ["prediction", "low_0.8", "high_0.8", "quantile_0.1", "quantile_0.9"]
    assert list(found) == list(raw) == names
    np.testing.assert_array_equal(found["prediction"], model.predict(x, output="median"))
    calibrated = np.column_stack([found["low_0.8"], found["high_0.8"]])
    np.testing.assert_array_equal(calibrated, model.predict_interval(x, 0.8))
    np.testing.assert_allclose(found["low_0.8"], found["quantile_0.1"])
    np.testing.assert_allclose(found["high_0.8"], found["quantile_0.9"])
    np.testing.assert_allclose(
        raw["low_0.8"], model.predict_interval(x, 0.8, calibrated=False)[:, 0]
    )


@pytest.mark.parametrize("name", ["equal bins", "mdn"])
def test_raw_changes_nothing_where_nothing_is_calibrated(models, name):
    x = table(5, seed=1)[0]
    one, other = (predictions(models[name], x, interval=0.8, raw=raw) for raw in (False, True))
    assert all(np.array_equal(one[column], other[column]) for column in one)
