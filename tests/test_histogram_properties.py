"""The pieces of a Histogram agree with each other, whatever the bins and probabilities."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from softbins import Bins, Histogram

widths = st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=12)
levels = st.floats(0.0, 1.0)
coverages = st.floats(0.01, 1.0)
kinds = st.sampled_from(["central", "shortest"])


@st.composite
def histograms(draw, empty_bins=True):
    w = draw(widths)
    start = draw(st.floats(-1e3, 1e3))
    smallest = 0.0 if empty_bins else 1e-3
    shares = st.lists(st.floats(smallest, 1.0), min_size=len(w), max_size=len(w))
    probs = draw(shares.filter(lambda p: sum(p) > 0.1))
    edges = start + torch.tensor([0.0, *w], dtype=torch.float64).cumsum(0)
    return Histogram(Bins(edges), probs=torch.tensor(probs, dtype=torch.float64))


@given(histograms(empty_bins=False), levels)
def test_icdf_inverts_cdf(histogram, level):
    bins = histogram.bins
    y = torch.tensor(bins.low + level * (bins.high - bins.low), dtype=torch.float64)
    back = histogram.icdf(histogram.cdf(y))
    assert back.item() == pytest.approx(y.item(), abs=1e-9 * (bins.high - bins.low) + 1e-10)


@given(histograms(), levels)
def test_cdf_inverts_icdf(histogram, level):
    there = histogram.icdf(torch.tensor(level, dtype=torch.float64))
    assert histogram.cdf(there).item() == pytest.approx(level, abs=1e-9)


@given(histograms(), levels)
def test_the_density_is_the_slope_of_the_cdf(histogram, level):
    bins = histogram.bins
    y = torch.tensor(bins.low + level * (bins.high - bins.low), dtype=torch.float64)
    index = bins.index(y)
    left, right = bins.edges[index], bins.edges[index + 1]
    slope = (histogram.cdf(right) - histogram.cdf(left)) / (right - left)
    assert histogram.log_prob(y).exp().item() == pytest.approx(slope.item(), rel=1e-6, abs=1e-12)


@given(histograms(), st.lists(st.floats(-3e3, 3e3), min_size=2, max_size=2))
def test_cdf_increases_from_zero_to_one(histogram, pair):
    low, high = histogram.cdf(torch.tensor(sorted(pair), dtype=torch.float64)).tolist()
    assert 0.0 <= low <= high <= 1.0
    assert histogram.cdf(histogram.bins.edges[0]).item() == 0.0
    assert histogram.cdf(histogram.bins.edges[-1]).item() == 1.0


@given(histograms(), coverages, kinds)
def test_intervals_hold_their_mass(histogram, coverage, kind):
    low, high = histogram.interval(coverage, kind)
    mass = (histogram.cdf(high) - histogram.cdf(low)).item()
    assert mass == pytest.approx(coverage, abs=1e-9)


@given(histograms(), coverages, levels)
def test_no_interval_is_shorter_than_the_shortest(histogram, coverage, share):
    low, high = histogram.interval(coverage, "shortest")
    # Any other interval of that mass starts at some level of the cdf.
    start = torch.tensor(share * (1 - coverage), dtype=torch.float64)
    other = histogram.icdf((start + coverage).clamp(max=1.0)) - histogram.icdf(start)
    span = histogram.bins.high - histogram.bins.low
    # The left end of `other` may lie left of an empty bin, which only makes it longer.
    assert (high - low).item() <= other.item() + 1e-9 * span


@given(histograms(), st.floats(-3e3, 3e3))
def test_crps_is_positive_and_least_at_the_median(histogram, y):
    score = histogram.crps(torch.tensor(y, dtype=torch.float64))
    best = histogram.crps(histogram.median)
    assert score.item() >= best.item() - 1e-9 * (1 + abs(y))
    assert best.item() > 0


@given(histograms(), st.floats(0.1, 10.0), st.floats(-100.0, 100.0))
def test_everything_moves_with_the_target(histogram, scale, shift):
    """Measuring the target in another unit changes every answer accordingly."""
    moved = Histogram(Bins(histogram.bins.edges * scale + shift), probs=histogram.probs)
    span = moved.bins.high - moved.bins.low
    tolerance = 1e-9 * span + 1e-9
    assert moved.mean.item() == pytest.approx(histogram.mean.item() * scale + shift, abs=tolerance)
    assert moved.stddev.item() == pytest.approx(histogram.stddev.item() * scale, rel=1e-6)
    y = histogram.median
    assert moved.crps(y * scale + shift).item() == pytest.approx(
        histogram.crps(y).item() * scale, rel=1e-6
    )
