"""Features of every magnitude: predictions are finite, or `fit` says which column is too large."""

import numpy as np
import pandas as pd
import pytest

import softbins
from softbins import HistogramRegressor, NeuralRegressor
from tests.tabular.quick import with_few_rounds

ROWS, COLUMNS = 40, 3
SEEDS = range(12)
SMALLEST_EXPONENT, LARGEST_EXPONENT = -323, 38.4


def histogram(scaling, **more):
    how = {"members": 2, "bins": 20, "max_epochs": 2, "random_state": 0}
    model = HistogramRegressor((8,), scaling=scaling, **(how | more))
    model._defaults = with_few_rounds(3)
    return model


ESTIMATORS = {
    "standard": lambda: histogram("standard"),
    "robust": lambda: histogram("robust"),
    "as in paper": lambda: histogram("standard", early_stopping=False, embeddings=False),
    "l2": lambda: NeuralRegressor("l2", (8,), max_epochs=2, random_state=0),
    "mdn": lambda: NeuralRegressor("mdn", (8,), max_epochs=2, random_state=0),
    "stopped": lambda: NeuralRegressor(
        "l1", (8,), members=2, early_stopping=True, max_epochs=2, random_state=0
    ),
}


def magnitude(generator):
    return 10 ** generator.uniform(SMALLEST_EXPONENT, LARGEST_EXPONENT)


def column(generator):
    """Numbers of one magnitude or two, around an offset, in a few of many ways."""
    values = generator.normal(size=ROWS) * magnitude(generator)
    if generator.random() < 0.4:
        values += magnitude(generator)
    if generator.random() < 0.4:
        few = generator.choice(ROWS, generator.integers(1, 4), replace=False)
        values[few] = generator.normal(size=len(few)) * magnitude(generator)
    if generator.random() < 0.2:
        values = np.where(generator.random(ROWS) < 0.5, values, values[0])
    return values


def table(generator):
    names = [f"c{i}" for i in range(COLUMNS)]
    return pd.DataFrame({name: column(generator) for name in names})


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_predictions_are_finite_or_the_column_is_named(name, seed, tmp_path):
    generator = np.random.default_rng(seed)
    x, y = table(generator), generator.normal(size=ROWS)
    weight = 10 ** generator.uniform(-20, 0, ROWS) if generator.random() < 0.3 else None
    model = ESTIMATORS[name]()
    too_large = [title for title in x if np.abs(x[title]).max() > 1e38]
    if too_large:
        with pytest.raises(ValueError, match=f"^X: column '{too_large[0]}', row "):
            model.fit(x, y, weight)
        return
    model.fit(x, y, weight)
    model.save(tmp_path / "model")
    new = table(generator).clip(-1e38, 1e38)
    for rows in (x, new):
        predicted = model.predict(rows)
        assert np.isfinite(predicted).all()
        if model.objective_.has_distribution:
            assert np.isfinite(model.predict_quantiles(rows, [0.1, 0.9])).all()
        np.testing.assert_array_equal(softbins.load(tmp_path / "model").predict(rows), predicted)


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
@pytest.mark.parametrize("exponent", [-1000, -140, -60, 100])
def test_a_power_of_two_as_unit_of_features_changes_no_prediction(name, exponent):
    """Networks see the same bits; trees and quartiles compare, and means are exact."""
    generator = np.random.default_rng(0)
    x, y = generator.integers(-8, 9, (ROWS, 2)).astype(float), generator.normal(size=ROWS)
    expected = ESTIMATORS[name]().fit(x, y).predict(x)
    scaled = np.ldexp(x, exponent)
    np.testing.assert_array_equal(ESTIMATORS[name]().fit(scaled, y).predict(scaled), expected)
