"""Calibration and conformal intervals against theory, on simulated forecasts of known quality."""

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import betabinom, norm

from softbins import Bins, Histogram, scores
from softbins._core.calibrator import LogOddsMap
from softbins.calibration import Calibrator, Conformal

KINDS = ["shortest", "central"]
COVERAGES = [0.8, 0.9, 0.95]
BINS = Bins.uniform(-12.0, 12.0, 40)
UNIT = Bins([0.0, 1.0, 2.0])
SIGMAS = 4.5  # of sampling error that a mean may be off: one in 150,000


def normal(mean, deviation=1.0, bins=BINS):
    """Histograms of normal distributions, one for each mean."""
    cumulative = norm.cdf(bins.edges.numpy(), np.asarray(mean)[:, None], deviation)
    return Histogram(bins, probs=torch.from_numpy(np.diff(cumulative)))


def simulated(rows, seed=0):
    """Histograms, and a target drawn from each."""
    torch.manual_seed(seed)
    truth = normal(np.random.default_rng(seed).uniform(-3, 3, rows))
    return truth, truth.sample()


def surer(distribution, confidence):
    """The forecast with all logits times a number: too sure of itself if that exceeds 1."""
    return Histogram(distribution.bins, logits=confidence * distribution.logits)


def rows_of(distribution, rows):
    return Histogram(distribution.bins, logits=distribution.logits[rows])


def inside(y, low, high):
    return ((low <= y) & (y <= high)).double()


def covered(conformal, distribution, y, coverage, groups=None):
    return inside(y, *conformal.interval(distribution, coverage, groups)).mean().item()


def law_of_coverage(held_out, new, coverage):
    """Mean and variance of the share of new rows in their intervals, over draws of both.

    The number of new rows inside is beta-binomial with a = k and b = n + 1 - k: see the module.
    """
    a = math.ceil((held_out + 1) * coverage - 1e-9)
    inside = betabinom(new, a, held_out + 1 - a)
    return inside.mean() / new, inside.var() / new**2


# Coverage


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("held_out", "confidence"),
    [(100, 1.0), (250, 2.5), (500, 0.4)],
    ids=["well-specified", "over-confident", "under-confident"],
)
def test_coverage_is_what_was_asked_for(kind, held_out, confidence):
    repetitions, new = 200, 100
    truth, y = simulated(repetitions * (held_out + new))
    forecast = surer(truth, confidence)
    found = np.zeros((repetitions, len(COVERAGES)))
    for i, start in enumerate(range(0, len(y), held_out + new)):
        old = slice(start, start + held_out)
        later = slice(old.stop, old.stop + new)
        conformal = Conformal.fit(rows_of(forecast, old), y[old], kind)
        predicted = rows_of(forecast, later)
        found[i] = [covered(conformal, predicted, y[later], c) for c in COVERAGES]
    for coverage, shares in zip(COVERAGES, found.T, strict=True):
        mean, variance = law_of_coverage(held_out, new, coverage)
        error = SIGMAS * math.sqrt(variance / repetitions)
        assert shares.mean() == pytest.approx(mean, abs=error)
        assert shares.var() == pytest.approx(variance, rel=SIGMAS * math.sqrt(2 / repetitions))
        low, high = rows_of(forecast, slice(0, 10_000)).interval(coverage, kind)
        off = abs(inside(y[:10_000], low, high).mean() - coverage)
        assert off < error if confidence == 1 else off > 2 * error


@pytest.mark.parametrize("kind", KINDS)
def test_each_group_is_covered_where_all_together_fail_it(kind):
    rows, held_out = 3000, 500
    generator = np.random.default_rng(3)
    mean, groups = generator.uniform(-3, 3, rows), np.repeat(["quiet", "noisy"], rows // 2)
    y = torch.from_numpy(mean + generator.normal(size=rows) * np.where(groups == "quiet", 0.4, 2))
    old = np.arange(rows) % (rows // 2) < held_out
    forecast = normal(mean)
    args = (rows_of(forecast, old), y[old], kind)
    conformal = Conformal.fit(*args, groups=groups[old])
    assert conformal.depths == Conformal.fit(*args).depths
    for group, failure in (("quiet", 0.98), ("noisy", 0.85)):
        new = ~old & (groups == group)
        mean_coverage, variance = law_of_coverage(held_out, new.sum(), 0.9)
        found = covered(conformal, rows_of(forecast, new), y[new], 0.9, groups[new])
        assert found == pytest.approx(mean_coverage, abs=SIGMAS * math.sqrt(variance))
        pooled = covered(conformal, rows_of(forecast, new), y[new], 0.9)
        assert pooled > failure if group == "quiet" else pooled < failure


def test_unseen_and_small_groups_get_the_intervals_of_all():
    forecast, y = simulated(130)
    y[115:] += 3
    conformal = Conformal.fit(forecast, y, groups=[1] * 115 + [2] * 15)
    few = rows_of(forecast, slice(0, 3))
    for coverage, same in ((0.9, [False, False, True]), (0.95, [False, True, True])):
        # Group 3 is new, and 15 rows are too few for 0.95.
        low, high = conformal.interval(few, coverage, [1, 2, 3])
        low_of_all, high_of_all = conformal.interval(few, coverage)
        assert (low == low_of_all).tolist() == (high == high_of_all).tolist() == same


def test_folds_are_pooled():
    forecast, y = simulated(120)
    parts = [slice(0, 50), slice(50, 120)]
    folds = [rows_of(forecast, part) for part in parts]
    pooled = Conformal.fit_folds(folds, [y[part] for part in parts], kind="central")
    assert pooled.depths == pytest.approx(Conformal.fit(forecast, y, kind="central").depths)


def test_folds_of_an_overfitted_model_give_honest_intervals():
    # 25 coefficients from 80 rows: residuals of the training rows are far too small.
    generator, fold = np.random.default_rng(5), np.arange(80) % 4
    beta, shares = generator.normal(size=25) / 5, []
    for _ in range(30):
        X = generator.normal(size=(80 + 200, 25))
        y = X @ beta + generator.normal(size=280)
        old, new, target = X[:80], X[80:], torch.from_numpy(y[80:])
        parts = [fold == f for f in range(4)]
        fits = [np.linalg.lstsq(old[~part], y[:80][~part], rcond=None)[0] for part in parts]
        held = [normal(old[part] @ fit) for part, fit in zip(parts, fits, strict=True)]
        conformal = Conformal.fit_folds(held, [y[:80][part] for part in parts])
        members = [normal(new @ fit) for fit in fits]
        ends = torch.stack([torch.stack(conformal.interval(one, 0.9)) for one in members])
        seen = Conformal.fit(normal(old @ fits[0]), y[:80])
        by_means = inside(target, *ends.mean(0)).mean()
        by_mixture = covered(conformal, Histogram.pool(members), target, 0.9)
        shares.append([by_means, by_mixture, covered(seen, members[0], target, 0.9)])
    of_means, of_mixture, of_rows_it_has_seen = np.mean(shares, axis=0)
    assert 0.9 < of_means < 0.93
    assert of_means < of_mixture < 0.97
    assert of_rows_it_has_seen < 0.87


# Intervals


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "bins", [BINS, Bins.quantile(torch.randn(500), 30)], ids=["even", "uneven"]
)
def test_depths_of_a_calibrated_forecast_are_uniform_and_intervals_those_of_the_histogram(
    kind, bins
):
    forecast = normal(np.linspace(-0.5, 0.5, 2000), 1.0, bins)
    conformal = Conformal.fit(forecast, forecast.sample(), kind)
    # Dvoretzky, Kiefer, Wolfowitz and Massart, at a chance of 1e-6.
    steps = np.arange(1, 2001) / 2000
    assert np.abs(np.array(conformal.depths) - steps).max() < math.sqrt(math.log(2e6) / 4000)
    nominal = Conformal(kind, tuple(steps.tolist()))
    for coverage in (0.5, 0.9):
        low, high = nominal.interval(forecast, coverage)
        level = 1 - nominal.depths[2000 - math.ceil(2001 * coverage)]
        expected_low, expected_high = forecast.interval(level, kind)
        torch.testing.assert_close(high - low, expected_high - expected_low, rtol=1e-6, atol=0)
        torch.testing.assert_close(
            forecast.cdf(high) - forecast.cdf(low), torch.full_like(low, level)
        )


@pytest.mark.parametrize("sign", [1, -1], ids=["plain", "mirrored"])
def test_golden_depths(sign):
    # Densities 1/4, 1/2, 0, 1/8 on [0, 1), [1, 2), [2, 3), [3, 5]. Shortest: from 1.5 over the
    # peak (1/2 left), then to the left (1/4), then over the gap and to the right.
    bins = Bins(sorted(sign * edge for edge in (0.0, 1.0, 2.0, 3.0, 5.0)))
    probs = torch.tensor([0.25, 0.5, 0.0, 0.25] if sign > 0 else [0.25, 0.0, 0.5, 0.25])
    y = sign * np.array([1.5, 1.25, 2.0, 0.5, 0.0, 2.5, 4.0, 5.0, -1.0, 7.0])
    forecast = Histogram(bins, probs=probs).expand((10,))
    shortest = [1.0, 0.75, 0.5, 0.375, 0.25, 0.25, 0.125, 0.0, -1.0, -2.0]
    assert Conformal.fit(forecast, y).depths == pytest.approx(sorted(shortest))
    central = [1.0, 0.75, 0.5, 0.25, 0.0, 0.5, 0.25, 0.0, -1.0, -2.0]
    assert Conformal.fit(forecast, y, "central").depths == pytest.approx(sorted(central))


def test_intervals_of_two_peaks_contain_each_other_where_the_shortest_do_not():
    probs = torch.tensor([[0.34, 0.01, 0.0, 0.0, 0.3, 0.35 - 0.01, 0.01]], dtype=torch.float64)
    forecast = Histogram(Bins.uniform(0, 7, 7), probs=probs)
    narrow, wide = forecast.interval(0.335, "shortest"), forecast.interval(0.6, "shortest")
    assert narrow[1] < wide[0]
    nominal = Conformal("shortest", tuple(i / 1000 for i in range(1, 1001)))
    ends = [nominal.interval(forecast, coverage) for coverage in np.linspace(0.01, 0.99, 99)]
    low, high = (torch.cat(side) for side in zip(*ends, strict=True))
    assert (low.diff() <= 0).all()
    assert (high.diff() >= 0).all()


EDGES = [Bins([-2.0, -1.0, 0.0, 0.5, 3.0, 3.25]), Bins([-2.0, -2.0, 0.0, 1.0, 1.0, 3.25])]
masses = st.lists(st.sampled_from([0.0, 1e-30, 1e-9, 0.1, 0.3, 1.0]), min_size=5, max_size=5)
targets = st.one_of(st.integers(-4, 5).map(float), st.floats(-2, 3.25), st.floats(-1e9, 1e9))


@settings(max_examples=200)
@given(
    rows=st.lists(st.tuples(masses.filter(any), targets), min_size=1, max_size=12),
    coverage=st.floats(0.05, 0.95),
    kind=st.sampled_from(KINDS),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    repeats=st.integers(1, 3),
    bins=st.sampled_from(EDGES),
)
def test_held_out_rows_are_in_their_own_intervals(rows, coverage, kind, dtype, repeats, bins):
    """What the promise rests on, ties, gaps, one-bin masses and far targets included."""
    forecast = Histogram(bins, probs=torch.tensor([p for p, _ in rows] * repeats, dtype=dtype))
    y = torch.tensor([target for _, target in rows] * repeats, dtype=torch.float64)
    needed = math.ceil((len(y) + 1) * coverage - 1e-9)
    conformal = Conformal.fit(forecast, y, kind)
    if needed > len(y):
        with pytest.raises(ValueError, match=f"needs at least .* got {len(y)}"):
            conformal.interval(forecast, coverage)
        return
    low, high = conformal.interval(forecast, coverage)
    assert torch.isfinite(high - low).all()
    assert (low <= high).all()
    assert inside(y, low, high).sum() >= needed
    # Intervals are float64: across bins of next to no mass, float32 puts the median elsewhere.
    exact = Histogram(forecast.bins, logits=forecast.logits.double())
    centre = exact.median if kind == "central" else exact.mode
    assert ((low <= centre + 1e-5) & (centre - 1e-5 <= high)).all()
    wider = conformal.interval(forecast, min(coverage + 0.02, len(y) / (len(y) + 1)))
    assert ((wider[0] <= low) & (high <= wider[1])).all() or coverage > len(y) / (len(y) + 1)


@pytest.mark.parametrize("kind", KINDS)
def test_whole_numbers_stay_covered(kind):
    # One forecast for all: every new target is tied with held-out ones.
    values = 1000 + np.random.default_rng(1).binomial(10, 0.3, 4000)
    forecast = Histogram(Bins.uniform(1000, 1010.3, 37), logits=torch.randn(37)).expand((4000,))
    conformal = Conformal.fit(rows_of(forecast, slice(0, 400)), values[:400], kind)
    found = covered(conformal, forecast, torch.from_numpy(values), 0.9)
    assert found > 0.9 - SIGMAS * math.sqrt(law_of_coverage(400, 3600, 0.9)[1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("offset", [1.7, 1e9], ids=str)
def test_rounding_leaves_no_target_outside_the_interval_that_it_asks_for(kind, offset):
    # Digits are lost beside tiny masses, near the ends of the bins, and far from them.
    bins = Bins(offset + np.array([0.0, 1.0, 1.3, 2.0, 4.7, 5.0]))
    probs = torch.tensor([0.3, 1e-9, 1.0, 1e-12, 0.2], dtype=torch.float64)
    uniform = np.random.default_rng(2).uniform
    ends = [bins.low + 10.0 ** uniform(-16, -6, 50), bins.high - 10.0 ** uniform(-16, -6, 50)]
    y = np.concatenate([offset + uniform(-3, 8, 60), -uniform(0, 1, 40), *ends])
    forecast = Histogram(bins, probs=probs).expand((200,))
    conformal, target = Conformal.fit(forecast, y, kind), torch.from_numpy(y)
    for rank in range(1, 201):
        low, high = conformal.interval(forecast, rank / 201)
        assert inside(target, low, high).sum() >= rank


@pytest.mark.parametrize("kind", KINDS)
def test_intervals_grow_beyond_the_bins_if_they_must(kind):
    forecast = Histogram(UNIT, logits=torch.zeros(10, 2))
    y = [0.5] * 7 + [2.5, 3.0, -4.0]
    conformal = Conformal.fit(forecast, y, kind)
    low, high = conformal.interval(rows_of(forecast, slice(0, 1)), 0.8)
    assert (low.item(), high.item()) == pytest.approx((-1.0, 3.0))
    low, high = conformal.interval(rows_of(forecast, slice(0, 1)), 0.9)
    assert (low.item(), high.item()) == pytest.approx((-4.0, 6.0))


@pytest.mark.parametrize("kind", KINDS)
def test_a_forecast_that_is_far_too_sure_still_tells_rows_apart(kind):
    # Logits fall by 60 a bin: beyond the first bin all cumulative probabilities round to 1.
    logits = -60.0 * (torch.arange(40) - torch.tensor([[10], [30]])).abs()
    forecast = Histogram(BINS, logits=logits.float().repeat(50, 1))
    y = forecast.mode + torch.linspace(-3, 3, 100)
    conformal = Conformal.fit(forecast, y, kind)
    low, high = conformal.interval(forecast, 0.9)
    assert 4.8 < (high - low).mean() < 6.6
    assert inside(y, low, high).mean() >= 0.9


def test_intervals_have_the_shape_of_the_batch():
    conformal = Conformal.fit(*simulated(50))
    for shape in [(), (3,), (2, 3)]:
        forecast = Histogram(BINS, logits=torch.randn(*shape, 40))
        low, high = conformal.interval(forecast, 0.9)
        assert low.shape == high.shape == shape
        assert low.dtype == torch.float64


# Calibration


def distance_from_uniform(values):
    """The statistic of Kolmogorov and Smirnov."""
    steps = np.arange(1, len(values) + 1) / len(values)
    return np.abs(np.sort(values) - steps).max()


# What the statistic of 3000 rows, calibrated by 3000 others, exceeds by chance once in 10^4 times.
LARGEST_DISTANCE = 2.2 * math.sqrt(1 / 3000 + 1 / 3000)
WRONG = {
    "too sure": lambda truth: surer(truth, 4.0),
    "not sure enough": lambda truth: surer(truth, 0.3),
    "biased": lambda truth: truth.with_mean(truth.mean + 0.7),
    "skewed": lambda truth: Histogram(
        truth.bins, probs=truth.probs * (truth.bins.edges[1:] + 13) ** 4
    ),
    "of another shape": lambda truth: Histogram(truth.bins, probs=truth.probs + 0.02),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_new_rows_are_predicted_honestly(wrong):
    truth, y = simulated(6000)
    forecast = WRONG[wrong](truth)
    old, new = rows_of(forecast, slice(0, 3000)), rows_of(forecast, slice(3000, 6000))
    honest = Calibrator.fit(old, y[:3000]).apply(new)
    assert distance_from_uniform(scores.pit(honest, y[3000:])) < LARGEST_DISTANCE
    assert distance_from_uniform(scores.pit(new, y[3000:])) > 1.5 * LARGEST_DISTANCE
    assert scores.crps(honest, y[3000:]) < scores.crps(new, y[3000:])


def test_an_honest_forecast_stays_nearly_as_it_is():
    truth, y = simulated(6000)
    honest = Calibrator.fit(rows_of(truth, slice(0, 3000)), y[:3000]).apply(truth)
    assert (honest.probs.cumsum(-1) - truth.probs.cumsum(-1)).abs().max() < 0.06
    new = slice(3000, 6000)
    before, after = (scores.crps(rows_of(d, new), y[new]) for d in (truth, honest))
    assert after == pytest.approx(before, rel=0.003)


@pytest.mark.parametrize("rows", [1, 3, 20, 100, 300])
def test_intervals_of_few_rows_cover_what_they_say_on_average(rows):
    truth, y = simulated(200 * (rows + 20), seed=rows)
    forecast, found = surer(truth, 4.0), []
    for start in range(0, len(y), rows + 20):
        old, new = slice(start, start + rows), slice(start + rows, start + rows + 20)
        honest = Calibrator.fit(rows_of(forecast, old), y[old]).apply(rows_of(forecast, new))
        found.append(inside(y[new], *honest.interval(0.8)).mean().item())
    if rows >= 20:
        assert np.mean(found) == pytest.approx(0.8, abs=0.02 if rows >= 100 else 0.04)
    assert np.isfinite(found).all()


masses_of_whole_numbers = torch.from_numpy(
    np.stack([stats.poisson(3).pmf(np.arange(12)), stats.poisson(4).pmf(np.arange(12))])
)


@pytest.mark.parametrize("confidence", [0.4, 1.0, 3.0])
def test_whole_numbers_get_honest_probabilities(confidence):
    """Each atom is as probable as it is frequent, though no cdf at a target is uniform."""
    bins = Bins(torch.arange(12.0).repeat_interleave(2))
    probs = torch.zeros(2, bins.count, dtype=torch.float64)
    probs[:, bins.atoms] = masses_of_whole_numbers**confidence
    truth = Histogram(bins, probs=probs)
    rows, generator = 6000, np.random.default_rng(0)
    which = torch.from_numpy(generator.integers(0, 2, rows))
    y = torch.from_numpy(generator.poisson(3 + which.numpy()).clip(0, 11).astype(float))
    forecast = Histogram(bins, probs=truth.probs[which])
    honest = Calibrator.fit(rows_of(forecast, slice(0, 3000)), y[:3000]).apply(forecast)
    assert (honest.probs[:, ~bins.atoms] == 0).all()
    uniform = scores.pit(honest[3000:], y[3000:], random_state=0)
    assert distance_from_uniform(uniform) < 1.5 * LARGEST_DISTANCE
    for value in range(7):
        predicted, found = honest.prob(float(value)).mean(), (y == value).double().mean()
        assert predicted.item() == pytest.approx(found.item(), abs=0.03)


def test_a_spike_gets_the_share_that_it_has():
    bins = Bins.uniform(0.0, 8.0, 40).with_atoms([0.0])
    generator = np.random.default_rng(0)
    is_zero = generator.uniform(size=4000) < 0.6
    y = torch.from_numpy(np.where(is_zero, 0, generator.exponential(size=4000).clip(0, 8)))
    # It says 0.4 for the spike, and twice as much as is true for what is above.
    wide = 0.6 * torch.softmax(-bins.centers[1:] / 2, 0)
    probs = torch.cat([torch.full((1,), 0.4).double(), wide])
    vague = Histogram(bins, probs=probs.expand(4000, -1))
    honest = Calibrator.fit(vague[:2000], y[:2000]).apply(vague[0])
    assert honest.prob(0.0).item() == pytest.approx(0.6, abs=0.04)
    assert honest.quantile([0.05, 0.5]).tolist() == [0.0, 0.0]
    expected = -math.log(0.1 / 0.4)  # 90% lie below
    assert honest.quantile(0.9).item() == pytest.approx(expected, abs=0.25)


logs = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=30)


@settings(max_examples=100)
@given(values=logs, weights=st.lists(st.floats(0.01, 10), min_size=30, max_size=30))
def test_the_map_rises_and_has_an_inverse(values, weights):
    points = np.array(values)[:, None]
    found = LogOddsMap.fit(points, np.array(weights[: len(values)]))
    x = torch.linspace(-60, 60, 401, dtype=torch.float64)
    assert (found(x).diff() > 0).all()
    torch.testing.assert_close(found.inverse(found(x)), x, rtol=0, atol=1e-6)
    ends = torch.tensor([-500.0, 500.0]).double()
    assert torch.isfinite(found(ends)).all()


def test_mirrored_rows_give_the_mirrored_map():
    points = np.random.default_rng(0).normal(1, 2, (50, 1))
    one, other = (LogOddsMap.fit(side * points, np.ones(50)) for side in (1, -1))
    assert one.after == pytest.approx(other.after)
    assert one.before == pytest.approx([-x for x in reversed(other.before)], abs=1e-6)


def test_calibration_heeds_the_weights():
    truth, y = simulated(4000)
    sure = torch.arange(4000)[:, None] < 2000
    forecast = Histogram(BINS, logits=truth.logits * torch.where(sure, 3.0, 0.4))
    for chosen in (sure[:, 0], ~sure[:, 0]):
        weighted = Calibrator.fit(forecast, y, chosen.double() + 1e-12)
        alone = Calibrator.fit(forecast[chosen], y[chosen])
        first = forecast[chosen][0]
        torch.testing.assert_close(
            weighted.apply(first).quantile([0.1, 0.5, 0.9]),
            alone.apply(first).quantile([0.1, 0.5, 0.9]),
            rtol=0,
            atol=0.01,
        )


def test_each_group_has_a_map_of_its_own_if_it_has_rows_enough():
    generator, rows = np.random.default_rng(3), 3000
    mean, groups = generator.uniform(-3, 3, rows), np.array(["quiet", "noisy"])[[0, 1] * 1500]
    y = mean + generator.normal(size=rows) * np.where(groups == "quiet", 0.4, 2)
    groups[-5:] = "few"
    forecast = normal(mean)
    fitted = Calibrator.fit(forecast, y, groups=groups)
    assert sorted(fitted.groups) == ["noisy", "quiet"]
    own = fitted.apply(forecast, groups)
    for name in ("quiet", "noisy"):
        of = torch.from_numpy(groups == name)
        low, high = own[of].interval(0.9)
        assert inside(torch.from_numpy(y)[of], low, high).mean().item() == pytest.approx(
            0.9, abs=0.02
        )
    unknown = fitted.apply(forecast[:2], ["new", "few"])
    torch.testing.assert_close(unknown.probs, fitted.apply(forecast[:2]).probs)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_calibrated_histograms_have_the_shape_of_the_batch(shape):
    fitted = Calibrator.fit(*simulated(50))
    forecast = Histogram(BINS, logits=torch.randn(*shape, 40))
    honest = fitted.apply(forecast)
    assert honest.batch_shape == shape
    assert (honest.bins, honest.probs.dtype) == (BINS, torch.float64)


def test_far_tails_stay_apart():
    """Logits fall by 3 a bin: what is next to nothing stays ordered, and is not nothing."""
    logits = -3.0 * (torch.arange(40) - 20).abs().double()
    forecast = Histogram(BINS, logits=logits.expand(100, -1))
    honest = Calibrator.fit(forecast, torch.linspace(-6, 6, 100).double()).apply(forecast[0])
    low, high = honest.interval(0.9)
    assert -6.5 < low < -4 < 4 < high < 6.5


# Storage and bad input


def test_json_gives_back_what_was_stored():
    forecast, y = simulated(40)
    whole = Conformal.fit(forecast, y * 4, "central")
    grouped = Conformal.fit(forecast, y, groups=["ä"] * 10 + ["b"] * 30)
    calibrators = [Calibrator.fit(forecast, y), Calibrator.fit(forecast, y, None, [1] * 40)]
    for item in (*calibrators, whole, grouped):
        text = json.dumps(item.to_json(), allow_nan=False)
        assert type(item).from_json(json.loads(text)) == item
    assert whole.depths[0] < 0
    assert sorted(grouped.groups) == ["b", "ä"]


FORECAST = Histogram(UNIT, logits=torch.zeros(10, 2))
Y = np.linspace(0.1, 1.9, 10)
FITTED = Conformal.fit(FORECAST, Y)
CALIBRATOR = Calibrator.fit(FORECAST, Y)
BAD = {
    "no-map": (lambda: Calibrator.from_json({"groups": {}}), "data: need a dict with 'overall'"),
    "no-knots": (
        lambda: Calibrator.from_json({"overall": {"before": [0]}, "groups": {}}),
        "data: need a dict with 'after'",
    ),
    "falling-knots": (lambda: LogOddsMap((0.0, 1.0), (1.0, 0.0)), "after: need finite knots that"),
    "one-knot": (lambda: LogOddsMap((0.0,), (0.0,)), "before: need as many knots .* at least two"),
    "foreign-map": (
        lambda: Calibrator.from_json({"overall": 3, "groups": 5}),
        "data: ",
    ),
    "calibrate-numbers": (lambda: Calibrator.fit(Y, Y), "distribution: .* got ndarray"),
    "apply-numbers": (lambda: CALIBRATOR.apply(Y), "distribution: .* got ndarray"),
    "calibrate-rows": (lambda: Calibrator.fit(FORECAST, Y[:3]), "does not match 3 targets"),
    "calibrate-nan": (lambda: Calibrator.fit(FORECAST, Y * math.nan), "y: 10 of 10 values are NaN"),
    "calibrate-weights": (
        lambda: Calibrator.fit(FORECAST, Y, -Y),
        "sample_weight: ",
    ),
    "calibrate-groups": (lambda: CALIBRATOR.apply(FORECAST, ["a"]), r"groups: .* got \(1,\)"),
    "kind": (lambda: Conformal.fit(FORECAST, Y, "x"), "kind: expected 'shortest' or .* got 'x'"),
    "rows": (lambda: Conformal.fit(FORECAST, Y[:3]), "does not match 3 targets"),
    "nan": (lambda: Conformal.fit(FORECAST, [math.nan] * 10), "y: 10 of 10 values are NaN"),
    "numbers": (lambda: Conformal.fit(Y, Y), "distribution: need a Histogram.* got ndarray"),
    "interval-of-numbers": (lambda: FITTED.interval(Y, 0.5), "distribution: .* got ndarray"),
    "coverage-0": (lambda: FITTED.interval(FORECAST, 0.0), "coverage: must lie strictly between"),
    "coverage-1": (lambda: FITTED.interval(FORECAST, 1.0), "coverage: must lie strictly between"),
    "few": (
        lambda: FITTED.interval(FORECAST, 0.95),
        r"coverage: 0.95 needs at least 19 held-out rows, got 10; .* at most 0.909, or",
    ),
    "no-groups": (lambda: FITTED.interval(FORECAST, 0.5, [1] * 10), "groups: given, but"),
    "short-groups": (lambda: Conformal.fit(FORECAST, Y, groups=["a"]), r"groups: .* got \(1,\)"),
    "float-groups": (
        lambda: Conformal.fit(FORECAST, Y, groups=[1.5] * 10),
        "groups: labels must be text or whole numbers, got 1.5 at index 0",
    ),
    "no-group": (lambda: Conformal.fit(FORECAST, Y, groups=["a"] * 9 + [None]), "got None at .* 9"),
    "folds": (lambda: Conformal.fit_folds([FORECAST], [Y, Y]), "got 1 distributions and 2 arrays"),
    "no-folds": (lambda: Conformal.fit_folds([], []), "need one of each for every fold"),
    "unsorted": (lambda: Conformal("central", (0.5, 0.1)), "depths: need sorted numbers"),
    "empty": (lambda: Conformal("central", ()), "depths: need at least one row"),
    "too-deep": (lambda: Conformal("central", (0.5, 1.1)), "depths: need sorted numbers"),
    "no-depths": (lambda: Conformal.from_json({"kind": "central"}), "data: .* 'depths'"),
    "foreign": (
        lambda: Conformal.from_json({"kind": "central", "depths": 3, "groups": {}}),
        "data: not as to_json gives it",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named_with_its_value(case):
    make, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        make()
