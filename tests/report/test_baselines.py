"""Baselines from the rows that judge a model."""

import numpy as np

from softbins.report.baselines import constant_prediction, linear_prediction


def test_the_constant_is_the_mean():
    assert constant_prediction(np.array([1.0, 2.0, 6.0])).tolist() == [3.0, 3.0, 3.0]


def test_a_linear_target_is_predicted_from_other_rows():
    x = np.random.default_rng(0).normal(size=(200, 3))
    y = x @ [1.0, -2.0, 0.5]
    np.testing.assert_allclose(linear_prediction(x, y), y, atol=0.05)


def test_no_row_is_predicted_from_itself():
    """With as many columns as rows, noise could be learnt by heart, but not predicted."""
    random = np.random.default_rng(0)
    x, y = random.normal(size=(80, 100)), random.normal(size=80)
    assert np.square(linear_prediction(x, y) - y).mean() > 0.9 * y.var()


def test_few_rows_have_no_linear_regression():
    assert linear_prediction(np.zeros((29, 1)), np.zeros(29)) is None
    assert linear_prediction(np.zeros((30, 1)), np.arange(30.0)) is not None
