import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from softbins import Bins, Histogram, scores
from softbins.tabular import sharpness
from softbins.tabular.aggregate import Aggregator, Outputs, certain_offset
from softbins.tabular.defaults import DEFAULTS
from softbins.tabular.objectives import histogram_objective
from softbins.tabular.sharpness import most_splits, split_bins
from tests.tabular.target_tables import blurred_for

BINS = Bins.uniform(-12.0, 12.0, 96)  # a quarter of the noise below


def objective(deviation=1.0, bins=BINS):
    """Targets whose Gaussians have that standard deviation."""
    return histogram_objective(bins, deviation / bins.step)


def forecasts(mean, deviation):
    """Outputs that predict Gaussians."""
    return objective(deviation).outputs_for(torch.as_tensor(mean, dtype=torch.float64))


def simulated(rows, seed=0, noise=1.0):
    generator = torch.Generator().manual_seed(seed)
    mean = 3 * torch.randn(rows, generator=generator, dtype=torch.float64).clamp(-2, 2)
    return mean, mean + noise * torch.randn(rows, generator=generator, dtype=torch.float64)


def fit(mean, trees, y, weight=None, deviation=1.0):
    outputs = forecasts(mean, deviation)
    trees = None if trees is None else np.asarray(trees, dtype=np.float64)
    weight = None if weight is None else torch.as_tensor(weight, dtype=torch.float64)
    y = torch.as_tensor(y, dtype=torch.float64)
    return fit_members(outputs.unsqueeze(0), y, trees, weight)


def fit_members(outputs, y, trees=None, weight=None, ensemble_size=1, splits=16, **calibration):
    """An aggregator for outputs (members, n, k), with some numbers other than the defaults."""
    defaults = replace(DEFAULTS, calibration=replace(DEFAULTS.calibration, **calibration))
    return Aggregator.fit(
        objective(),
        Outputs(outputs, {} if trees is None else {"trees": trees}),
        y,
        weight,
        defaults=defaults,
        max_bin_splits=splits,
        ensemble_size=ensemble_size,
    )


def aggregator(of):
    """One that changes nothing."""
    return Aggregator(of, {}, 1)


# The share of the trees

SHARES = {
    # With gap g = trees - mean and error e = y - mean the squared error is least at (g e) / (g g).
    "golden": ([0, 0], [1, 2], [1, 1], None, 3 / 5),
    "golden with weights": ([0, 0], [1, 2], [1, 1], [2, 1], 4 / 6),
    "a weight of zero is no row": ([0, 0, 0], [1, 2, 9], [1, 1, -9], [1, 1, 0], 3 / 5),
    "trees as good as perfect": ([0, 1, 2], [3, 4, 6], [3, 4, 6], None, 1.0),
    "beyond the trees": ([0, 0], [1, 1], [3, 3], None, 1.0),
    "away from the trees": ([0, 0], [1, 1], [-3, -3], None, 0.0),
    "trees that say the same": ([0, 1], [0, 1], [3, 4], None, 0.0),
    "at right angles": ([0, 0], [1, 1], [2, -2], None, 0.0),
    "perfect network": ([0, 1, 2], [3, 4, 6], [0, 1, 2], None, 0.0),
    "no trees": ([0, 0], None, [1, 1], None, 0.0),
}


@pytest.mark.parametrize("case", SHARES)
def test_share(case):
    mean, trees, y, weight, expected = SHARES[case]
    assert fit(mean, trees, y, weight).shares.get("trees", 0.0) == pytest.approx(expected, abs=1e-6)


def test_share_of_noise():
    mean, y = simulated(1000)
    noise = 5 * torch.randn(1000, dtype=torch.float64)
    assert fit(mean, noise.numpy(), y).shares.get("trees", 0.0) == 0.0
    assert fit(noise.clamp(-9, 9), mean.numpy(), y).shares.get("trees", 0.0) == pytest.approx(
        1, abs=0.05
    )


def test_share_of_two_that_err_independently():
    # Errors of variances a and b are least in the mix with b's share a / (a + b).
    _, y = simulated(2000)
    mean = y + 1.0 * torch.randn(len(y), dtype=torch.float64)
    trees = y + 0.5 * torch.randn(len(y), dtype=torch.float64)
    found = fit(mean.clamp(-9, 9), trees.numpy(), y).shares.get("trees", 0.0)
    assert found == pytest.approx(1 / (1 + 0.25), abs=0.04)


def test_a_gain_too_small_is_not_worth_the_trees():
    # The share would be 1/2 of a gap of 0.1, which saves 0.0025 of the 1.0025 that is there.
    y = np.array([1.05, -0.95] * 10)
    assert fit(np.zeros(20), np.full(20, 0.1), y).shares.get("trees", 0.0) == 0.0
    assert fit(np.zeros(20), np.full(20, 1.0), y + 0.45).shares.get("trees", 0.0) == pytest.approx(
        0.5, abs=1e-6
    )


# Calibration


@pytest.mark.parametrize("deviation", [0.4, 0.7, 1.0, 1.5, 3.0])
def test_calibration_gives_the_forecast_its_right_width(deviation):
    mean, y = simulated(1000)
    finish = fit(mean, None, y, deviation=deviation)
    outputs = Outputs(forecasts(mean, deviation).unsqueeze(0))
    finished, raw = (finish.distribution(outputs, is_calibrated=c) for c in (True, False))
    assert finished.stddev.mean().item() == pytest.approx(1.0, rel=0.08)
    assert raw.stddev.mean().item() == pytest.approx(deviation, rel=0.05)
    assert scores.crps(finished, y) <= scores.crps(raw, y) + 1e-3


@pytest.mark.parametrize("deviation", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_intervals_cover(deviation, coverage):
    mean, y = simulated(600)
    bias = 0.3  # whatever the forecast is worth
    finish = fit(mean + bias, None, y, deviation=deviation)
    mean, y = simulated(2000, seed=1)
    found = finish.mean_and_interval(Outputs(forecasts(mean + bias, deviation)[None]), coverage)
    _, low, high = found.unbind(-1)
    covered = ((low <= y) & (y <= high)).double().mean().item()
    # Sampling of both, the held-out rows and the new ones: three standard deviations.
    slack = 3 * math.sqrt(coverage * (1 - coverage) * (1 / 600 + 1 / 2000)) + 0.01
    assert covered == pytest.approx(coverage, abs=slack)


def test_weights_of_rows_count():
    mean, y = simulated(2000)
    noisy = torch.arange(2000) % 2 == 0
    y = torch.where(noisy, mean + 3 * (y - mean), y)
    widths = []
    for weight in (noisy.double(), (~noisy).double()):
        finish = fit(mean, None, y, weight + 1e-9)
        predicted = finish.distribution(Outputs(forecasts([0.0], 1.0)[None]))
        widths.append(predicted.stddev.item())
    assert widths[0] == pytest.approx(3 * widths[1], rel=0.15)


# Predictions


def test_the_distribution_has_the_mean_that_is_predicted():
    mean, y = simulated(200)
    trees = (y + 0.1).numpy()
    finish = fit(mean, trees, y, deviation=2.0)
    assert 0 < finish.shares.get("trees", 0.0) <= 1
    outputs = forecasts(torch.stack([mean, mean + 0.5, mean - 0.1]), 2.0)
    predicted = finish.mean(Outputs(outputs, {"trees": trees}))
    members = Histogram(BINS, logits=outputs).mean.mean(0)
    expected = (1 - finish.shares.get("trees", 0.0)) * members + finish.shares.get(
        "trees", 0.0
    ) * torch.from_numpy(trees)
    torch.testing.assert_close(predicted, expected + finish.offset)
    distribution = finish.distribution(Outputs(outputs, {"trees": trees}))
    torch.testing.assert_close(distribution.mean, predicted, rtol=0, atol=1e-8)


def test_members_that_agree_are_as_one():
    mean, y = simulated(50)
    finish = fit(mean, None, y, deviation=2.0)
    outputs = forecasts(mean, 2.0)
    one, three = (finish.distribution(Outputs(outputs.expand(n, -1, -1))) for n in (1, 3))
    torch.testing.assert_close(one.probs, three.probs)


def test_pooled_gaussians_are_no_wider_than_they_are():
    # The geometric mean of two Gaussians of one width is the Gaussian half-way.
    finish = aggregator(objective())
    outputs = forecasts(torch.tensor([[-1.0], [2.0]]), 1.0)
    pooled = finish.distribution(Outputs(outputs))
    assert pooled.mean.item() == pytest.approx(0.5)
    assert pooled.stddev.item() == pytest.approx(1.0, rel=1e-2)


def test_the_blurred_mean_is_predicted_and_the_sharp_histogram_is_shown():
    both = blurred_for("normal", 0.1)
    blurred = both.blurred.outputs_for(torch.full((1, 1), 0.0, dtype=torch.float64))
    sharp = both.sharp.outputs_for(torch.full((1, 1), -0.2, dtype=torch.float64))
    finish, outputs = aggregator(both), Outputs(torch.cat([blurred, sharp], -1))
    assert finish.mean(outputs).item() == pytest.approx(0.0, abs=1e-4)
    distribution = finish.distribution(outputs)
    assert distribution.bins == both.sharp.bins
    assert distribution.mean.item() == pytest.approx(0.0, abs=1e-4)
    # About as narrow as the sharp one was.
    width = Histogram(both.sharp.bins, logits=sharp[0, 0]).stddev.item()
    assert distribution.stddev.item() == pytest.approx(width, rel=0.1)


# Bins cut into parts


@pytest.mark.parametrize("parts", [2, 4, 8])
@pytest.mark.parametrize("place", [0.0, 0.1, 0.37])
def test_refined_gaussians_are_gaussians_on_finer_bins(parts, place):
    """Their logarithms are parabolas, but for what a bin's integral adds: h^2 / 24 of the bend."""
    y = torch.tensor([place], dtype=torch.float64)
    coarse = Histogram(BINS, logits=objective(1.0).outputs_for(y))
    finer = split_bins(coarse, parts)
    assert finer.bins == Bins.uniform(-12.0, 12.0, 96 * parts)
    expected = objective(1.0, finer.bins).distribution(objective(1.0, finer.bins).outputs_for(y))
    torch.testing.assert_close(finer.probs, expected.probs, rtol=0, atol=1e-2 / parts)
    assert finer.mean.item() == pytest.approx(place, abs=1e-6)


def test_one_part_is_the_histogram_itself():
    histogram = Histogram(BINS, logits=forecasts([0.3], 1.0))
    assert split_bins(histogram, 1) is histogram


def test_unequal_bins_are_cut_where_they_are():
    bins = Bins(torch.tensor([0.0, 1.0, 3.0, 7.0]))
    finer = split_bins(Histogram(bins, logits=torch.zeros(3)), 2)
    assert finer.bins.edges.tolist() == [0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 7.0]
    torch.testing.assert_close(finer.probs, torch.full((6,), 1 / 6))


@pytest.mark.parametrize(("noise", "parts"), [(0.06, 8), (0.2, 2), (1.0, 1), (3.0, 1)])
def test_bins_are_cut_where_more_is_known_than_they_can_say(noise, parts):
    """Gaussians of deviation 1 are far too wide for such noise, and a bin of 1/4 may be as well."""
    mean, y = simulated(500, noise=noise)
    finish = fit(mean, None, y)
    assert finish.bin_splits == parts
    predicted = finish.distribution(Outputs(forecasts(mean, 1.0).unsqueeze(0)))
    best = noise / math.sqrt(math.pi)  # the CRPS of the true Gaussian, on average
    coarse = BINS.step / 16 / 12  # a bin's part cannot do better than this
    assert scores.crps(predicted, y) < 1.15 * best + coarse


@pytest.mark.parametrize("shift", [0.0, 1e3, 1e14, 1e15])
def test_bins_are_not_cut_finer_than_numbers_are(shift):
    """Near 1e15 numbers are an eighth apart, half of a bin."""
    bins, wanted = Bins(BINS.edges + shift), {0.0: 16, 1e3: 16, 1e14: 3, 1e15: 1}
    assert most_splits(bins, 16) <= wanted[shift]
    assert bins.finer(most_splits(bins, 16)).count == 96 * most_splits(bins, 16)


def test_bins_of_ones_own_are_left_as_they_are():
    mean, y = simulated(500, noise=0.01)
    outputs = forecasts(mean, 1.0).unsqueeze(0)
    assert fit_members(outputs, y, splits=1).bin_splits == 1
    assert fit_members(outputs, y).bin_splits > 1


@pytest.mark.parametrize("rows", [1, 7, 300, 301])
def test_some_rows_at_a_time_give_what_all_at_once_give(rows, monkeypatch):
    """Two members of eight with narrow forecasts, and trees: all that is cut into chunks."""
    mean, y = simulated(300, noise=0.3)
    outputs = torch.stack([forecasts(mean + shift, 1.0) for shift in (-0.1, 0.2)])
    found = []
    for size in (rows, len(y)):
        monkeypatch.setattr(sharpness, "CHUNK_NUMBERS", size * BINS.count * 4)
        trees = (y + 0.2 * torch.cos(torch.arange(300.0))).numpy()
        finish = fit_members(outputs, y, trees, ensemble_size=8)
        chunks = finish.chunks(Outputs(outputs, {"trees": y.numpy()}))
        assert {chunk.members.shape[1] for chunk in chunks[:-1]} == (
            {size} if size < 300 else set()
        )
        means = torch.cat([finish.mean(chunk) for chunk in chunks])
        found.append((means, finish.calibration.map.before, finish.calibration.map.after))
    for some, whole in zip(*found, strict=True):
        torch.testing.assert_close(torch.as_tensor(some), torch.as_tensor(whole))


# Whole numbers

CELLS = Bins.uniform(-0.5, 20.5, 21)


def counts(rows, seed=0):
    """Rates, and counts with them; forecasts are Gaussians about the rates."""
    generator = np.random.default_rng(seed)
    rate = generator.uniform(1, 9, rows)
    return torch.from_numpy(rate), torch.from_numpy(generator.poisson(rate).astype(float))


def count_outputs(rate):
    return Outputs(objective(1.0, CELLS).outputs_for(rate).unsqueeze(0))


def test_whole_numbers_get_a_distribution_over_them():
    rate, y = counts(3000)
    finish = Aggregator.fit(
        objective(1.0, CELLS),
        count_outputs(rate),
        y,
        None,
        defaults=DEFAULTS,
        max_bin_splits=16,
        is_lattice=True,
    )
    assert finish.bin_splits == 1
    rate, y = counts(3000, seed=1)
    predicted = finish.distribution(count_outputs(rate))
    assert predicted.bins.centers[predicted.bins.atoms].tolist() == list(range(21))
    assert predicted.quantile(0.9).frac().abs().max().item() == 0
    assert (predicted.probs[:, ~predicted.bins.atoms] == 0).all()
    torch.testing.assert_close(predicted.mean, finish.mean(count_outputs(rate)), rtol=0, atol=1e-6)
    pit = scores.pit(predicted, y, random_state=0)
    assert np.abs(np.sort(pit) - np.arange(1, 3001) / 3000).max() < 2 * math.sqrt(2 / 3000)
    for value in (2, 5, 9):
        assert predicted.prob(float(value)).mean().item() == pytest.approx(
            (y == value).double().mean().item(), abs=0.03
        )


# Files


@pytest.mark.parametrize("is_calibrated", [True, False])
def test_file_and_back_to_the_bit(is_calibrated):
    mean, y = simulated(500)
    finish = fit(mean, (y + 0.3).numpy(), y, deviation=1.7)
    finish = finish if is_calibrated else replace(finish, calibration=None)
    header = json.loads(json.dumps(finish.to_json()))
    assert Aggregator.from_json(finish.objective, header) == finish
    assert finish.rows == 500


# Teams and the whole ensemble


def members_of(y, members, own, seed):
    """Outputs of members that err by themselves."""
    generator = torch.Generator().manual_seed(seed)
    errors = own * torch.randn((members, len(y)), generator=generator, dtype=torch.float64)
    return torch.stack([forecasts(y + error, 1.0) for error in errors])


def ensemble_coverage(whole, own=0.5, members=6):
    """Of the 80% intervals of all members, made with teams of two and told of so many."""
    y, new = simulated(4000, 1)[0], simulated(4000, 2)[0]
    rules = {"gain_of_all_rows": 0.0, "max_saved": 0.5}  # these members have learnt nothing since
    finish = fit_members(members_of(y, 2, own, 3), y, ensemble_size=whole, **rules)
    predicted = finish.distribution(Outputs(members_of(new, members, own, 4)))
    low, high = predicted.interval(0.8)
    return ((low <= new) & (new <= high)).double().mean().item()


def test_intervals_of_a_whole_ensemble_are_narrower_than_those_of_teams():
    # Two members err by a variance of 1/2 of one's, six by 1/6; half of it is the most to count on.
    assert ensemble_coverage(whole=1) > 0.95
    assert 0.85 < ensemble_coverage(whole=6) < ensemble_coverage(whole=1)
    assert ensemble_coverage(whole=3, members=3) == pytest.approx(0.8, abs=0.03)


def test_a_member_alone_knows_nothing_of_what_a_team_gains():
    y = simulated(200)[1]
    outputs = members_of(y, 1, 0.5, 0)
    found = [fit_members(outputs, y, ensemble_size=size) for size in (1, 8)]
    assert found[0].calibration == found[1].calibration


def test_errors_of_few_rows_are_expected_to_be_larger():
    """The same rows have chosen epochs, trees and shares: twenty of them know little else."""
    mean, y = simulated(2000)
    few, many = (fit(mean[:n], None, y[:n]) for n in (20, 2000))
    outputs = Outputs(forecasts([0.0], 1.0)[None])
    assert few.distribution(outputs).stddev > 1.1 * many.distribution(outputs).stddev


# A mean error that is no chance


def test_an_error_to_one_side_is_undone_only_if_it_is_large_and_certain():
    noise = torch.randn(400, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    noise = noise - noise.mean()
    few = torch.tensor([0.5, 1.5, -0.2], dtype=torch.float64)
    assert certain_offset(noise + 1.0, None, DEFAULTS.calibration) == pytest.approx(1.0)
    assert certain_offset(noise + 0.3, None, DEFAULTS.calibration) == 0  # certain, and small
    assert certain_offset(few, None, DEFAULTS.calibration) == 0  # large, and no certainty
    assert certain_offset(torch.ones(5).double(), None, DEFAULTS.calibration) == 1.0


def test_members_that_hardly_learnt_beside_others_are_made_up_for():
    """Half of the rows were held out by members that were cut before they learnt anything."""
    error = torch.cat([torch.linspace(-60, 60, 200), torch.linspace(320, 440, 200)]).double()
    assert certain_offset(error, None, DEFAULTS.calibration) == pytest.approx(190)


def test_an_offset_is_that_of_weighted_rows():
    error, weight = torch.tensor([1.0] * 50 + [9.0] * 50).double(), torch.ones(100).double()
    weight[50:] = 0
    assert certain_offset(error, weight, DEFAULTS.calibration) == pytest.approx(1.0)
