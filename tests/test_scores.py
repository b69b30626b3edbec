"""Scores of predicted distributions against closed forms, other libraries, and simulations."""

import copy
import math
import pickle

import numpy as np
import pytest
import scoringrules
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn import config_context
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_pinball_loss
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from softbins import Bins, Histogram, HistogramRegressor, NeuralRegressor, scores

ROWS = 4000
FINE = Bins.uniform(-12.0, 12.0, 480)
LEVELS = [0.1, 0.25, 0.5, 0.9]


def normal(mean, deviation, bins=FINE):
    """Histograms of normal distributions, one for each mean."""
    edges = bins.edges.numpy()
    cumulative = norm.cdf(edges, np.asarray(mean)[:, None], deviation)
    return Histogram(bins, probs=torch.from_numpy(np.diff(cumulative)))


def simulated(rows=ROWS, seed=0):
    """Means, and targets that are normal about them with deviation 1."""
    generator = np.random.default_rng(seed)
    mean = generator.uniform(-3, 3, rows)
    return mean, mean + generator.normal(size=rows)


def largest_distance(rows, chance=1e-6):
    """What the distance of an empirical from its true cdf exceeds with that chance at most.

    Dvoretzky-Kiefer-Wolfowitz with Massart's constant: P(D > e) <= 2 exp(-2 n e^2).
    """
    return math.sqrt(math.log(2 / chance) / (2 * rows))


def distance_from_uniform(values):
    """The Kolmogorov-Smirnov statistic of values on [0, 1]."""
    ordered, n = np.sort(values), len(values)
    steps = np.arange(n + 1) / n
    return max(np.abs(ordered - steps[:-1]).max(), np.abs(ordered - steps[1:]).max())


# Golden numbers: two bins [0, 1) and [1, 3] with probabilities 1/4 and 3/4


@pytest.fixture
def golden():
    probs = torch.tensor([[0.25, 0.75]], dtype=torch.float64)
    return Histogram(Bins([0.0, 1.0, 3.0]), probs=probs.expand(2, 2))


def test_golden_crps(golden):
    # Integral of cdf^2 before y and (1 - cdf)^2 after it. The cdf is t/4 on [0, 1], then rises by
    # 3/8 a unit. At y = 2 it is 5/8; at y = 4 all of the cdf^2 counts, and one more unit of 1.
    at_2 = 1 / 48 + ((5 / 8) ** 3 - (1 / 4) ** 3 + (3 / 8) ** 3) / (9 / 8)
    at_4 = 1 / 48 + (1 - (1 / 4) ** 3) / (9 / 8) + 1
    assert scores.crps(golden, [2.0, 4.0]) == pytest.approx((at_2 + at_4) / 2)


def test_golden_nll(golden):
    # Densities 1/4 and 3/8.
    assert scores.nll(golden, [0.5, 2.0]) == pytest.approx(-math.log(1 / 4 * 3 / 8) / 2)


def test_nll_is_infinite_outside_the_bins_but_for_rows_without_weight(golden):
    assert scores.nll(golden, [0.5, 3.1]) == math.inf
    assert scores.nll(golden, [0.5, 3.1], [2.0, 0.0]) == pytest.approx(math.log(4))


def test_golden_pinball():
    # Level 0.9: 0.9 for each unit below y, 0.1 above; level 0.5: half of the distance.
    y, quantiles = [1.0, 4.0], [[0.0, 2.0], [3.0, 2.0]]
    expected = (0.5 * 1 + 0.1 * 1 + 0.5 * 1 + 0.9 * 2) / 4
    assert scores.pinball(y, quantiles, [0.5, 0.9]) == pytest.approx(expected)


def test_golden_interval_score():
    # alpha = 0.2: widths 1, 2, 3; y is inside, 0.5 below, and 1 above, each distance times 10.
    y, low, high = [0.5, -0.5, 4.0], [0.0, 0.0, 0.0], [1.0, 2.0, 3.0]
    assert scores.interval_score(y, low, high, 0.8) == pytest.approx((1 + 7 + 13) / 3)
    assert scores.coverage(y, low, high) == pytest.approx(1 / 3)
    assert scores.width(low, high) == pytest.approx(2.0)


def test_coverage_includes_the_ends():
    assert scores.coverage([0.0, 1.0, 1.5], [0.0] * 3, [1.0] * 3) == pytest.approx(2 / 3)


def test_golden_pit(golden):
    assert scores.pit(golden, [0.5, 2.0]).tolist() == pytest.approx([1 / 8, 5 / 8])
    assert scores.pit(golden, [-1.0, 9.0]).tolist() == [0.0, 1.0]


def test_golden_pit_of_whole_numbers(golden):
    # Half a step about 1 and 2: cdf 1/8 to 7/16, and 7/16 to 13/16.
    draws = np.array([scores.pit(golden, [1, 2], True, seed) for seed in range(200)])
    assert ((draws >= [1 / 8, 7 / 16]) & (draws <= [7 / 16, 13 / 16])).all()
    assert draws.min(0) == pytest.approx([1 / 8, 7 / 16], abs=0.02)
    assert draws.max(0) == pytest.approx([7 / 16, 13 / 16], abs=0.02)


def test_golden_reliability(golden):
    # PIT values 1/8 and 5/8: central intervals of probability 3/4 and 1/4 have them at their ends.
    levels, observed = scores.reliability(golden, [0.5, 2.0], [0.2, 0.3, 0.7, 0.8])
    assert levels.tolist() == [0.2, 0.3, 0.7, 0.8]
    assert observed.tolist() == [0.0, 0.5, 0.5, 1.0]
    _, observed = scores.reliability(golden, [0.5, 2.0], [0.1, 0.2, 0.7], kind="quantile")
    assert observed.tolist() == [0.0, 0.5, 1.0]


def test_golden_reliability_of_whole_numbers(golden):
    # Rows spread evenly over [1/8, 7/16] and [7/16, 13/16]; half of all is [1/4, 3/4].
    _, observed = scores.reliability(golden, [1, 2], 0.5, integer=True)
    first, second = (7 / 16 - 1 / 4) / (5 / 16), (3 / 4 - 7 / 16) / (6 / 16)
    assert observed.tolist() == pytest.approx([(first + second) / 2])


def test_targets_outside_the_bins_are_in_no_interval(golden):
    assert scores.reliability(golden, [-1.0, 9.0], [0.5, 0.999]).observed.tolist() == [0.0, 0.0]


# Closed forms and other libraries


@pytest.mark.parametrize("y", [-1.0, 0.0, 0.3, 1.0, 2.5])
def test_crps_of_a_uniform_distribution(y):
    uniform = Histogram(Bins.uniform(0, 1, 7), probs=torch.ones(1, 7, dtype=torch.float64))
    inside = min(max(y, 0), 1)
    expected = (inside**3 + (1 - inside) ** 3) / 3 + abs(y - inside)
    assert scores.crps(uniform, [y]) == pytest.approx(expected)


def test_crps_and_nll_of_fine_histograms_are_those_of_the_normal():
    mean, y = simulated(500)
    predicted = normal(mean, 1.0, Bins.uniform(-12.0, 12.0, 2400))
    # Bins of width w = 0.01: the errors are of the order of w^2 for the CRPS and, as the density
    # is that of the bin's middle, of w |y - mean| / 2 <= 0.02 for a row's log density.
    expected = scoringrules.crps_normal(y, mean, 1.0).mean()
    assert scores.crps(predicted, y) == pytest.approx(expected, abs=1e-4)
    assert scores.nll(predicted, y) == pytest.approx(-norm.logpdf(y, mean).mean(), abs=1e-3)


def test_crps_is_that_of_many_quantiles():
    mean, y = simulated(200)
    predicted = normal(mean, 1.0)
    levels = (np.arange(2000) + 0.5) / 2000
    quantiles = predicted.quantile(torch.from_numpy(levels)).numpy()
    by_quantiles = scoringrules.crps_quantile(y, quantiles, levels).mean()
    assert scores.crps(predicted, y) == pytest.approx(by_quantiles, abs=1e-3)
    assert scores.crps(predicted, y) == pytest.approx(
        2 * scores.pinball(y, quantiles, levels), abs=1e-3
    )


def test_pinball_agrees_with_other_libraries():
    generator = np.random.default_rng(0)
    y, quantiles = generator.normal(size=50), generator.normal(size=(50, 4))
    weight = generator.uniform(size=50)
    ours = scores.pinball(y, quantiles, LEVELS, weight)
    theirs = [
        mean_pinball_loss(y, column, sample_weight=weight, alpha=level)
        for column, level in zip(quantiles.T, LEVELS, strict=True)
    ]
    assert ours == pytest.approx(np.mean(theirs))
    plain = scoringrules.quantile_score(y[:, None], quantiles, np.array(LEVELS)).mean()
    assert scores.pinball(y, quantiles, LEVELS) == pytest.approx(plain)


@pytest.mark.parametrize("coverage", [0.05, 0.5, 0.9, 0.99])
def test_interval_score_agrees_with_another_library(coverage):
    generator = np.random.default_rng(1)
    y, low = generator.normal(size=(2, 50))
    high = low + generator.exponential(size=50)
    expected = scoringrules.interval_score(y, low, high, 1 - coverage).mean()
    assert scores.interval_score(y, low, high, coverage) == pytest.approx(expected)


finite = st.floats(-1e3, 1e3)


@given(y=finite, low=finite, gap=st.floats(0, 1e3), coverage=st.floats(0.01, 0.99))
def test_interval_score_is_the_pinball_loss_of_both_ends(y, low, gap, coverage):
    # With alpha = 1 - coverage: score = 2 / alpha * (sum of the losses at alpha/2, 1 - alpha/2).
    alpha = 1 - coverage
    ends = [[low, low + gap]]
    losses = 2 * scores.pinball([y], ends, [alpha / 2, 1 - alpha / 2])
    score = scores.interval_score([y], [low], [low + gap], coverage)
    assert score == pytest.approx(2 / alpha * losses, rel=1e-9, abs=1e-6)


# Weights


def scores_of(y, mean, sample_weight=None):
    predicted = normal(mean, 0.8, Bins.uniform(-12, 12, 60))
    low, high = predicted.interval(0.5)
    return [
        scores.crps(predicted, y, sample_weight),
        scores.nll(predicted, y, sample_weight),
        scores.pinball(y, predicted.quantile(LEVELS), LEVELS, sample_weight),
        scores.interval_score(y, low, high, 0.5, sample_weight),
        scores.coverage(y, low, high, sample_weight),
        scores.width(low, high, sample_weight),
        *scores.reliability(predicted, y, sample_weight=sample_weight).observed,
    ]


@given(repeats=st.lists(st.integers(0, 4), min_size=8, max_size=8).filter(any))
def test_weights_are_repeated_rows(repeats):
    mean, y = simulated(8)
    repeated = scores_of(np.repeat(y, repeats), np.repeat(mean, repeats))
    assert scores_of(y, mean, repeats) == pytest.approx(repeated)
    # Only the ratios of weights matter.
    assert scores_of(y, mean, 0.1 * np.array(repeats)) == pytest.approx(repeated)


def test_equal_weights_are_no_weights():
    mean, y = simulated(20)
    assert scores_of(y, mean, np.full(20, 7.0)) == pytest.approx(scores_of(y, mean))


# Propriety: nobody beats the truth

RIVALS = {"shifted": (0.4, 1.0), "too narrow": (0.0, 0.6), "too wide": (0.0, 1.7)}
JUDGES = {
    "crps": scores.crps,
    "nll": scores.nll,
    "pinball": lambda d, y: scores.pinball(y, d.quantile(LEVELS), LEVELS),
    "interval": lambda d, y: scores.interval_score(y, *d.interval(0.8), 0.8),
}


@pytest.mark.parametrize("rival", RIVALS)
@pytest.mark.parametrize("judge", JUDGES)
def test_the_true_distribution_scores_best(judge, rival):
    mean, y = simulated(1500)
    shift, deviation = RIVALS[rival]
    truth = JUDGES[judge](normal(mean, 1.0), y)
    assert truth < JUDGES[judge](normal(mean + shift, deviation), y) - 0.01


probabilities = st.lists(st.floats(0.01, 1.0), min_size=5, max_size=5)


@given(truth=probabilities, other=probabilities)
def test_expected_scores_are_best_at_the_truth(truth, other):
    """Within a bin both scores are at most quadratic in y, for which two Gauss points are exact."""
    bins = Bins([0.0, 0.5, 1.0, 3.0, 4.0, 7.0])
    p, q = (Histogram(bins, probs=torch.tensor(r, dtype=torch.float64)) for r in (truth, other))
    y = torch.cat([bins.centers + side * bins.widths / math.sqrt(12) for side in (-1, 1)])
    weight = p.probs.repeat(2)
    for score in (scores.crps, scores.nll):
        best = score(p.expand((10,)), y, weight)
        assert best <= score(q.expand((10,)), y, weight) + 1e-12
    # What is expected of the truth is its entropy.
    assert scores.nll(p.expand((10,)), y, weight) == pytest.approx(p.entropy().item())


# Calibration


def test_pit_of_a_calibrated_forecast_is_uniform():
    mean, y = simulated()
    bound = largest_distance(ROWS)
    assert distance_from_uniform(scores.pit(normal(mean, 1.0), y)) < bound
    assert distance_from_uniform(scores.pit(normal(mean, 0.5), y)) > 2 * bound
    assert distance_from_uniform(scores.pit(normal(mean + 0.4, 1.0), y)) > 2 * bound


def test_pit_of_whole_numbers_is_uniform_only_with_draws():
    mean, y = simulated()
    predicted = normal(mean, 1.0)
    # Rounded draws of the forecast: the probability of k is cdf(k + 1/2) - cdf(k - 1/2).
    whole = np.floor(y + 0.5)
    bound = largest_distance(ROWS)
    drawn = scores.pit(predicted, whole, integer=True, random_state=0)
    assert distance_from_uniform(drawn) < bound
    # A steady mean shows it best: the probability of the middle number is 0.38, a jump of 0.38
    # in the cdf of cdf(y), half of which lies on one side of the diagonal at least.
    steady = normal(np.zeros(ROWS), 1.0)
    rounded = np.floor(y - mean + 0.5)
    assert distance_from_uniform(scores.pit(steady, rounded)) > 0.19 - bound
    assert distance_from_uniform(scores.pit(steady, rounded, True, 0)) < bound


def test_pit_follows_its_random_state():
    mean, y = simulated(50)
    predicted, whole = normal(mean, 1.0), np.round(y)
    first, again, other = (scores.pit(predicted, whole, True, seed) for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()
    shared = np.random.RandomState(1)
    assert (scores.pit(predicted, whole, True, shared) == first).all()


@pytest.mark.parametrize("kind", ["central", "quantile"])
def test_a_calibrated_forecast_is_on_the_diagonal(kind):
    # Observed is the empirical cdf, at the levels, of the PIT u or of |2 u - 1|: both uniform.
    mean, y = simulated()
    levels, observed = scores.reliability(normal(mean, 1.0), y, kind=kind)
    assert levels == pytest.approx(np.arange(1, 20) / 20)
    assert np.abs(observed - levels).max() < largest_distance(ROWS)


@pytest.mark.parametrize("kind", ["central", "quantile"])
def test_a_calibrated_forecast_of_whole_numbers_is_on_the_diagonal(kind):
    mean, y = simulated()
    predicted, whole = normal(mean, 1.0), np.floor(y + 0.5)
    levels, observed = scores.reliability(predicted, whole, kind=kind, integer=True)
    assert np.abs(observed - levels).max() < largest_distance(ROWS)


@pytest.mark.parametrize(("deviation", "side"), [(0.5, -1), (2.0, 1)], ids=["narrow", "wide"])
def test_reliability_of_a_wrong_deviation(deviation, side):
    # The central interval reaches to z = deviation * Phi^-1((1 + level) / 2) on both sides.
    mean, y = simulated()
    levels, observed = scores.reliability(normal(mean, deviation), y)
    expected = 2 * norm.cdf(deviation * norm.ppf((1 + levels) / 2)) - 1
    assert np.abs(observed - expected).max() < largest_distance(ROWS)
    assert (side * (observed - levels) > 0).all()


def test_reliability_of_whole_numbers_is_the_mean_of_many_draws():
    mean, y = simulated(40)
    predicted, whole = normal(mean, 1.0), np.round(y)
    draws = np.array([scores.pit(predicted, whole, True, seed) for seed in range(500)])
    observed = scores.reliability(predicted, whole, [0.3, 0.7], integer=True).observed
    # 20000 independent draws, each inside or not: 5 standard errors of at most 0.5 / sqrt(20000).
    by_draws = [(np.abs(2 * draws - 1) <= level).mean() for level in (0.3, 0.7)]
    assert observed == pytest.approx(by_draws, abs=5 * 0.5 / math.sqrt(20000))


def test_central_reliability_is_the_coverage_of_intervals():
    mean, y = simulated(300)
    predicted = normal(mean, 0.9)
    levels, observed = scores.reliability(predicted, y)
    for level, share in zip(levels, observed, strict=True):
        assert scores.coverage(y, *predicted.interval(level)) == pytest.approx(share)


# What comes in


def test_arrays_tensors_and_lists_are_the_same():
    mean, y = simulated(10)
    weight = np.arange(10)
    expected = scores_of(y, mean, weight)
    frozen = y.copy()
    frozen.flags.writeable = False
    for form in (list, torch.from_numpy, lambda v: v.astype(object)):
        assert scores_of(form(y), mean, form(weight)) == expected
    assert scores_of(frozen, mean, weight) == expected
    assert frozen.tolist() == y.tolist()


def test_scores_are_python_floats_even_with_gradients_and_float32():
    logits = torch.randn(3, 10, requires_grad=True)
    predicted = Histogram(Bins.uniform(0, 1, 10), logits=logits)
    y = torch.rand(3)
    low, high = predicted.interval(0.9)
    for value in (
        scores.crps(predicted, y),
        scores.nll(predicted, y),
        scores.pinball(y, predicted.quantile(LEVELS), LEVELS),
        scores.pinball(y, predicted.quantile(0.3), 0.3),
        scores.interval_score(y, low, high, 0.9),
    ):
        assert type(value) is float
    for values in (scores.pit(predicted, y), scores.reliability(predicted, y).observed):
        assert (type(values), values.dtype) == (np.ndarray, np.float64)


THREE = Histogram(Bins([0.0, 1.0, 2.0]), probs=torch.ones(3, 2))
Y = [0.5, 1.0, 1.5]
MISTAKES = {
    "empty y": (lambda: scores.crps(THREE, []), "y: need at least one row, got none"),
    "a column": (lambda: scores.crps(THREE, np.ones((3, 1))), r"y: .*got shape \(3, 1\)"),
    "nan y": (lambda: scores.nll(THREE, [0, math.nan, 1]), r"y: 1 of 3 .*index 1 \(nan\)"),
    "infinite y": (lambda: scores.pit(THREE, [0, math.inf, 1]), r"y: .*index 1 \(inf\)"),
    "text": (lambda: scores.crps(THREE, ["a", "b", "c"]), "y: need an array of numbers .*'a'"),
    "other rows": (lambda: scores.crps(THREE, [1.0]), r"batch shape \(3,\) .* 1 targets"),
    "swapped": (lambda: scores.crps(np.array(Y), THREE), "distribution: .*got ndarray"),
    "fractions": (
        lambda: scores.pit(THREE, [1, 1.5, 2], integer=True),
        "y: integer=True needs whole numbers, got 1.5 at index 1",
    ),
    "kind": (lambda: scores.reliability(THREE, Y, kind="both"), "kind: .*got 'both'"),
    "level 1": (lambda: scores.reliability(THREE, Y, [0.5, 1.0]), "levels: .*got 1.0"),
    "level 0": (lambda: scores.pinball(Y, Y, 0.0), "levels: must lie strictly .*got 0.0"),
    "nan level": (lambda: scores.pinball(Y, Y, math.nan), "levels: .*nan"),
    "no levels": (lambda: scores.reliability(THREE, Y, []), r"levels: .*shape \(0,\)"),
    "square levels": (lambda: scores.reliability(THREE, Y, [[0.5]]), r"levels: .*\(1, 1\)"),
    "quantiles": (
        lambda: scores.pinball(Y, np.ones((3, 2)), [0.1, 0.5, 0.9]),
        r"quantiles: need shape \(3, 3\), .*got \(3, 2\)",
    ),
    "quantiles of one": (
        lambda: scores.pinball(Y, np.ones((3, 2)), 0.5),
        r"quantiles: need shape \(3,\), .*got \(3, 2\)",
    ),
    "nan quantile": (lambda: scores.pinball(Y, [1, math.nan, 2], 0.5), "quantiles: 1 of 3"),
    "coverage": (lambda: scores.interval_score(Y, Y, Y, 90), "coverage: .*got 90"),
    "coverages": (lambda: scores.interval_score(Y, Y, Y, [0.5]), "coverage: need one number"),
    "crossed": (
        lambda: scores.interval_score(Y, [0, 2, 0], [1, 1, 1], 0.5),
        r"low, high: need low <= high, got low=2 and high=1 at index 1 \(1 of 3 rows\)",
    ),
    "crossed width": (lambda: scores.width([1.0], [0.0]), "low, high: need low <= high"),
    "high of other rows": (lambda: scores.coverage(Y, Y, [9.0]), "high: .*3 rows, got 1"),
    "ends of other rows": (lambda: scores.coverage(Y, [1.0], [2.0]), "low, high: .*got 1"),
    "nan low": (lambda: scores.width([math.nan], [0.0]), "low: 1 of 1 values"),
    "no intervals": (lambda: scores.width([], []), "low: need at least one row"),
    "weights": (lambda: scores.crps(THREE, Y, [1.0]), "sample_weight: .*3 rows, got 1"),
    "negative weight": (lambda: scores.crps(THREE, Y, [1, -1, 1]), r"sample_weight: .*\(-1\)"),
    "nan weight": (lambda: scores.crps(THREE, Y, [1, math.nan, 1]), "sample_weight: .*NaN"),
    "no weight": (lambda: scores.crps(THREE, Y, [0, 0, 0]), "sample_weight: all .* zero"),
    "scorer's levels": (lambda: scores.neg_pinball([0.5, 2.0]), "levels: .*got 2.0"),
    "scorer's coverage": (lambda: scores.neg_interval_score(1.0), "coverage: .*got 1.0"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_named(mistake):
    attempt, message = MISTAKES[mistake]
    with pytest.raises(ValueError, match=message):
        attempt()


# Scorers for scikit-learn

QUICK = {"hidden": (16,), "max_epochs": 15, "learning_rate": 1e-2, "random_state": 0}
TABULAR = QUICK | {"members": 2, "trees": False}
SCORERS = {
    "neg_crps": scores.neg_crps,
    "neg_nll": scores.neg_nll,
    "neg_pinball(0.9)": scores.neg_pinball(0.9),
    "neg_pinball((0.1, 0.5))": scores.neg_pinball([0.1, 0.5]),
    "neg_interval_score(0.8)": scores.neg_interval_score(0.8),
}


class Climate(RegressorMixin, BaseEstimator):
    """A normal distribution of one deviation about the mean target, whatever X is."""

    def __init__(self, deviation=1.0):
        self.deviation = deviation

    def fit(self, X, y):
        self.mean_ = float(np.mean(y))
        return self

    def predict_distribution(self, X):
        return normal(np.full(len(X), self.mean_), self.deviation)


def table(rows=200):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(rows, 2))
    return X, X[:, 0] + 0.1 * generator.normal(size=rows)


def test_scorers_are_the_scores_with_their_signs_turned():
    X, y = table(50)
    weight = np.arange(50)
    model = Climate().fit(X, y)
    predicted = model.predict_distribution(X)
    low, high = predicted.interval(0.8)
    expected = {
        "neg_crps": scores.crps(predicted, y, weight),
        "neg_nll": scores.nll(predicted, y, weight),
        "neg_pinball(0.9)": scores.pinball(y, predicted.quantile(0.9), 0.9, weight),
        "neg_pinball((0.1, 0.5))": scores.pinball(
            y, predicted.quantile([0.1, 0.5]), [0.1, 0.5], weight
        ),
        "neg_interval_score(0.8)": scores.interval_score(y, low, high, 0.8, weight),
    }
    for name, scorer in SCORERS.items():
        assert scorer(model, X, y, sample_weight=weight) == -expected[name]
        assert scorer(model, X, y) == scorer(model, X, y, sample_weight=np.ones(50))


@pytest.mark.parametrize("name", SCORERS)
def test_scorers_are_copied_pickled_and_shown(name):
    scorer = SCORERS[name]
    assert repr(scorer) == name
    for other in (pickle.loads(pickle.dumps(scorer)), copy.deepcopy(scorer)):
        assert other == scorer
        assert hash(other) == hash(scorer)


@pytest.mark.parametrize("name", SCORERS)
def test_a_search_finds_the_true_deviation(name):
    y = np.random.default_rng(0).normal(size=1200)
    search = GridSearchCV(Climate(), {"deviation": [0.4, 1.0, 2.5]}, scoring=SCORERS[name], cv=3)
    search.fit(np.zeros((1200, 1)), y)
    assert search.best_params_ == {"deviation": 1.0}
    assert search.score(np.zeros((1200, 1)), y) == SCORERS[name](search, np.zeros((1200, 1)), y)


def test_a_search_over_sigma_finds_the_sharper_forecast():
    """Noise of 0.1 on a range of 6: Gaussians ten bins wide are a deviation of about 1.5."""
    X, y = table()
    # Not calibrated: held-out rows would sharpen what such Gaussians have blurred.
    model = HistogramRegressor.as_in_paper(**QUICK)
    search = GridSearchCV(model, {"sigma": [1.0, 10.0]}, scoring=scores.neg_crps, cv=2)
    search.fit(X, y)
    assert search.best_params_ == {"sigma": 1.0}
    by_sigma = search.cv_results_["mean_test_score"]
    assert by_sigma[1] < by_sigma[0] < 0


def test_pipelines_and_searches_are_opened():
    X, y = table(60)
    plain = HistogramRegressor(**TABULAR).fit(StandardScaler().fit_transform(X), y)
    expected = scores.neg_crps(plain, StandardScaler().fit_transform(X), y)
    piped = make_pipeline(StandardScaler(), HistogramRegressor(**TABULAR)).fit(X, y)
    assert scores.neg_crps(piped, X, y) == pytest.approx(expected)
    alone = make_pipeline(Climate()).fit(X, y)
    assert scores.neg_crps(alone, X, y) == scores.neg_crps(Climate().fit(X, y), X, y)
    nested = GridSearchCV(
        make_pipeline(StandardScaler(), Climate()),
        {"climate__deviation": [0.5, 2.0]},
        scoring=scores.neg_crps,
        cv=2,
    )
    assert (cross_val_score(nested, X, y, scoring=scores.neg_crps, cv=2) < 0).all()


def test_cross_validation_gives_the_scores_of_its_folds():
    X, y = table(60)
    folds = KFold(3)
    found = cross_val_score(Climate(0.7), X, y, scoring=scores.neg_nll, cv=folds)
    expected = [
        -scores.nll(Climate(0.7).fit(X[a], y[a]).predict_distribution(X[b]), y[b])
        for a, b in folds.split(X)
    ]
    assert found.tolist() == pytest.approx(expected)


def test_scorers_work_with_metadata_routing():
    X, y = table(40)
    plain = cross_val_score(Climate(), X, y, scoring=scores.neg_crps, cv=2)
    with config_context(enable_metadata_routing=True):
        routed = cross_val_score(Climate(), X, y, scoring=scores.neg_crps, cv=2)
    assert routed.tolist() == plain.tolist()


@pytest.mark.slow
def test_scorers_travel_to_other_processes():
    X, y = table(60)
    model = HistogramRegressor(**TABULAR)
    for scorer in (scores.neg_crps, scores.neg_pinball([0.1, 0.9])):
        here = cross_val_score(model, X, y, scoring=scorer, cv=2)
        there = cross_val_score(model, X, y, scoring=scorer, cv=2, n_jobs=2)
        assert there.tolist() == pytest.approx(here.tolist())


@pytest.mark.parametrize(
    "model",
    [
        NeuralRegressor("l2", **QUICK),
        NeuralRegressor("l2-softmax", **QUICK),
        LinearRegression(),
        make_pipeline(StandardScaler(), LinearRegression()),
    ],
    ids=["l2", "l2-softmax", "linear", "pipeline"],
)
def test_estimators_of_numbers_are_refused(model):
    X, y = table(30)
    message = r"estimator: \w+Regress\S+ predicts numbers, no distributions; use HistogramRegressor"
    with pytest.raises(ValueError, match=message):
        scores.neg_crps(model.fit(X, y), X, y)
    with pytest.raises(ValueError, match="neg_mean_absolute_error"):
        cross_val_score(model, X, y, scoring=scores.neg_crps, cv=2, error_score="raise")


@pytest.mark.parametrize("objective", ["hl-gaussian", "hl-uniform", "hl-onebin", "mdn"])
def test_every_objective_that_the_refusal_names_is_accepted(objective):
    X, y = table(30)
    model = NeuralRegressor(objective, **QUICK | {"max_epochs": 1}).fit(X, y)
    assert math.isfinite(scores.neg_crps(model, X, y))


def test_an_estimator_that_is_not_fitted_says_so():
    with pytest.raises(NotFittedError):
        scores.neg_crps(HistogramRegressor(), *table(5))


# Atoms


def test_where_the_cdf_jumps_its_share_counts_without_being_told():
    """3/4 at 0, and a quarter above."""
    bins = Bins([0.0, 0.0, 1.0, 2.0])
    forecast = Histogram(bins, probs=torch.tensor([0.75, 0.125, 0.125]).double()).expand((4000,))
    torch.manual_seed(0)
    y = forecast.sample()
    drawn = scores.pit(forecast, y, random_state=0)
    steps = np.arange(1, 4001) / 4000
    assert np.abs(np.sort(drawn) - steps).max() < 2 / math.sqrt(4000)
    assert (drawn[y.numpy() == 0] <= 0.75).all()
    found = scores.reliability(forecast, y, [0.2, 0.5, 0.9])
    np.testing.assert_allclose(found.observed, [0.2, 0.5, 0.9], atol=0.03)
    both = scores.reliability(forecast, y, [0.3, 0.75], kind="quantile").observed
    np.testing.assert_allclose(both, [0.3, 0.75], atol=0.03)
