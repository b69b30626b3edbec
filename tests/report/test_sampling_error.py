"""Intervals for what chance alone may do."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from softbins.report.sampling_error import Range, mean_range, share_range


@given(st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_of_a_share_is_wilson_s(counts):
    inside, count = counts
    expected = binomtest(inside, count).proportion_ci(0.95, "wilson")
    assert share_range(inside, count) == pytest.approx(expected, abs=1e-4)


def test_the_interval_of_a_mean_holds_it_nineteen_times_in_twenty():
    random = np.random.default_rng(0)
    found = [mean_range(random.normal(3.0, 2.0, 50)) for _ in range(1000)]
    assert 0.92 < np.mean([each.holds(3.0) for each in found]) < 0.97


def test_other_values_add_their_own_chance():
    values = np.arange(10.0)
    alone, beside = mean_range(values), mean_range(values, other_count=10)
    assert (beside.high - beside.low) / (alone.high - alone.low) == pytest.approx(math.sqrt(2))


def test_a_range_holds_its_ends():
    assert Range(1.0, 2.0).holds(1.0)
    assert Range(1.0, 2.0).holds(2.0)
    assert not Range(1.0, 2.0).holds(2.1)
