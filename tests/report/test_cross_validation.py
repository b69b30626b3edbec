"""Cross-validation: every row is predicted once, by a network that has not seen it."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold, cross_val_score

from softbins.report.cross_validation import cross_validate


def data(rows, noise=0.5):
    random = np.random.default_rng(0)
    x = random.normal(size=(rows, 2))
    return x, 2 * x[:, 0] - x[:, 1] + noise * random.normal(size=rows)


def test_linear_regression_is_that_of_scikit_learn():
    x, y = data(50)
    found = cross_validate(x, y, "linear", folds=3, seed=7)
    folds = KFold(3, shuffle=True, random_state=7)
    for name, score in [("mae", "absolute_error"), ("rmse", "squared_error")]:
        scoring = f"neg_{'root_' if name == 'rmse' else ''}mean_{score}"
        expected = -cross_val_score(LinearRegression(), x, y, cv=folds, scoring=scoring)
        np.testing.assert_allclose([fold[name] for fold in found], expected)
    assert [fold["fold"] for fold in found] == [0, 1, 2]


def test_networks_learn_and_are_judged_by_rows_they_have_not_seen():
    """Noise without a signal can be learnt by heart, but not predicted."""
    x, y = data(300, noise=0.0)
    learnt = cross_validate(x, y, "l2", folds=3, epochs=300)
    noise = np.random.default_rng(1).normal(size=len(y))
    unknown = cross_validate(x, noise, "l2", folds=3, epochs=300)
    assert max(fold["rmse"] for fold in learnt) < 0.3 * y.std()
    assert min(fold["rmse"] for fold in unknown) > 0.9 * noise.std()


def test_folds_with_different_numbers_of_batches_are_trained_in_stacks_of_their_own():
    # Two folds train on 256 rows, one batch, and the third on 257, which are two.
    x, y = data(256 * 3 // 2 + 1)
    calls = []
    found = cross_validate(x, y, "l2", folds=3, epochs=2, progress=lambda *call: calls.append(call))
    assert [fold["fold"] for fold in found] == [0, 1, 2]
    assert [call[0] for call in calls] == [1, 2, 1, 2]


def test_the_same_seed_gives_the_same_errors():
    x, y = data(40)
    first, again, other = (
        cross_validate(x, y, "hl-gaussian", folds=2, epochs=2, seed=seed) for seed in (1, 1, 2)
    )
    assert first == again != other


def test_an_unknown_method_is_named():
    with pytest.raises(ValueError, match="method: expected linear or one of l2, .* got 'l7'"):
        cross_validate(*data(10), "l7")
