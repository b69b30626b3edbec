"""The map and the move to the mean, found together."""

import numpy as np
import pytest
import torch

from softbins import Bins, Histogram, scores
from softbins._core.calibrator import LogOddsMap
from softbins.tabular.calibrate import (
    Calibration,
    HeldOut,
    calibrated,
    fit_calibration,
    is_at_atom,
    on_lattice,
    update_calibration,
)

BINS = Bins.uniform(-12.0, 12.0, 96)
IDENTITY = Calibration(LogOddsMap((-1.0, 1.0), (-1.0, 1.0)))
MAX_TILT = 0.5


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
    found = fit_calibration(
        [HeldOut.of(raw, mean, y, 1.0, False)], np.ones(2000), rounds=3, max_tilt=MAX_TILT
    )
    mean, y = simulated(2000, seed=1)
    predicted = calibrated(gaussians(mean + away, deviation), mean, found)
    assert distance_from_uniform(scores.pit(predicted, y)) < 0.06
    torch.testing.assert_close(predicted.mean, mean, rtol=0, atol=1e-6)


def test_errors_that_count_more_make_distributions_wider():
    mean, y = simulated(3000)
    widths = []
    for error in (1.0, 1.3):
        rows = HeldOut.of(gaussians(mean), mean, y, error, False)
        found = fit_calibration([rows], np.ones(3000), rounds=3, max_tilt=MAX_TILT)
        widths.append(calibrated(gaussians(mean), mean, found).stddev.mean().item())
    assert widths[1] == pytest.approx(1.3 * widths[0], rel=0.03)


def test_a_map_that_is_updated_again_and_again_stays_as_it_should_be():
    """Forecasts that are right, and 100 updates by 24 rows: nothing becomes wider by and by."""
    found, rows, held = Calibration(LogOddsMap((-6.0, 6.0), (-6.0, 6.0))), 400.0, []
    for day in range(100):
        mean, y = simulated(24, seed=day)
        low, high = calibrated(gaussians(mean), mean, found).interval(0.9)
        held.append(((low <= y) & (y <= high)).double().mean().item())
        recent = [HeldOut.of(gaussians(mean), mean, y, 1.0, False)]
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
    parts = [HeldOut.of(gaussians(mean[p]), mean[p], y[p], 1.0, False) for p in pieces]
    whole = [HeldOut.of(gaussians(mean), mean, y, 1.0, False)]
    one, other = (
        fit_calibration(rows, np.ones(100), rounds=2, max_tilt=MAX_TILT) for rows in (parts, whole)
    )
    assert one.map.before == pytest.approx(other.map.before)
    assert one.max_tilt == other.max_tilt


def test_targets_at_atoms_stay_there():
    bins = Bins.uniform(0.0, 4.0, 8).with_atoms([0.0, 2.0])
    y = torch.tensor([0.0, 0.1, 2.0, 2.1, 4.0], dtype=torch.float64)
    assert is_at_atom(bins, y).tolist() == [True, False, True, False, False]
    assert not is_at_atom(BINS, y).any()
    raw = Histogram(bins, logits=torch.zeros(5, bins.count).double())
    rows = HeldOut.of(raw, torch.full((5,), 1.0).double(), y, 2.0, False)
    assert rows.low.tolist() == rows.high.tolist() == pytest.approx([0.0, 0.0, 2.0, 3.2, 4.0])


def test_a_value_of_a_lattice_is_its_cell():
    cells = Bins.uniform(-0.5, 5.5, 6)
    y = torch.tensor([0.0, 3.0], dtype=torch.float64)
    rows = HeldOut.of(Histogram(cells, logits=torch.zeros(2, 6).double()), y, y, 1.0, True)
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
