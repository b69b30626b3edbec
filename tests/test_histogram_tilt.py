"""Histogram.with_mean: the exponential tilt f_i exp(t c_i), which has the mean asked for."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import kl_divergence

from softbins import Bins, Histogram
from tests.instances import BINS

# The last has 12 orders of magnitude between its narrowest and its widest bin.
GRIDS = BINS | {"geometric": Bins(np.concatenate([[0.0], np.geomspace(1e-3, 1e9, 60)]))}
SHARES = (0.0, 1e-9, 1e-6, 1e-3, 0.1, 0.5, 0.9, 0.999, 1 - 1e-6, 1.0)


def bump(bins, place, width):
    """A bump over the numbers of the bins, whatever these look like."""
    i = torch.arange(bins.count, dtype=torch.float64) / (bins.count - 1)
    return -((i - place) ** 2) / (2 * width**2)


SHAPES = {
    "flat": lambda bins: torch.zeros(bins.count, dtype=torch.float64),
    "sharp": lambda bins: bump(bins, 0.3, 1e-3),
    "two peaks": lambda bins: torch.logaddexp(bump(bins, 0.1, 0.02), bump(bins, 0.95, 0.02)),
    "random": lambda bins: 3 * torch.randn(bins.count, dtype=torch.float64),
    "one bin": lambda bins: bump(bins, 0.0, 1e-3),
    "empty bins": lambda bins: torch.where(
        torch.arange(bins.count) % 2 == 0, 0.0, -torch.inf
    ).double(),
}


def exact(value):
    return torch.tensor(value, dtype=torch.float64)


def means_at(bins, shares):
    start, end = bins.centers[0], bins.centers[-1]
    return start + (end - start) * torch.tensor(shares, dtype=torch.float64)


def moments(histogram):
    """The mean in float64, summed from the first centre on, where small means keep their digits."""
    centers = histogram.bins.centers
    return centers[0] + histogram.probs.double() @ (centers - centers[0])


# Golden numbers


def test_golden_two_bins():
    # Centres 0.5 and 2, (0.5 + 2) / 2 = 1.25.
    histogram = Histogram(Bins([0.0, 1.0, 3.0]), probs=torch.tensor([0.25, 0.75]).double())
    tilted = histogram.with_mean(exact(1.25))
    assert tilted.probs.tolist() == pytest.approx([0.5, 0.5], abs=1e-10)


def test_golden_three_bins():
    # From 1 : 1 : 1 on centres 0, 1, 2 to 1 : x : x^2, with the mean (x + 2 x^2) / (1 + x + x^2),
    # which for x = 2 is 10 / 7.
    histogram = Histogram(Bins([-0.5, 0.5, 1.5, 2.5]), probs=torch.ones(3).double())
    tilted = histogram.with_mean(exact(10 / 7))
    assert tilted.probs.tolist() == pytest.approx([1 / 7, 2 / 7, 4 / 7], abs=1e-10)


def test_golden_unequal_centres():
    # From 1 : 1 : 1 on centres 0, 1, 3 to 1 : x : x^3; x = 2 gives (2 + 24) / 11.
    histogram = Histogram(Bins([-0.5, 0.5, 1.5, 4.5]), probs=torch.ones(3).double())
    tilted = histogram.with_mean(exact(26 / 11))
    assert tilted.probs.tolist() == pytest.approx([1 / 11, 2 / 11, 8 / 11], abs=1e-10)


# The mean


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("grid", GRIDS)
def test_it_has_the_mean_that_was_asked_for(grid, shape):
    bins = GRIDS[grid]
    wanted = means_at(bins, SHARES)
    tilted = Histogram(bins, logits=SHAPES[shape](bins)).expand((len(wanted),)).with_mean(wanted)
    reach = bins.centers[-1] - bins.centers[0]
    assert ((moments(tilted) - wanted).abs() <= 1e-8 * reach).all()
    torch.testing.assert_close(tilted.probs.sum(-1), torch.ones(len(wanted)).double())


@pytest.mark.parametrize("shape", SHAPES)
def test_a_small_mean_beside_a_huge_range_is_no_end(shape):
    # A millionth of the range is 10^6 bins from the first centre here.
    bins = GRIDS["geometric"]
    wanted = torch.tensor([0.5, 10.0, 1e3]).double()
    tilted = Histogram(bins, logits=SHAPES[shape](bins)).expand((3,)).with_mean(wanted)
    reach = bins.centers[-1] - bins.centers[0]
    assert ((moments(tilted) - wanted).abs() <= 2e-11 * reach).all()


@pytest.mark.parametrize("mean", [-1e12, -math.inf, 1e12, math.inf])
@pytest.mark.parametrize("grid", GRIDS)
def test_a_mean_out_of_reach_becomes_that_of_the_end(grid, mean):
    bins = GRIDS[grid]
    tilted = Histogram(bins, logits=SHAPES["random"](bins)).with_mean(exact(mean))
    end, other = bins.centers[[0, -1]] if mean < 0 else bins.centers[[-1, 0]]
    assert (moments(tilted) - end).abs() <= 1e-8 * (end - other).abs()
    assert torch.isfinite(tilted.probs).all()


widths = st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=12)


@st.composite
def histograms(draw):
    w = draw(widths)
    start = draw(st.floats(-1e3, 1e3))
    shares = draw(st.lists(st.floats(1e-6, 1.0), min_size=len(w), max_size=len(w)))
    edges = start + torch.tensor([0.0, *w], dtype=torch.float64).cumsum(0)
    return Histogram(Bins(edges), probs=torch.tensor(shares, dtype=torch.float64))


@settings(max_examples=40)
@given(histograms(), st.floats(0.0, 1.0))
def test_any_histogram_takes_any_mean(histogram, share):
    (wanted,) = means_at(histogram.bins, [share])
    reach = histogram.bins.centers[-1] - histogram.bins.centers[0]
    assert (moments(histogram.with_mean(wanted)) - wanted).abs() <= 1e-8 * reach


# The closest of all


@settings(max_examples=40)
@given(histograms(), st.floats(0.05, 0.95), st.integers(0, 1000))
def test_any_other_histogram_with_that_mean_is_farther(histogram, share, seed):
    """KL(g || f) = KL(g || tilted) + KL(tilted || f) for every g with the tilted one's mean."""
    tilted = histogram.with_mean(means_at(histogram.bins, [share])[0])
    other = Histogram(histogram.bins, probs=perturbed(tilted, seed))
    assert moments(other).item() == pytest.approx(moments(tilted).item(), rel=1e-9, abs=1e-9)
    least, farther = kl_divergence(tilted, histogram), kl_divergence(other, histogram)
    assert farther >= least - 1e-9
    between = kl_divergence(other, tilted)
    assert farther.item() == pytest.approx((least + between).item(), rel=1e-6, abs=1e-8)


def perturbed(histogram, seed):
    """Other probabilities f (1 + move) with the same sum and mean: both of move are 0 under f."""
    generator = torch.Generator().manual_seed(seed)
    move = torch.randn(histogram.bins.count, generator=generator, dtype=torch.float64)
    fixed = torch.stack([torch.ones_like(move), histogram.bins.centers - histogram.bins.low], 1)
    root = histogram.probs.sqrt().unsqueeze(-1)
    basis = torch.linalg.qr(root * fixed).Q
    for _ in range(2):  # the second time for the rounding of the first
        move = move - (basis @ (basis.T @ (root.squeeze(-1) * move))) / root.squeeze(-1)
    return histogram.probs * (1 + 0.5 * move / move.abs().max().clamp_min(1e-3))


def test_a_random_direction_is_really_another_histogram():
    histogram = Histogram(BINS["equal"], logits=SHAPES["random"](BINS["equal"]))
    other = perturbed(histogram, 0)
    assert (other > 0).all()
    assert (other - histogram.probs).abs().max() > 1e-6
    assert (other @ BINS["equal"].centers).item() == pytest.approx(histogram.mean.item())


def test_logits_change_by_a_straight_line_in_the_centres():
    bins = BINS["unequal"]
    histogram = Histogram(bins, logits=torch.randn(bins.count).double())
    change = histogram.with_mean(exact(3.0)).logits - histogram.logits
    slopes = change.diff() / bins.centers.diff()
    torch.testing.assert_close(slopes, slopes.mean().expand_as(slopes))


@pytest.mark.parametrize("grid", GRIDS)
def test_its_own_mean_changes_nothing(grid):
    histogram = Histogram(GRIDS[grid], logits=torch.randn(7, GRIDS[grid].count).double())
    same = histogram.with_mean(moments(histogram))
    torch.testing.assert_close(same.probs, histogram.probs, rtol=1e-9, atol=0)


@settings(max_examples=40)
@given(histograms(), st.floats(0.05, 0.95), st.floats(0.05, 0.95))
def test_one_tilt_after_another_is_the_last(histogram, first, second):
    means = means_at(histogram.bins, [first, second])
    twice = histogram.with_mean(means[0]).with_mean(means[1])
    torch.testing.assert_close(
        twice.probs, histogram.with_mean(means[1]).probs, rtol=1e-4, atol=1e-7
    )


@settings(max_examples=40)
@given(histograms(), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_a_larger_mean_moves_probability_to_the_right_everywhere(histogram, one, other):
    means = means_at(histogram.bins, sorted([one, other]))
    left, right = (histogram.with_mean(mean).probs.cumsum(-1) for mean in means)
    assert (right <= left + 1e-6).all()


def test_a_fine_gaussian_is_shifted():
    # exp(-(c - m)^2 / 2 s^2 + t c) is proportional to exp(-(c - m - t s^2)^2 / 2 s^2).
    bins = Bins.uniform(0.0, 1.0, 200)
    means = torch.linspace(0.3, 0.7, 9).double()
    histogram = Histogram(bins, logits=-((bins.centers - 0.4) ** 2) / (2 * 0.03**2))
    shifted = histogram.expand((9,)).with_mean(means)
    expected = Histogram(bins, logits=-((bins.centers - means.unsqueeze(-1)) ** 2) / (2 * 0.03**2))
    torch.testing.assert_close(shifted.probs, expected.probs, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(shifted.variance, histogram.variance.expand(9), rtol=1e-6, atol=0)


@pytest.mark.parametrize(("scale", "shift"), [(1e-30, 0.0), (1e30, 0.0), (3.0, -7.0), (1.0, 1e9)])
def test_the_unit_of_the_target_does_not_matter(scale, shift):
    bins, logits = BINS["unequal"], SHAPES["random"](BINS["unequal"])
    other = Bins(scale * bins.edges + shift)
    here = Histogram(bins, logits=logits).with_mean(exact(2.5))
    there = Histogram(other, logits=logits).with_mean(exact(scale * 2.5 + shift))
    torch.testing.assert_close(here.probs, there.probs, rtol=1e-4, atol=1e-6)


# Shapes, precision, empty bins


@pytest.mark.parametrize("batch", [(), (1,), (5,), (0,), (4, 3), (2, 1, 3)], ids=str)
def test_batch_shapes(batch):
    bins = BINS["equal"]
    histogram = Histogram(bins, logits=torch.randn(*batch, bins.count).double())
    wanted = torch.rand(batch).double() * 0.8 + 0.1
    tilted = histogram.with_mean(wanted)
    assert tilted.batch_shape == batch
    torch.testing.assert_close(tilted.mean, wanted, rtol=0, atol=1e-9)
    one_for_all = histogram.with_mean(torch.tensor(0.25))
    torch.testing.assert_close(
        one_for_all.mean, torch.full(batch, 0.25).double(), rtol=0, atol=1e-9
    )


def test_rows_do_not_depend_on_each_other():
    bins = BINS["equal"]
    logits, wanted = 5 * torch.randn(50, bins.count).double(), torch.rand(50).double()
    together = Histogram(bins, logits=logits).with_mean(wanted)
    for row in (0, 17, 49):
        alone = Histogram(bins, logits=logits[row]).with_mean(wanted[row])
        torch.testing.assert_close(alone.probs, together.probs[row], rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("grid", GRIDS)
def test_float32_is_as_good_as_float32_can_be(grid, shape):
    bins = GRIDS[grid]
    wanted = means_at(bins, SHARES)
    logits = SHAPES[shape](bins).float().expand(len(wanted), -1)
    tilted = Histogram(bins, logits=logits).with_mean(wanted)
    assert tilted.probs.dtype == torch.float32
    reach = bins.centers[-1] - bins.centers[0]
    assert ((moments(tilted) - wanted).abs() <= 1e-6 * reach).all()


def test_a_mean_in_float32_is_taken():
    histogram = Histogram(BINS["years"], logits=torch.randn(4, 100))
    wanted = torch.full((4,), 1999.5)
    torch.testing.assert_close(histogram.with_mean(wanted).mean, wanted)


def test_empty_bins_stay_empty():
    probs = torch.tensor([0.0, 0.2, 0.0, 0.5, 0.3, 0.0]).double()
    histogram = Histogram(Bins.uniform(0.0, 6.0, 6), probs=probs).expand((3,))
    wanted = torch.tensor([1.6, 3.0, 4.4]).double()
    tilted = histogram.with_mean(wanted)
    assert (tilted.probs[:, probs == 0] == 0).all()
    torch.testing.assert_close(tilted.mean, wanted, rtol=0, atol=1e-9)


def test_a_mean_beyond_what_is_not_empty_fills_bins_after_all():
    histogram = Histogram(Bins.uniform(0.0, 4.0, 4), probs=torch.tensor([0.5, 0.5, 0.0, 0.0]))
    tilted = histogram.with_mean(torch.tensor(3.0))
    assert tilted.mean.item() == pytest.approx(3.0, abs=1e-5)
    assert torch.isfinite(tilted.probs).all()


def test_no_gradient_and_no_change_of_the_original():
    logits = torch.randn(3, 100, requires_grad=True)
    histogram = Histogram(BINS["equal"], logits=logits)
    before = histogram.probs.detach().clone()
    assert not histogram.with_mean(torch.tensor(0.3)).logits.requires_grad
    torch.testing.assert_close(histogram.probs, before, rtol=0, atol=0)
