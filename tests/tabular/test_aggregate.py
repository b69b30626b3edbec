import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.distributions import Normal

from softbins import Bins, Histogram, scores
from softbins.calibration import Conformal, Temperature
from softbins.tabular import sharpness
from softbins.tabular.aggregate import KINDS, Aggregator, Outputs, _extrapolated
from softbins.tabular.defaults import DEFAULTS
from softbins.tabular.objectives import histogram_objective
from softbins.tabular.sharpness import HeldOut, most_splits, narrowest_temperature, split_bins
from tests.tabular.target_tables import blurred_for

ONE = Temperature(1.0)
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
        Outputs(outputs, trees),
        y,
        weight,
        defaults=defaults,
        max_bin_splits=splits,
        ensemble_size=ensemble_size,
    )


def aggregator(of):
    """One that changes nothing."""
    return Aggregator(of, 0.0, 1, ONE, ONE, {})


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
    assert fit(mean, trees, y, weight).tree_share == pytest.approx(expected, abs=1e-6)


def test_share_of_noise():
    mean, y = simulated(1000)
    noise = 5 * torch.randn(1000, dtype=torch.float64)
    assert fit(mean, noise.numpy(), y).tree_share == 0.0
    assert fit(noise.clamp(-9, 9), mean.numpy(), y).tree_share == pytest.approx(1, abs=0.05)


def test_share_of_two_that_err_independently():
    # Errors of variances a and b are least in the mix with b's share a / (a + b).
    _, y = simulated(2000)
    mean = y + 1.0 * torch.randn(len(y), dtype=torch.float64)
    trees = y + 0.5 * torch.randn(len(y), dtype=torch.float64)
    found = fit(mean.clamp(-9, 9), trees.numpy(), y).tree_share
    assert found == pytest.approx(1 / (1 + 0.25), abs=0.04)


def test_a_gain_too_small_is_not_worth_the_trees():
    # The share would be 1/2 of a gap of 0.1, which saves 0.0025 of the 1.0025 that is there.
    y = np.array([1.05, -0.95] * 10)
    assert fit(np.zeros(20), np.full(20, 0.1), y).tree_share == 0.0
    assert fit(np.zeros(20), np.full(20, 1.0), y + 0.45).tree_share == pytest.approx(0.5, abs=1e-6)


# The temperature


@pytest.mark.parametrize("deviation", [0.4, 0.7, 1.0, 1.5, 3.0])
def test_temperature_gives_the_forecast_its_right_width(deviation):
    # f^(1/t) of a Gaussian has t times its variance: t = (noise / deviation)^2.
    mean, y = simulated(1000)
    finish = fit(mean, None, y, deviation=deviation)
    assert finish.temperature.t == pytest.approx(1 / deviation**2, rel=0.15)
    outputs = forecasts(mean, deviation).unsqueeze(0)
    finished = finish.distribution(Outputs(outputs, None))
    assert finished.stddev.mean().item() == pytest.approx(1.0, rel=0.08)
    raw = Histogram(BINS, logits=outputs[0])
    assert scores.crps(finished, y) <= scores.crps(raw, y) + 1e-9


# Predictions


def test_the_distribution_has_the_mean_that_is_predicted():
    mean, y = simulated(200)
    trees = (y + 0.1).numpy()
    finish = fit(mean, trees, y, deviation=2.0)
    assert 0 < finish.tree_share <= 1
    outputs = forecasts(torch.stack([mean, mean + 0.5, mean - 0.1]), 2.0)
    predicted = finish.mean(Outputs(outputs, trees))
    members = Histogram(BINS, logits=outputs).mean.mean(0)
    expected = (1 - finish.tree_share) * members + finish.tree_share * torch.from_numpy(trees)
    torch.testing.assert_close(predicted, expected)
    distribution = finish.distribution(Outputs(outputs, trees))
    torch.testing.assert_close(distribution.mean, predicted, rtol=0, atol=1e-8)


def test_members_that_agree_are_as_one():
    mean, y = simulated(50)
    finish = fit(mean, None, y, deviation=2.0)
    outputs = forecasts(mean, 2.0)
    one, three = (finish.distribution(Outputs(outputs.expand(n, -1, -1), None)) for n in (1, 3))
    torch.testing.assert_close(one.probs, three.probs)


def test_pooled_gaussians_are_no_wider_than_they_are():
    # The geometric mean of two Gaussians of one width is the Gaussian half-way.
    finish = aggregator(objective())
    outputs = forecasts(torch.tensor([[-1.0], [2.0]]), 1.0)
    pooled = finish.distribution(Outputs(outputs, None))
    assert pooled.mean.item() == pytest.approx(0.5)
    assert pooled.stddev.item() == pytest.approx(1.0, rel=1e-2)


def test_the_blurred_mean_is_predicted_and_the_sharp_histogram_is_shown():
    both = blurred_for("normal", 0.1)
    blurred = both.blurred.outputs_for(torch.full((1, 1), 0.0, dtype=torch.float64))
    sharp = both.sharp.outputs_for(torch.full((1, 1), -0.2, dtype=torch.float64))
    finish, outputs = aggregator(both), Outputs(torch.cat([blurred, sharp], -1), None)
    assert finish.mean(outputs).item() == pytest.approx(0.0, abs=1e-4)
    distribution = finish.distribution(outputs)
    assert distribution.bins == both.sharp.bins
    assert distribution.mean.item() == pytest.approx(0.0, abs=1e-4)
    # As narrow as the sharp one was.
    width = Histogram(both.sharp.bins, logits=sharp[0, 0]).stddev.item()
    assert distribution.stddev.item() == pytest.approx(width, rel=0.05)


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


@pytest.mark.parametrize(("noise", "parts"), [(0.06, 16), (0.2, 4), (1.0, 1), (3.0, 1)])
def test_bins_are_cut_where_more_is_known_than_they_can_say(noise, parts):
    """Gaussians of deviation 1 are far too wide for such noise, and a bin of 1/4 may be as well."""
    mean, y = simulated(500, noise=noise)
    finish = fit(mean, None, y)
    assert finish.bin_splits == parts
    predicted = finish.distribution(Outputs(forecasts(mean, 1.0).unsqueeze(0), None))
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


# Intervals


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("deviation", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_intervals_cover(kind, deviation, coverage):
    mean, y = simulated(600)
    bias = 0.3  # whatever the forecast is worth
    finish = fit(mean + bias, None, y, deviation=deviation)
    mean, y = simulated(2000, seed=1)
    distribution = finish.interval_distribution(
        Outputs(forecasts(mean + bias, deviation)[None], None)
    )
    low, high = finish.intervals[kind].interval(distribution, coverage)
    covered = ((low <= y) & (y <= high)).double().mean().item()
    # Sampling of both, the held-out rows and the new ones: three standard deviations.
    slack = 3 * math.sqrt(coverage * (1 - coverage) * (1 / 600 + 1 / 2000))
    assert covered == pytest.approx(coverage, abs=slack)


def test_intervals_are_not_made_from_distributions_that_are_too_narrow():
    """Every second row may be far off, and its forecast says so; a low temperature forgets it."""
    mean, y = simulated(2000, noise=0.3)
    generator = torch.Generator().manual_seed(3)
    doubtful = torch.rand(2000, generator=generator) < 0.5
    far = doubtful & (torch.rand(2000, generator=generator) < 0.3)
    y = torch.where(far, mean + 12 * torch.rand(2000, generator=generator) - 6, y)
    box = ((BINS.centers - mean.unsqueeze(-1)).abs() < 6).double()
    share = torch.where(doubtful, 0.3, 0.0).unsqueeze(-1)
    narrow, box = forecasts(mean, 0.3).exp(), box / box.sum(-1, keepdim=True)
    predicted, low = Histogram(BINS, probs=(1 - share) * narrow + share * box), Temperature(0.003)
    rows = HeldOut(predicted, mean, y, None)
    wide = narrowest_temperature(rows, 1, low, DEFAULTS.calibration)
    assert wide.t > low.t
    assert mean_width(wide, predicted, mean, y) < 0.8 * mean_width(low, predicted, mean, y)


def mean_width(temperature, predicted, mean, y):
    at = temperature.apply(predicted).with_mean(mean)
    low, high = Conformal.fit(at, y, "central").interval(at, 0.9)
    assert ((low <= y) & (y <= high)).double().mean().item() >= 0.89
    return (high - low).mean().item()


def test_where_all_errors_are_alike_one_temperature_does():
    mean, y = simulated(2000)
    finish = fit(mean, None, y)
    assert finish.interval_temperature == finish.temperature


def test_each_kind_has_intervals_from_all_rows():
    mean, y = simulated(300)
    finish = fit(mean, None, y)
    assert set(finish.intervals) == {"central", "shortest"}
    for kind, conformal in finish.intervals.items():
        assert isinstance(conformal, Conformal)
        assert (conformal.kind, len(conformal.depths)) == (kind, 300)


@pytest.mark.parametrize("rows", [1, 7, 300, 301])
def test_some_rows_at_a_time_give_what_all_at_once_give(rows, monkeypatch):
    """Two members of eight with narrow forecasts, and trees: all that is cut into chunks."""
    mean, y = simulated(300, noise=0.3)
    outputs = torch.stack([forecasts(mean + shift, 1.0) for shift in (-0.1, 0.2)])
    found = []
    for size in (rows, len(y)):
        monkeypatch.setattr(sharpness, "CHUNK_NUMBERS", size * BINS.count * 4)
        finish = fit_members(outputs, y, (y + 0.2).numpy(), ensemble_size=8)
        assert finish.bin_splits == 4
        chunks = finish.chunks(Outputs(outputs, y.numpy()))
        assert {chunk.members.shape[1] for chunk in chunks[:-1]} <= {size}
        means = torch.cat([finish.mean(chunk) for chunk in chunks])
        depths = [finish.intervals[kind].depths for kind in KINDS]
        found.append((means, finish.interval_temperature.t, *depths))
    for some, whole in zip(*found, strict=True):
        torch.testing.assert_close(torch.as_tensor(some), torch.as_tensor(whole))


# Files


def test_file_and_back_to_the_bit():
    mean, y = simulated(500)
    finish = fit(mean, (y + 0.3).numpy(), y, deviation=1.7)
    header = json.loads(json.dumps(finish.to_json()))
    tensors = finish.tensors() | {"something else": torch.zeros(1)}
    assert all(t.dtype == torch.float64 for name, t in tensors.items() if "depths" in name)
    again = Aggregator.from_file(finish.objective, header, tensors)
    assert again == finish
    assert list(tensors) == ["something else"]


# Teams and the whole ensemble


def team_depths(shared, own, members, rows=999):
    """Depths of errors with that variance, for Gaussians of variance 1: one for each rank."""
    errors = Normal(0.0, math.sqrt(shared + own / members)).icdf(
        torch.linspace(1, 2 * rows - 1, rows, dtype=torch.float64) / (4 * rows) + 0.5
    )
    return Conformal("central", tuple((2 * Normal(0.0, 1.0).cdf(-errors)).sort().values.tolist()))


@pytest.mark.parametrize("whole", [3, 4, 6, 100])
@pytest.mark.parametrize(("shared", "own"), [(0.0, 1.0), (1.0, 0.0), (0.5, 2.0), (4.0, 0.1)])
def test_errors_of_gaussians_are_extrapolated_exactly(shared, own, whole):
    # The squared errors of m members are shared + own / m, here for 1, 2 and all of them.
    alone, team, expected = (team_depths(shared, own, m) for m in (1, 2, whole))
    found = _extrapolated(team, [alone, alone], whole)
    # Two members give each rank twice; ranks between them are interpolated.
    inner = slice(20, -20)
    assert found.depths[inner] == pytest.approx(expected.depths[inner], rel=0.02, abs=2e-3)


def test_no_more_can_vanish_than_members_have_of_their_own():
    team, alone = team_depths(0.0, 1.0, 2), team_depths(0.0, 1000.0, 1)
    found = _extrapolated(team, [alone, alone], 4)
    assert found.depths == pytest.approx(team_depths(0.0, 1.0, 4).depths)


def test_members_that_are_better_than_their_team_change_nothing():
    team, alone = team_depths(0.0, 1.0, 1), team_depths(0.0, 0.1, 1)
    assert _extrapolated(team, [alone, alone], 4).depths == pytest.approx(team.depths)


def test_targets_outside_of_the_bins_stay_where_they_are():
    team = Conformal("shortest", (-3.0, -1e-9, 0.0, 0.2, 1.0))
    alone = Conformal("shortest", (-5.0, -2.0, -1.0, 0.1, 0.9))
    found = _extrapolated(team, [alone, alone], 8)
    assert found.kind == "shortest"
    assert found.depths[:3] == team.depths[:3]
    assert 0.2 < found.depths[3] < found.depths[4] == 1.0


def members_of(y, members, own, seed):
    """Outputs of members that err by themselves."""
    generator = torch.Generator().manual_seed(seed)
    errors = own * torch.randn((members, len(y)), generator=generator, dtype=torch.float64)
    return torch.stack([forecasts(y + error, 1.0) for error in errors])


def ensemble_coverage(whole, own=0.5, members=6):
    """Of the 80% intervals of all members, made with teams of two and told of so many."""
    y, new = simulated(4000, 1)[0], simulated(4000, 2)[0]
    finish = fit_members(members_of(y, 2, own, 3), y, ensemble_size=whole)
    predicted = finish.interval_distribution(Outputs(members_of(new, members, own, 4), None))
    low, high = finish.intervals["central"].interval(predicted, 0.8)
    return ((low <= new) & (new <= high)).double().mean().item()


def test_intervals_of_a_whole_ensemble_hold_what_they_promise():
    assert ensemble_coverage(whole=1) > 0.9  # as wide as the errors of two
    assert ensemble_coverage(whole=6) == pytest.approx(0.8, abs=0.025)


def test_a_member_alone_knows_nothing_of_what_a_team_gains():
    y = simulated(200)[1]
    outputs = members_of(y, 1, 0.5, 0)
    found = [fit_members(outputs, y, ensemble_size=size) for size in (1, 8)]
    assert found[0].intervals == found[1].intervals


@pytest.mark.parametrize(("share", "alike"), [(0.15, False), (0.25, True), (1.0, True)])
def test_depths_that_many_rows_share_stay_as_they_are(share, alike):
    y = simulated(400)[0]
    y[: int(share * len(y))] = y[0]
    outputs = members_of(y, 2, 0.5, 0)
    found = [fit_members(outputs, y, ensemble_size=size) for size in (1, 8)]
    assert (found[0].intervals == found[1].intervals) == alike


# Many rows


@pytest.mark.parametrize("limit", [20, 50])
def test_the_temperature_needs_only_some_of_the_rows(limit):
    """Nonsense in the rows between them changes the intervals, which all rows make, and not it."""
    mean, y = simulated(100)
    outputs, spoilt = forecasts(mean, 1.5).unsqueeze(0), y.clone()
    between = torch.arange(100) % (100 // limit) > 0
    spoilt[between] = 11.0
    limits = {"temperature_rows": limit, "bin_split_rows": limit}
    limits["min_rows_for_interval_temperature"] = 1000
    one, other = (fit_members(outputs, targets, **limits) for targets in (y, spoilt))
    assert one.temperature == other.temperature
    assert one.intervals != other.intervals
    assert len(one.intervals["central"].depths) == 100
    everything = limits | {"temperature_rows": 100, "bin_split_rows": 100}
    assert fit_members(outputs, spoilt, **everything).temperature != one.temperature
