"""Shares of learners: not negative, adding up to 1, with the least error, whatever outliers do."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from softbins.tabular.blend import learn_shares, least_error_shares, robust_weights
from softbins.tabular.defaults import DEFAULTS, BlendDefaults

PLAIN = BlendDefaults(min_gain=0.0, flattering_rows=0.0, max_error=np.inf)
errors = st.tuples(st.integers(2, 30), st.integers(1, 4)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.floats(-100, 100, width=32))
)


@given(errors, st.floats(1, 1000))
def test_shares_are_those_of_a_mixture(errors, rows_per_fold):
    shares = learn_shares(errors, None, rows_per_fold, DEFAULTS.blend)
    assert shares.shape == (errors.shape[1],)
    assert (shares >= 0).all()
    assert shares.sum() == pytest.approx(1)


@given(errors, st.integers(0, 2**32 - 1))
def test_no_other_mixture_errs_less(errors, seed):
    found = np.square(errors @ learn_shares(errors, None, 1.0, PLAIN)).mean()
    others = np.random.default_rng(seed).dirichlet(np.ones(errors.shape[1]), size=50)
    others = np.concatenate([others, np.eye(errors.shape[1])])
    assert found <= np.square(errors @ others.T).mean(0).min() * (1 + 1e-6) + 1e-6


@given(errors)
def test_a_weight_of_two_is_two_rows(errors):
    weight = 1.0 + (np.arange(len(errors)) % 2)
    twice = np.repeat(errors, weight.astype(int), axis=0)
    found, expected = (
        np.square(twice @ learn_shares(part, weights, 1.0, PLAIN)).mean()
        for part, weights in ((errors, weight), (twice, None))
    )
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-6)


def independent(*deviations, rows=4000):
    return np.random.default_rng(0).normal(size=(rows, len(deviations))) * deviations


def test_independent_errors_count_by_their_precision():
    shares = learn_shares(independent(1.0, 2.0, 4.0), None, np.inf, PLAIN)
    expected = np.array([1, 1 / 4, 1 / 16]) / (1 + 1 / 4 + 1 / 16)
    assert shares == pytest.approx(expected, abs=0.03)


def test_networks_count_less_where_few_rows_have_stopped_them():
    errors = independent(1.0, 1.0)
    many, few = (learn_shares(errors, None, rows, DEFAULTS.blend)[0] for rows in (1e6, 10.0))
    # A squared error that counts 1 + 7/10 times has the share 1 / (1 + 1.7).
    assert many == pytest.approx(1 / 2, abs=0.03)
    assert few == pytest.approx(1 / 2.7, abs=0.03)


def test_a_partner_that_hardly_helps_gets_nothing():
    # At right angles to each other, so that the best share saves 1/401 of the squared error.
    errors = np.array([[1.0, 20.0], [1.0, -20.0]] * 10)
    assert learn_shares(errors, None, np.inf, DEFAULTS.blend).tolist() == [1.0, 0.0]
    assert learn_shares(errors, None, np.inf, PLAIN)[1] > 0


def test_equal_learners_need_no_partner():
    errors = np.repeat(independent(1.0), 3, axis=1)
    assert learn_shares(errors, None, np.inf, DEFAULTS.blend).tolist() == [1.0, 0.0, 0.0]
    assert least_error_shares(np.zeros((2, 2)), 0.0).tolist() == [1.0, 0.0]


def test_a_few_rows_that_nobody_can_predict_do_not_decide():
    errors = independent(1.0, 3.0)
    errors[:10] = [[1000.0, 900.0]]
    plain, robust = (learn_shares(errors, None, np.inf, how) for how in (PLAIN, DEFAULTS.blend))
    assert plain[1] == pytest.approx(1.0)
    assert robust[0] > 0.5


def test_many_large_errors_do_decide():
    # One row in twenty, none of which has more than a hundredth of all squared errors.
    errors = independent(1.0, 3.0)
    errors[::20] = [[1000.0, 900.0]]
    assert learn_shares(errors, None, np.inf, DEFAULTS.blend)[1] == pytest.approx(1.0)


@given(errors)
def test_ordinary_rows_count_as_they_are(errors):
    weights = robust_weights(errors, DEFAULTS.blend)
    assert ((weights > 0) & (weights <= 1)).all()
    size = np.sqrt(np.square(errors).mean(1))
    assert (weights[size <= 4.99 * np.median(size)] == 1).all()


@given(errors, st.floats(0.01, 1.0))
def test_no_row_counts_more_than_its_share_where_a_limit_can_help(errors, share):
    limits = replace(DEFAULTS.blend, max_row_share=share, max_error=1e-6)
    size = np.sqrt(np.square(errors).mean(1))
    counted = robust_weights(errors, limits) * np.square(size)
    # The lowest limit, at the smallest error, counts all rows by their absolute errors.
    if size.min() > 1e-3 * size.max() and size.max() < 0.999 * share * size.sum():
        assert counted.max() <= share * counted.sum() * (1 + 1e-9)
    if size.max() ** 2 < 0.999 * share * np.square(size).sum():
        assert counted == pytest.approx(np.square(size))
