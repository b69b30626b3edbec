"""All predictions of a HistogramRegressor come from one distribution for each row.

Fits are tiny: what is said here holds however good they are.
"""

import numpy as np
import pytest
import torch

from softbins import Bins, HistogramRegressor, NeuralRegressor, load, scores
from tests.tabular.noisy_tables import KINDS, simulated

LEVELS = np.array([0.005, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.995])


def quick(**parameters):
    given = {"hidden": (8,), "max_epochs": 3, "members": 2, "trees": False, "random_state": 0}
    return HistogramRegressor(**(given | parameters))


def table(kind, rows=150, seed=0):
    return simulated(kind, rows, np.random.default_rng(seed))


@pytest.fixture(scope="module", params=KINDS)
def fitted(request):
    """A model, and features of new rows."""
    x, y = table(request.param)
    return request.param, quick().fit(x, y), table(request.param, 30, seed=1)


def test_intervals_are_quantiles(fitted):
    _, model, (x, _) = fitted
    for coverage in (0.2, 0.5, 0.9, 0.99):
        levels = [(1 - coverage) / 2, (1 + coverage) / 2]
        interval = model.predict_interval(x, coverage)
        np.testing.assert_array_equal(interval, model.predict_quantiles(x, levels))
        ends = torch.stack(model.predict_distribution(x).interval(coverage), -1)
        np.testing.assert_allclose(interval, ends.numpy(), rtol=1e-9, atol=1e-9)


def test_the_cdf_inverts_quantiles(fitted):
    kind, model, (x, _) = fitted
    quantiles = model.predict_quantiles(x, LEVELS)
    for level, column in zip(LEVELS, quantiles.T, strict=True):
        found = np.diag(model.predict_cdf(x, column))
        assert (found >= level - 1e-9).all()
        if kind in ("zero-inflated", "counts"):
            below = np.diag(model.predict_cdf(x, np.nextafter(column, -np.inf)))
            assert (below <= level + 1e-9).all()
        else:
            np.testing.assert_allclose(found, level, atol=1e-9)


def test_predictions_are_means_of_the_distributions(fitted):
    _, model, (x, _) = fitted
    predicted = model.predict_distribution(x)
    away = np.abs(predicted.mean.numpy() - model.predict(x))
    # Apart from it only where a bound forces it.
    assert away.mean() <= 0.01 * predicted.stddev.mean().item()
    np.testing.assert_allclose(model.predict(x, output="median"), predicted.median, atol=1e-9)


def test_samples_follow_the_distribution(fitted):
    _, model, (x, _) = fitted
    torch.manual_seed(0)
    predicted = model.predict_distribution(x[:5])
    samples = predicted.sample((4000,))
    for place in predicted.quantile(LEVELS.tolist()).unbind(-1):
        share, expected = (samples <= place).double().mean(0), predicted.cdf(place)
        assert ((share - expected).abs() < 5 * np.sqrt(0.25 / 4000)).all()


def test_all_is_the_same_after_save_and_load(fitted, tmp_path):
    _, model, (x, _) = fitted
    model.save(tmp_path / "a.model")
    again = load(tmp_path / "a.model")
    np.testing.assert_array_equal(again.predict(x), model.predict(x))
    np.testing.assert_array_equal(
        again.predict_quantiles(x, LEVELS), model.predict_quantiles(x, LEVELS)
    )
    for calibrated in (True, False):
        one, other = (m.predict_distribution(x, calibrated=calibrated) for m in (model, again))
        assert one.bins == other.bins
        torch.testing.assert_close(one.probs, other.probs, rtol=0, atol=0)


def test_the_raw_distribution_is_whole_as_well(fitted):
    _, model, (x, _) = fitted
    raw = model.predict_distribution(x, calibrated=False)
    np.testing.assert_allclose(raw.probs.sum(-1), 1.0)
    interval = model.predict_interval(x, 0.8, calibrated=False)
    np.testing.assert_allclose(interval, torch.stack(raw.interval(0.8), -1), atol=1e-9)
    assert (model.predict_interval(x, 0.8) != interval).any()


def test_nothing_lies_beyond_an_evident_bound(fitted):
    kind, model, (x, _) = fitted
    predicted = model.predict_distribution(x)
    if kind in ("zero-inflated", "counts"):
        assert predicted.bins.low == 0.0
        assert (model.predict_interval(x, 0.99) >= 0).all()
        assert (predicted.cdf(torch.tensor(-1e-9)) == 0).all()


def test_intervals_of_zero_inflated_targets_begin_at_zero_exactly():
    x, y = table("zero-inflated", 400)
    model = quick(max_epochs=40).fit(x, y)
    assert 0.2 < model.predict_distribution(x).prob(0.0).mean().item() < 0.9
    assert (model.predict_interval(x[:50], 0.9)[:, 0] == 0).mean() > 0.9
    assert (model.predict_quantiles(x[:50], [0.01]) == 0).all()


def test_counts_have_probabilities():
    x, y = table("counts", 400)
    model = quick(max_epochs=60).fit(x, y)
    predicted = model.predict_distribution(x)
    assert predicted.prob(3.0).mean().item() == pytest.approx((y == 3).mean(), abs=0.06)
    assert predicted.prob(3.5).max().item() == 0
    assert (model.predict_quantiles(x, LEVELS) % 1 == 0).all()
    everything = sum(predicted.prob(float(value)) for value in range(60))
    np.testing.assert_allclose(everything, 1.0)
    # Shares of jumps count without being told.
    found = scores.reliability(predicted, y, [0.5, 0.9]).observed
    np.testing.assert_allclose(found, [0.5, 0.9], atol=0.1)


def test_bounds_that_are_known_are_kept():
    x, y = table("even")
    model = quick(lower=-2.0, upper=4.0).fit(x, y.clip(-1.9, 3.9))
    predicted = model.predict_distribution(x)
    assert predicted.bins.low == -2.0
    assert predicted.bins.high <= 4.0
    again = quick(lower=-2.0, bins=20, early_stopping=False).fit(x, y.clip(-1.9))
    assert again.bins_.low == -2.0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"lower": 0.0}, "lower: 0 is above the smallest target, -1.2"),
        ({"upper": 0.0}, "upper: 0 is below the largest target, 2.1"),
        ({"lower": "0"}, "lower: need None or a finite number, got '0'"),
        ({"upper": float("inf")}, "upper: need None or a finite number, got inf"),
        ({"lower": 3.0, "upper": 1.0}, "lower: 3 is above"),
    ],
)
def test_bounds_that_targets_cross_are_refused(parameters, message):
    x, y = table("even", 40)
    with pytest.raises(ValueError, match=message):
        quick(**parameters).fit(x, y)


def test_bins_of_ones_own_may_have_atoms():
    x, y = table("zero-inflated")
    bins = Bins.uniform(0.0, 30.0, 60).with_atoms([0.0])
    model = quick(bins=bins).fit(x, y)
    predicted = model.predict_distribution(x)
    assert predicted.bins == bins
    assert predicted.prob(0.0).min() > 0


def test_the_papers_network_has_one_distribution_as_well():
    x, y = table("even")
    model = NeuralRegressor("hl-gaussian", hidden=(8,), max_epochs=3, random_state=0).fit(x, y)
    interval = model.predict_interval(x, 0.9)
    np.testing.assert_allclose(interval, model.predict_quantiles(x, [0.05, 0.95]), rtol=1e-6)


def test_one_huge_target_leaves_everything_finite_and_is_warned_of():
    x, y = table("even", 100)
    y[0] = 1e30
    with pytest.warns(UserWarning, match=r"y: the target 1e\+30 at index 0"):
        model = quick().fit(x, y)
    assert np.isfinite(model.predict_interval(x)).all()
    assert np.isfinite(model.predict(x)).all()
