"""The map and the move to the mean, found together."""

import numpy as np
import pytest
import torch
from scipy.stats import norm

from softbins import Bins, Histogram, scores
from softbins._core.calibrator import LogOddsMap
from softbins.tabular.calibrate import (
    Calibration,
    HeldOut,
    calibrated,
    fit_calibration,
    independent_rows,
    on_lattice,
    times_error,
    update_calibration,
)
from softbins.tabular.defaults import DEFAULTS

BINS = Bins.uniform(-12.0, 12.0, 96)
IDENTITY = Calibration(LogOddsMap((-1.0, 1.0), (-1.0, 1.0)))
DEFAULT = DEFAULTS.calibration


def gaussians(mean, deviation=1.0, bins=BINS):
    return Histogram(bins, logits=-((bins.centers - mean.unsqueeze(-1)) ** 2) / (2 * deviation**2))


def simulated(rows, seed=0):
    generator = torch.Generator().manual_seed(seed)
    mean = 2 * torch.randn(rows, generator=generator, dtype=torch.float64).clamp(-2, 2)
    return mean, mean + torch.randn(rows, generator=generator, dtype=torch.float64)


def distance_from_uniform(values):
    return np.abs(np.sort(values) - np.arange(1, len(values) + 1) / len(values)).max()


@pytest.mark.parametrize(
    ("deviation", "away"), [(0.3, 0.0), (0.3, 1.5), (1.0, 0.0), (1.0, 1.5), (3.0, 0.0), (3.0, 1.5)]
)
def test_quantiles_hold_after_the_move_to_another_mean(deviation, away):
    """Histograms stand elsewhere and have another width, and are moved to the right mean."""
    mean, y = simulated(2000)
    raw = gaussians(mean + away, deviation)
    rows = [HeldOut.of(raw, mean, y, False)]
    found = fit_calibration(rows, np.ones(2000), 2000, 1.0, DEFAULT)
    mean, y = simulated(2000, seed=1)
    predicted = calibrated(gaussians(mean + away, deviation), mean, found)
    assert distance_from_uniform(scores.pit(predicted, y)) < 0.06
    torch.testing.assert_close(predicted.mean, mean, rtol=0, atol=1e-6)


def test_errors_that_count_more_make_distributions_wider():
    mean, y = simulated(3000)
    widths = []
    for error in (1.0, 1.3):
        rows = HeldOut.of(gaussians(mean), mean, y, False)
        found = fit_calibration([rows], np.ones(3000), 3000, error, DEFAULT)
        widths.append(calibrated(gaussians(mean), mean, found).stddev.mean().item())
    assert widths[1] == pytest.approx(1.3 * widths[0], rel=0.03)


def test_a_map_that_is_updated_again_and_again_stays_as_it_should_be():
    """Forecasts that are right, and 100 updates by 24 rows: nothing becomes wider by and by."""
    found, rows, held = Calibration(LogOddsMap((-6.0, 6.0), (-6.0, 6.0))), 400.0, []
    for day in range(100):
        mean, y = simulated(24, seed=day)
        low, high = calibrated(gaussians(mean), mean, found).interval(0.9)
        held.append(((low <= y) & (y <= high)).double().mean().item())
        recent = [HeldOut.of(gaussians(mean), mean, y, False)]
        found = update_calibration(recent, np.ones(24), found, rows)
    assert np.mean(held) == pytest.approx(0.9, abs=0.02)


def test_without_a_map_there_is_only_the_move():
    mean, _ = simulated(20)
    raw = gaussians(mean + 1)
    for calibration in (None, IDENTITY):
        moved = calibrated(raw, mean, calibration)
        torch.testing.assert_close(moved.probs, raw.with_mean(mean).probs, rtol=1e-6, atol=1e-12)


def test_parts_together_give_what_all_at_once_give():
    mean, y = simulated(100)
    pieces = [slice(0, 1), slice(1, 60), slice(60, 100)]
    parts = [HeldOut.of(gaussians(mean[p]), mean[p], y[p], False) for p in pieces]
    whole = [HeldOut.of(gaussians(mean), mean, y, False)]
    one, other = (fit_calibration(rows, np.ones(100), 100, 1.0, DEFAULT) for rows in (parts, whole))
    assert one.map.before == pytest.approx(other.map.before)
    assert one.max_tilt == other.max_tilt


def test_errors_count_more_or_less_as_those_of_a_normal_distribution():
    distance = np.linspace(-6, 6, 25)
    log_odds = norm.logcdf(distance) - norm.logsf(distance)
    for error in (0.5, 1.0, 1.4):
        wanted = norm.logcdf(error * distance) - norm.logsf(error * distance)
        np.testing.assert_allclose(times_error(log_odds, error), wanted, rtol=1e-9, atol=1e-9)


def test_far_log_odds_stay_finite():
    found = times_error(np.array([-700.0, -40.0, 0.0, 40.0, 700.0]), 1.5)
    assert np.isfinite(found).all()
    assert found.tolist() == sorted(found)
    assert found[2] == 0


# Rows that say as much as others


def test_rows_of_groups_that_err_alike_count_as_one():
    groups = np.repeat(np.arange(50), 8)
    own, shared = np.random.default_rng(0).normal(size=(2, 400))
    weight = np.ones(400)
    assert independent_rows(own, weight, None) == 400
    assert independent_rows(own, weight, groups) == pytest.approx(400, rel=0.25)
    assert independent_rows(shared[groups], weight, groups) == pytest.approx(50)
    mixed = independent_rows(shared[groups] + own, weight, groups)
    assert mixed == pytest.approx(400 / (1 + 7 * 0.5), rel=0.25)


@pytest.mark.parametrize("groups", [np.zeros(6), np.arange(6)])
def test_one_group_counts_as_one_row_and_groups_of_one_as_their_rows(groups):
    expected = len(np.unique(groups))
    assert independent_rows(np.arange(6.0), np.ones(6), groups) == expected
    assert independent_rows(np.zeros(6), np.ones(6), groups) == expected


def test_unequal_weights_count_as_fewer_rows():
    assert independent_rows(np.arange(4.0), np.array([1.0, 1.0, 0.0, 0.0]), None) == 2


def test_a_value_of_a_lattice_is_its_cell():
    cells = Bins.uniform(-0.5, 5.5, 6)
    y = torch.tensor([0.0, 3.0], dtype=torch.float64)
    rows = HeldOut.of(Histogram(cells, logits=torch.zeros(2, 6).double()), y, y, True)
    assert (rows.low.tolist(), rows.high.tolist()) == ([-0.5, 2.5], [0.5, 3.5])


@pytest.mark.parametrize(("first", "step"), [(0.0, 1.0), (-3.0, 0.5), (1e9, 1.0), (0.1, 0.1)])
def test_a_lattice_has_all_probability_at_its_values(first, step):
    cells = Bins(first + step * (np.arange(8) - 0.5))
    probs = torch.rand(3, 7, dtype=torch.float64)
    there = on_lattice(Histogram(cells, probs=probs))
    values = first + step * np.arange(7)
    found = there.bins.centers[there.bins.atoms].numpy()
    np.testing.assert_allclose(found, values, rtol=1e-9, atol=1e-9)
    if step == 1:
        assert found.tolist() == values.tolist()
    torch.testing.assert_close(
        there.probs[:, there.bins.atoms], probs / probs.sum(-1, keepdim=True)
    )
    assert (there.probs[:, ~there.bins.atoms] == 0).all()
