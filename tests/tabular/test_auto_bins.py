import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from softbins import Bins
from softbins.bins import Bias
from softbins.tabular.auto_bins import bias_of_bins, warn_of_bias
from softbins.tabular.defaults import DEFAULTS
from softbins.tabular.objectives import histogram_objective
from tests.tabular.target_tables import (
    COUNT,
    EQUAL,
    SIGMA,
    STRETCHED,
    TARGETS,
    bins_for,
    objective_for,
    tensor,
)

MARGIN = DEFAULTS.bins.margin


# Where bins are


@pytest.mark.parametrize("name", TARGETS)
def test_bins_are_stretched_if_tails_are_heavy(name):
    bins = bins_for(TARGETS[name])
    assert (bins.step is None) == (name in STRETCHED)
    assert bins.count == COUNT


@pytest.mark.parametrize("name", TARGETS)
def test_all_targets_are_inside_with_room(name):
    y = TARGETS[name]
    bins = bins_for(y)
    first, last = bins.index(tensor([y.min(), y.max()])).tolist()
    # The outermost targets are as many bins from the ends, up to the rounding of an edge.
    room = int(MARGIN * SIGMA)
    assert first >= room - 1
    assert last <= COUNT - room
    if y.min() < y.max():
        assert first <= room
        assert last >= COUNT - room - 1


@pytest.mark.parametrize("name", STRETCHED)
def test_stretched_edges_are_even_in_asinh(name):
    y = TARGETS[name]
    first, median, third = np.quantile(y, (0.25, 0.5, 0.75))
    tenth, ninetieth = np.quantile(y, (0.1, 0.9))
    spread = third - first if third > first else (ninetieth - tenth) / 3
    edges = bins_for(y).edges.numpy()
    steps = np.diff(np.arcsinh((edges - median) / spread))
    np.testing.assert_allclose(steps, steps.mean(), rtol=1e-6)


@given(
    st.sampled_from(sorted(TARGETS.keys() - {"constant", "around 1e9"})),
    st.floats(-6, 6).map(lambda power: 10**power),
    st.floats(-10, 10),
)
def test_another_unit_gives_the_same_bins_in_that_unit(name, scale, shift):
    y = TARGETS[name]
    offset = shift * scale * float(np.std(y))
    here, there = (bins_for(v).edges.numpy() for v in (y, scale * y + offset))
    tolerance = 1e-9 * scale * np.ptp(here)
    np.testing.assert_allclose(there, scale * here + offset, rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", TARGETS)
def test_the_other_sign_gives_mirrored_bins(name):
    here = bins_for(TARGETS[name]).edges.numpy()
    there = bins_for(-TARGETS[name]).edges.numpy()
    np.testing.assert_allclose(there, -here[::-1], rtol=1e-9, atol=1e-9 * np.ptp(here))


WRONG = {
    "one bin": (1, 0.1, "bins"),
    "no bins": (0, 0.1, "bins"),
    "no room": (12, 2.0, "bins"),
    "half a bin": (20.5, 2.0, "bins"),
    "text": ("many", 2.0, "bins"),
    "sigma 0": (100, 0.0, "sigma"),
    "sigma negative": (100, -1.0, "sigma"),
    "sigma nan": (100, math.nan, "sigma"),
    "sigma infinite": (100, math.inf, "sigma"),
    "sigma wide": (100, 20.0, "bins"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_bins_are_named(case):
    count, sigma, name = WRONG[case]
    with pytest.raises(ValueError, match=f"^{name}: .*got"):
        bins_for(TARGETS["normal"], count, sigma)


# Bias


def truncated_mean(y, sigma, low, high):
    """By numerical integration of a Gaussian that is cut off at both ends."""

    def density(t):
        return math.exp(-(((t - y) / sigma) ** 2) / 2)

    around = [p for p in (y - 4 * sigma, y, y + 4 * sigma) if low < p < high]
    mass, _ = quad(density, low, high, points=around, epsabs=0, epsrel=1e-11, limit=500)
    moment, _ = quad(lambda t: t * density(t), low, high, points=around, epsrel=1e-11, limit=500)
    return moment / mass


def histogram_mean(y, sigma, bins):
    """By the masses of a Gaussian between the edges."""
    cdf = [math.erf((edge - y) / (sigma * math.sqrt(2))) for edge in bins.edges.tolist()]
    masses = np.diff(cdf)
    return float(masses @ bins.centers.numpy() / masses.sum())


@pytest.mark.parametrize("ratio", [0.2, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("count", [4, 10, 33])
def test_bias_is_what_brute_force_finds(count, ratio):
    bins = Bins.uniform(-1.0, 2.0, count)
    sigma = ratio * bins.step
    y = np.random.default_rng(1).uniform(-0.95, 1.95, 25)
    cut = np.array([truncated_mean(v, sigma, -1.0, 2.0) - v for v in y])
    total = np.array([histogram_mean(v, sigma, bins) - v for v in y])
    found = bias_of_bins(histogram_objective(bins, ratio), y)
    assert found.truncation == pytest.approx(np.abs(cut).max(), rel=1e-6)
    assert found.discretisation == pytest.approx(np.abs(total - cut).max(), rel=1e-5, abs=1e-12)


def test_golden_bias():
    # In the middle of two bins nothing is cut off or moved; at a quarter of the first bin, with a
    # Gaussian so narrow that all of it is in that bin, the mean is the bin's centre.
    bins = Bins.uniform(0.0, 2.0, 2)
    assert bias_of_bins(histogram_objective(bins, 0.01), np.array([1.0])) == pytest.approx(
        (0, 0), abs=1e-12
    )
    assert bias_of_bins(histogram_objective(bins, 0.01), np.array([0.25])) == pytest.approx(
        (0.25, 0)
    )
    # At an end half of a Gaussian is left, whose mean is sigma sqrt(2 / pi) away.
    found = bias_of_bins(histogram_objective(Bins.uniform(0.0, 1.0, 1000), 10.0), np.array([0.0]))
    assert found.truncation == pytest.approx(0.01 * math.sqrt(2 / math.pi))
    assert found.discretisation < 1e-5


@pytest.mark.parametrize("name", TARGETS)
def test_automatic_bins_cost_next_to_nothing(name):
    y = TARGETS[name]
    found = bias_of_bins(objective_for(name), y)
    assert sum(found) <= 1e-3 * y.std() or name == "constant"
    if name in EQUAL and name != "constant":
        # MARGIN sigmas from the end: a truncated Gaussian's mean is off by sigma phi / Phi.
        sigma = SIGMA * bins_for(y).step
        phi = math.exp(-(MARGIN**2) / 2) / math.sqrt(2 * math.pi)
        below = (1 + math.erf(MARGIN / math.sqrt(2))) / 2
        assert found.truncation == pytest.approx(sigma * phi / below, rel=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_bias(found, y)


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 7.0, 1e30])
@pytest.mark.parametrize("name", ["normal", "lognormal"])
def test_bias_is_in_the_targets_unit(name, scale):
    y = TARGETS[name][:300]
    here, there = (
        bias_of_bins(histogram_objective(bins_for(v, 20, 1.0), 1.0), v) for v in (y, scale * y)
    )
    assert there.discretisation == pytest.approx(scale * here.discretisation, rel=1e-6)
    assert there.truncation == pytest.approx(scale * here.truncation, rel=1e-6)


def test_coarse_bins_are_warned_of():
    y = TARGETS["normal"]
    objective = histogram_objective(Bins.uniform(y.min(), y.max(), 4), 0.3)
    with pytest.warns(UserWarning, match="^bins: predictions may be off by .* more than 1%"):
        warn_of_bias(bias_of_bins(objective, y), y)


@pytest.mark.parametrize(
    ("cost", "warned"),
    [
        (Bias(0.0, 0.0), False),
        (Bias(0.0099, 0.0), False),
        (Bias(0.0101, 0.0), True),
        (Bias(0.0, 0.0101), True),
        (Bias(0.006, 0.006), True),
    ],
)
def test_a_hundredth_of_the_spread_is_worth_saying(cost, warned):
    y = np.array([-1.0, 1.0])  # their standard deviation is 1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_bias(cost, y)
    assert bool(caught) == warned


@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, 1e9 + 0.1, math.pi * 1e-30])
@pytest.mark.parametrize("rows", [1, 7, 80])
def test_a_constant_target_is_no_reason_to_warn(value, rows):
    # Its standard deviation may be 1e-17 of itself, as its bias.
    y = np.full(rows, value)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_bias(bias_of_bins(histogram_objective(bins_for(y), SIGMA), y), y)
    assert not caught
