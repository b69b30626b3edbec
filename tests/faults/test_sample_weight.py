"""Weights count relative to each other: their unit is nothing, and no size of them makes NaN."""

import numpy as np
import pytest

from softbins import HistogramRegressor, NeuralRegressor, scores
from tests.tabular.quick import with_few_rounds

SEEDS = range(4)
LARGEST_EXPONENT = 300  # of ten, in a factor to all weights
ROWS = 60


def histogram(trees):
    model = HistogramRegressor((8,), members=2, bins=20, max_epochs=3, random_state=0, trees=trees)
    model._defaults = with_few_rounds(5)
    return model


ESTIMATORS = {
    "histogram": lambda: histogram(trees=False),
    "trees": lambda: histogram(trees=True),
    "l2": lambda: NeuralRegressor("l2", (8,), max_epochs=3, random_state=0),
    "mdn": lambda: NeuralRegressor("mdn", (8,), max_epochs=3, random_state=0),
    "stopped": lambda: NeuralRegressor(
        "hl-gaussian", (8,), early_stopping=True, max_epochs=3, random_state=0
    ),
}


def table(generator):
    x = generator.normal(size=(ROWS, 2))
    return x, np.where(x[:, 0] > 0, 3.0, 0.0) + 0.1 * generator.normal(size=ROWS)


def spread_weights(generator, orders):
    """Weights that differ by up to so many orders of magnitude, some of them 0."""
    weight = 10 ** generator.uniform(-orders / 2, orders / 2, ROWS)
    return np.where(generator.random(ROWS) < 0.1, 0.0, weight)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_factor_to_all_weights_changes_nothing(name, seed):
    generator = np.random.default_rng(seed)
    x, y = table(generator)
    weight = spread_weights(generator, orders=generator.choice([0.5, 6]))
    expected = ESTIMATORS[name]().fit(x, y, weight).predict(x)
    for factor in 10 ** generator.uniform(-LARGEST_EXPONENT, LARGEST_EXPONENT, 2):
        found = ESTIMATORS[name]().fit(x, y, weight * factor).predict(x)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_weights_below_the_smallest_normal_number_count_as_well(name):
    generator = np.random.default_rng(0)
    x, y = table(generator)
    weight = generator.integers(0, 4, ROWS).astype(float)
    expected = ESTIMATORS[name]().fit(x, y, weight).predict(x)
    found = ESTIMATORS[name]().fit(x, y, weight * 5e-324).predict(x)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("factor", [1e-300, 1e300])
def test_tuning_does_not_know_the_unit_of_weights(factor):
    generator = np.random.default_rng(0)
    x, y = table(generator)
    weight = spread_weights(generator, orders=1)
    expected, found = histogram(trees=False), histogram(trees=False)
    expected.tune(x, y, weight)
    found.tune(x, y, weight * factor)
    for name in ("blur", "weight_decay", "bins", "sigma"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-6)
    np.testing.assert_allclose(found.predict(x), expected.predict(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_weights_of_all_magnitudes_together_give_finite_predictions(name, seed):
    generator = np.random.default_rng(seed)
    x, y = table(generator)
    weight = spread_weights(generator, orders=generator.choice([20, 80, 600]))
    model = ESTIMATORS[name]().fit(x, y, weight)
    assert np.isfinite(model.predict(x)).all()
    assert all(np.isfinite(value) for row in model.history_ for value in row.values())
    if name != "l2":
        assert np.isfinite(model.predict_quantiles(x, [0.1, 0.9])).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_scores_do_not_know_the_unit_of_weights(seed):
    generator = np.random.default_rng(seed)
    y, low = generator.normal(size=(2, ROWS))
    weight = spread_weights(generator, orders=3)
    expected = scores.interval_score(y, low, low + 1, 0.9, weight)
    for factor in (*10 ** generator.uniform(-LARGEST_EXPONENT, LARGEST_EXPONENT, 20), 1e306):
        found = scores.interval_score(y, low, low + 1, 0.9, weight * factor)
        assert found == pytest.approx(expected, rel=1e-12)


def test_equal_weights_are_no_weights():
    x, y = table(np.random.default_rng(0))
    for name, make in ESTIMATORS.items():
        without = make().fit(x, y).predict(x)
        equal = make().fit(x, y, np.full(ROWS, 0.1)).predict(x)
        np.testing.assert_allclose(equal, without, rtol=1e-5, atol=1e-5, err_msg=name)
