import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.ensemble import HistGradientBoostingRegressor

from softbins.tabular import tree_bins
from softbins.tabular.binned_boosting import BinnedBoosting
from softbins.tabular.forest import Forest
from softbins.tabular.tree_bins import MAX_BINS, TreeBins

NUMBERS = st.floats(-1e30, 1e30, allow_subnormal=False)


@given(arrays(np.float64, st.tuples(st.integers(1, 40), st.integers(1, 3)), elements=NUMBERS))
def test_a_value_is_in_the_first_bin_that_ends_at_or_above_it(x):
    bins = TreeBins.fit(x)
    for column, codes, ends in zip(x.T, bins.codes(x), bins.thresholds, strict=True):
        upper, lower = np.append(ends, np.inf), np.append(-np.inf, ends)
        assert (lower[codes] < column).all()
        assert (column <= upper[codes]).all()


def test_few_values_have_a_bin_each_and_many_share_them():
    few, many = np.arange(200.0) % 7, np.random.default_rng(0).normal(size=5000)
    assert len(TreeBins.fit(few[:, None]).thresholds[0]) == 6
    bins = TreeBins.fit(many[:, None])
    counts = np.bincount(bins.codes(many[:, None])[0], minlength=MAX_BINS)
    assert counts.min() >= 19
    assert counts.max() <= 20


def test_bins_of_many_rows_come_from_some_of_them(monkeypatch):
    monkeypatch.setattr(tree_bins, "SAMPLED_ROWS", 10)
    x = np.arange(101.0)[:, None]
    np.testing.assert_array_equal(TreeBins.fit(x).thresholds[0], x[:-11:11, 0] + 5.5)


@pytest.mark.parametrize("values", ["few", "many"])
@pytest.mark.parametrize("max_features", [1.0, 0.5])
def test_trees_on_bins_are_those_of_scikit_learn_on_features(values, max_features):
    """If this fails after an update, look at `_preprocess_X` and `_bin_data` of scikit-learn."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(1000, 3))
    x = np.round(4 * x) if values == "few" else x
    y = x[:, 0] + np.abs(x[:, 1]) + 0.1 * generator.normal(size=1000)
    weight = generator.uniform(0.5, 2, 1000) if values == "few" else None
    how = {"max_iter": 5, "max_features": max_features, "random_state": 0, "early_stopping": False}
    expected = HistGradientBoostingRegressor(**how).fit(x, y, weight)
    ours = BinnedBoosting(**how)
    ours.bins = TreeBins.fit(x)
    codes = ours.bins.codes(x)
    ours.fit(codes.T, y, weight)
    stages = np.array(list(expected.staged_predict(x)))
    np.testing.assert_allclose(ours.staged_codes(codes.T), stages, rtol=1e-12)
    np.testing.assert_allclose(Forest.of([ours], 5).predict(x), stages[-1], rtol=1e-12)
