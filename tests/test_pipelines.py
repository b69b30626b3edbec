"""Intervals and quantiles through what scikit-learn wraps around an estimator."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PowerTransformer, StandardScaler

from softbins import HistogramRegressor, pipelines, scores

LEVELS = [0.1, 0.5, 0.8]


def regressor():
    return HistogramRegressor((8,), members=2, max_epochs=4, trees=False, random_state=0)


def table(rows=120):
    random = np.random.default_rng(0)
    x = random.normal(size=(rows, 2))
    return x, np.exp(0.5 * x[:, 0] + 0.2 * random.normal(size=rows))


def transformed(inside, func=np.log, inverse=np.exp):
    return TransformedTargetRegressor(inside, func=func, inverse_func=inverse, check_inverse=False)


def reciprocal(values):
    return 10 - values


def test_a_pipeline_gives_what_its_last_step_says_of_transformed_rows():
    x, y = table()
    pipe = make_pipeline(StandardScaler(), regressor()).fit(x, y)
    inside = pipe[-1], StandardScaler().fit(x).transform(x)
    np.testing.assert_array_equal(
        pipelines.predict_interval(pipe, x, 0.8, kind="shortest"),
        inside[0].predict_interval(inside[1], 0.8, kind="shortest"),
    )
    np.testing.assert_array_equal(
        pipelines.predict_quantiles(pipe, x, LEVELS), inside[0].predict_quantiles(inside[1], LEVELS)
    )


def test_an_estimator_alone_is_asked_itself():
    x, y = table()
    model = regressor().fit(x, y)
    np.testing.assert_array_equal(pipelines.predict_interval(model, x), model.predict_interval(x))
    np.testing.assert_array_equal(
        pipelines.predict_quantiles(model, x, 0.3), model.predict_quantiles(x, 0.3)
    )


@pytest.fixture(scope="module")
def learnt():
    """A model of log(y) for scaled rows, and both."""
    x, y = table()
    scaled = StandardScaler().fit_transform(x)
    return regressor().fit(scaled, np.log(y)), scaled


NESTED = {
    "pipeline inside": lambda: transformed(make_pipeline(StandardScaler(), regressor())),
    "pipeline outside": lambda: make_pipeline(StandardScaler(), transformed(regressor())),
    "transformer": lambda: make_pipeline(
        StandardScaler(),
        TransformedTargetRegressor(regressor(), transformer=FunctionTransformer(np.log, np.exp)),
    ),
    "search outside": lambda: GridSearchCV(
        transformed(make_pipeline(StandardScaler(), regressor())),
        {"regressor__histogramregressor__sigma": [2.0]},
        cv=KFold(2),
    ),
}


@pytest.mark.parametrize("name", NESTED)
def test_quantiles_go_through_an_increasing_function(name, learnt):
    x, y = table()
    model, scaled = learnt
    found = NESTED[name]().fit(x, y)
    np.testing.assert_allclose(
        pipelines.predict_interval(found, x, 0.8), np.exp(model.predict_interval(scaled, 0.8))
    )
    np.testing.assert_allclose(
        pipelines.predict_quantiles(found, x, LEVELS),
        np.exp(model.predict_quantiles(scaled, LEVELS)),
    )


def test_a_decreasing_function_turns_ends_and_levels_around():
    x, y = table()
    model = transformed(regressor(), reciprocal, reciprocal).fit(x, y)
    inside = model.regressor_
    low, high = pipelines.predict_interval(model, x, 0.8).T
    assert (low < high).all()
    np.testing.assert_allclose(low, 10 - inside.predict_interval(x, 0.8)[:, 1])
    quantiles = pipelines.predict_quantiles(model, x, LEVELS)
    assert (np.diff(quantiles) > 0).all()
    np.testing.assert_allclose(quantiles, 10 - inside.predict_quantiles(x, [0.9, 0.5, 0.2]))


def test_two_functions_that_decrease_increase_together():
    x, y = table()
    inner = transformed(regressor(), np.negative, np.negative)
    model = transformed(inner, reciprocal, reciprocal).fit(x, y)
    low, high = pipelines.predict_interval(model, x).T
    plain = model.regressor_.regressor_.predict_interval(x)
    np.testing.assert_allclose(np.stack([low, high], axis=1), 10 + plain)


def test_intervals_cover_in_the_unit_of_the_target():
    x, y = table(400)
    model = TransformedTargetRegressor(regressor(), transformer=PowerTransformer())
    low, high = pipelines.predict_interval(model.fit(x[:300], y[:300]), x[300:], 0.8).T
    assert 0.65 < scores.coverage(y[300:], low, high) < 0.95


@pytest.mark.parametrize(
    ("inverse", "part"),
    [(np.abs, "both increases and decreases"), (lambda z: np.where(z > 0, z, np.nan), "gives NaN")],
)
def test_a_function_that_no_quantile_goes_through_is_refused(inverse, part):
    x, y = table()
    model = transformed(regressor(), np.log, inverse).fit(x, y)
    with pytest.raises(ValueError, match=part):
        pipelines.predict_quantiles(model, x)


def test_what_has_no_intervals_is_named():
    x, y = table()
    with pytest.raises(ValueError, match="LinearRegression inside has no predict_interval"):
        pipelines.predict_interval(make_pipeline(StandardScaler(), LinearRegression()).fit(x, y), x)
    with pytest.raises(ValueError, match="not fitted"):
        pipelines.predict_interval(transformed(regressor()), x)


def test_scorers_of_distributions_refuse_a_transformed_target():
    x, y = table()
    with pytest.raises(ValueError, match="TransformedTargetRegressor predicts numbers"):
        scores.neg_crps(transformed(regressor()).fit(x, y), x, y)


def test_several_targets_have_an_interval_each():
    x, y = table()
    model = MultiOutputRegressor(make_pipeline(StandardScaler(), regressor()))
    model.fit(x, np.stack([y, -y], axis=1))
    ends = np.stack([pipelines.predict_interval(each, x) for each in model.estimators_], axis=1)
    assert ends.shape == (120, 2, 2)
    assert (ends[:, 0, 0] > ends[:, 1, 0]).all()


def test_a_search_names_its_scores_as_they_are_given():
    x, y = table()
    search = GridSearchCV(
        make_pipeline(StandardScaler(), regressor()),
        {"histogramregressor__sigma": [1.0, 3.0]},
        scoring={
            "CRPS": scores.neg_crps,
            "pinball 90%": scores.neg_pinball(0.9),
            "interval 80%": scores.neg_interval_score(0.8),
            "MAE": "neg_mean_absolute_error",
        },
        refit="CRPS",
        cv=KFold(2),
    ).fit(x, y)
    found = pd.DataFrame(search.cv_results_)
    columns = ["mean_test_CRPS", "mean_test_pinball 90%", "mean_test_interval 80%", "mean_test_MAE"]
    assert (found[columns] < 0).all(axis=None)
    assert search.best_index_ == found["mean_test_CRPS"].argmax()
    assert pipelines.predict_interval(search, x).shape == (120, 2)
