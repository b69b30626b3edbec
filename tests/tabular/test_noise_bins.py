"""Bins that are narrower where errors are smaller."""

import numpy as np
import pytest
import torch

from softbins import Bins, HistogramRegressor, load
from softbins.tabular.auto_bins import bias_of_bins, bins_for_noise
from softbins.tabular.defaults import DEFAULTS
from softbins.tabular.objectives import histogram_objective
from tests.tabular.target_tables import COUNT, ROWS, SIGMA, TARGETS, bins_for


def moved(bins, predicted, y):
    return bins_for_noise(bins, predicted, y, DEFAULTS.bins)


def quiet_below(y, ratio=20.0):
    """Forecasts that err by a 20th as much below the median as above it."""
    spread = np.where(y < np.median(y), 1 / ratio, 1.0) * (np.std(y) or 1.0) / 4
    return y + spread * np.random.default_rng(1).choice([-1.0, 1.0], len(y))


ERRING = {
    "alike": lambda y: y + 0.2 * (np.std(y) or 1.0) * np.random.default_rng(1).normal(size=len(y)),
    "quiet below": quiet_below,
    "exact above": lambda y: np.where(y < np.median(y), np.mean(y), y),
    "exact": lambda y: y,
    "of the mean": lambda y: np.full(len(y), np.mean(y)),
}


@pytest.mark.parametrize("erring", ERRING)
@pytest.mark.parametrize("name", TARGETS)
def test_bins_for_noise_keep_number_ends_and_at_most_twice_the_width(name, erring):
    y = TARGETS[name]
    before = bins_for(y)
    after = moved(before, ERRING[erring](y), y)
    assert (after.count, after.low, after.high) == (before.count, before.low, before.high)
    places = np.interp(after.edges.numpy(), before.edges.numpy(), np.arange(COUNT + 1))
    assert np.diff(places).max() <= 2 + 1e-3


@pytest.mark.parametrize("erring", ERRING)
@pytest.mark.parametrize("name", sorted(TARGETS.keys() - {"constant"}))
def test_bins_for_noise_cost_next_to_nothing(name, erring):
    y = TARGETS[name]
    bins = moved(bins_for(y), ERRING[erring](y), y)
    assert sum(bias_of_bins(histogram_objective(bins, SIGMA), y)) <= 2e-3 * y.std()


def test_golden_bins_for_noise():
    # On the left errors are 1 / 4 of those on the right: of the half of the bins that errors
    # share out, 4 / 5 go left. The density is (1 + 1.6) / 2 there, and (1 + 0.4) / 2 on the right.
    y = np.linspace(-1, 1, ROWS)
    error = np.where(y < 0, 0.05, 0.2) * np.resize([-1, 1], ROWS)
    before = Bins.uniform(-1, 1, COUNT)
    after = moved(before, y, y + error)
    ratio = before.step / after.widths
    left, right = after.centers < -0.1, after.centers > 0.1
    assert ratio[left].tolist() == pytest.approx([1.3] * int(left.sum()), rel=0.03)
    assert ratio[right].tolist() == pytest.approx([0.7] * int(right.sum()), rel=0.03)


@pytest.mark.parametrize("name", sorted(TARGETS.keys() - {"constant", "around 1e9"}))
@pytest.mark.parametrize("scale", [1e-6, 1.0, -1.0, 1e6])
def test_bins_for_noise_go_with_the_unit_and_the_sign(name, scale):
    y = TARGETS[name]
    predicted = quiet_below(y)
    before = bins_for(y)
    here = moved(before, predicted, y)
    edges = scale * before.edges
    scaled = Bins(edges if scale > 0 else edges.flip(0))
    there = moved(scaled, scale * predicted, scale * y).edges
    expected = scale * here.edges if scale > 0 else scale * here.edges.flip(0)
    # Forecasts that are tied are in another group when mirrored.
    tolerance = 1e-9 if scale > 0 else 0.02
    torch.testing.assert_close(
        there, expected, rtol=0, atol=tolerance * (here.high - here.low) * abs(scale)
    )


@pytest.mark.parametrize(
    ("rows", "erring"), [(99, "quiet below"), (ROWS, "alike"), (ROWS, "exact")]
)
def test_bins_stay_if_errors_are_few_or_alike(rows, erring):
    y = TARGETS["uniform"][:rows]
    bins = bins_for(y)
    assert moved(bins, ERRING[erring](y), y) is bins
    assert moved(bins, quiet_below(TARGETS["uniform"]), TARGETS["uniform"]) is not bins


def test_bins_stay_if_narrower_ones_are_no_numbers():
    # Near 1e15 numbers are 0.125 apart, and bins here 0.5 wide; near 1e9 there is room.
    for offset, stay in ((1e15, True), (1e9, False)):
        y = offset + TARGETS["uniform"]
        bins = bins_for(y)
        predicted = np.where(y < np.median(y), y, y + 5 * np.resize([-1, 1], ROWS))
        assert (moved(bins, predicted, y) is bins) == stay


# In a regressor

QUICK = {"hidden": (32,), "members": 2, "max_epochs": 12, "random_state": 0}


def louder_above(rows):
    """Targets from 0 to 10 with little noise up to 5, and 20 times as much beyond."""
    generator = np.random.default_rng(0)
    x = generator.uniform(0, 10, (rows, 2))
    return x, x[:, 0] + np.where(x[:, 0] < 5, 0.05, 1.0) * generator.normal(size=rows)


@pytest.fixture(scope="module")
def fitted():
    return HistogramRegressor(**QUICK).fit(*louder_above(2000))


def test_a_regressor_takes_narrower_bins_where_errors_are_small(fitted, tmp_path):
    x, y = louder_above(2000)
    widths, centers = fitted.bins_.widths, fitted.bins_.centers
    assert widths[(centers > 0) & (centers < 3)].max() < 0.5 * widths[centers > 8].min()
    equal = HistogramRegressor(**QUICK, bins=128).fit(x, y)
    assert equal.bins_.step is not None
    # Means come from the other histogram.
    np.testing.assert_allclose(fitted.predict(x), equal.predict(x), rtol=0, atol=0.02)
    fitted.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.bins_ == fitted.bins_
    np.testing.assert_array_equal(again.predict_interval(x[:50]), fitted.predict_interval(x[:50]))


def test_without_trees_nothing_is_known_of_errors():
    model = HistogramRegressor(**QUICK | {"max_epochs": 1}, trees=False).fit(*louder_above(2000))
    assert model.bins_.step is not None


def test_tune_keeps_such_bins():
    model = HistogramRegressor(**QUICK | {"max_epochs": 2}).tune(*louder_above(2000))
    assert model.bins == "auto"
    assert model.bins_.step is None
