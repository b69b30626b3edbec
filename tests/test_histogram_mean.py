"""Histogram.with_mean: odds are divided by one number, and no quantile moves much farther."""

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from softbins import Bins, Histogram
from softbins._core.move_to_mean import LEFT_SHARE
from tests.instances import BINS

# One has 12 orders of magnitude between its narrowest and its widest bin.
GRIDS = BINS | {"geometric": Bins(np.concatenate([[0.0], np.geomspace(1e-3, 1e9, 60)]))}
# Where a place has only eight digits left, the shift of a narrow bin, and its mean, is less exact.
TOLERANCE = dict.fromkeys(BINS, 1e-8) | {"geometric": 1e-4}
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


def test_golden_odds():
    # Odds below the edges are 1/3, 1 and 3. Divided by 2 they are 1/6, 1/2 and 3/2.
    histogram = Histogram(Bins.uniform(0.0, 4.0, 4), probs=exact([0.25, 0.25, 0.25, 0.25]))
    below = [1 / 7, 1 / 3, 3 / 5]
    moved = histogram.with_mean(exact(3.5 - sum(below)))
    assert moved.probs.cumsum(-1)[:3].tolist() == pytest.approx(below, abs=1e-9)


def test_golden_unequal_bins():
    # A quarter of [0, 1] is moved over 1: its mean rises from 0.5 to 0.75 * 0.5 + 0.25 * 2.
    histogram = Histogram(Bins([0.0, 1.0, 3.0]), probs=exact([1.0, 0.0]))
    assert histogram.with_mean(exact(0.875)).probs.tolist() == pytest.approx([0.75, 0.25], abs=1e-9)


def test_golden_at_an_end():
    # What meets an end stays in the bin there: a shift of 1.5 to the left leaves 1/4 in [1, 2].
    histogram = Histogram(Bins.uniform(0.0, 4.0, 4), probs=exact([0.0, 0.5, 0.5, 0.0]))
    moved = histogram.with_mean(exact(0.5 * 0.75 + 1.5 * 0.25))
    assert moved.probs.tolist() == pytest.approx([0.75, 0.25, 0.0, 0.0], abs=1e-8)


def test_golden_atom():
    # The odds of the atom at 0 and of what lies left of 2 and 3 are 1, 3 and infinite. Divided by
    # 2 they are 1/2 and 3/2: probabilities 1/3, 4/15 and 2/5. What is beside the atom, between 1
    # and 3, has a mean of 2.1 then; of its own two bins this makes 2/5 and 3/5 as well.
    bins = Bins.uniform(0.0, 4.0, 4).with_atoms([0.0])
    histogram = Histogram(bins, probs=exact([0.5, 0.0, 0.25, 0.25, 0.0]))
    moved = histogram.with_mean(exact(4 / 15 * 1.5 + 2 / 5 * 2.5))
    assert moved.probs.tolist() == pytest.approx([1 / 3, 0.0, 4 / 15, 2 / 5, 0.0], abs=2e-4)


# The mean


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("grid", GRIDS)
def test_it_has_the_mean_that_was_asked_for(grid, shape):
    bins = GRIDS[grid]
    wanted = means_at(bins, SHARES)
    moved = Histogram(bins, logits=SHAPES[shape](bins)).expand((len(wanted),)).with_mean(wanted)
    reach = bins.centers[-1] - bins.centers[0]
    assert ((moments(moved) - wanted).abs() <= TOLERANCE[grid] * reach).all()
    torch.testing.assert_close(moved.probs.sum(-1), torch.ones(len(wanted)).double())


@pytest.mark.parametrize("shape", SHAPES)
def test_a_small_mean_beside_a_huge_range_is_no_end(shape):
    # A millionth of the range is 10^6 bins from the first centre here.
    bins = GRIDS["geometric"]
    wanted = torch.tensor([0.5, 10.0, 1e3]).double()
    moved = Histogram(bins, logits=SHAPES[shape](bins)).expand((3,)).with_mean(wanted)
    reach = bins.centers[-1] - bins.centers[0]
    assert ((moments(moved) - wanted).abs() <= 1e-9 * reach).all()


@pytest.mark.parametrize("mean", [-1e12, -math.inf, 1e12, math.inf])
@pytest.mark.parametrize("grid", GRIDS)
def test_a_mean_out_of_reach_becomes_that_of_the_end(grid, mean):
    bins = GRIDS[grid]
    moved = Histogram(bins, logits=SHAPES["random"](bins)).with_mean(exact(mean))
    end, other = bins.centers[[0, -1]] if mean < 0 else bins.centers[[-1, 0]]
    assert (moments(moved) - end).abs() <= 1e-8 * (end - other).abs()
    assert torch.isfinite(moved.probs).all()


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


# The shift


def test_odds_are_divided_by_one_number_and_what_was_possible_stays_possible():
    bins = Bins.uniform(0.0, 100.0, 400)
    histogram = Histogram(bins, logits=-((bins.centers - 30) ** 2) / (2 * 8.0**2))
    for by in (-2.0, 3.0):
        moved = histogram.with_mean(histogram.mean + by)
        before, after = (
            torch.special.logit(h.probs.cumsum(-1)[60:200]) for h in (histogram, moved)
        )
        assert (before - after).std() < 1e-6
        assert (moved.probs > 0).all()


@settings(max_examples=60)
@given(histograms(), st.floats(0.0, 1.0))
def test_little_moves_farther_than_the_mean_and_an_interquartile_range(histogram, share):
    (wanted,) = means_at(histogram.bins, [share])
    levels = torch.linspace(0.0005, 0.9995, 401).double()
    ends = histogram.quantile([0.0005, 0.9995]) + (wanted - histogram.mean)
    # Where an end of the bins is in the way, mass has to go farther for the mean to be exact.
    assume(ends[0] >= histogram.bins.low)
    assume(ends[1] <= histogram.bins.high)
    away = histogram.with_mean(wanted).quantile(levels) - histogram.quantile(levels)
    first, third = histogram.quantile([0.25, 0.75])
    # Within a bin all is even again.
    limit = (wanted - histogram.mean).abs() + third - first + 2 * histogram.bins.widths.max()
    assert (away.abs() <= limit * (1 + 1e-9)).all()


def test_two_peaks_change_their_weights_and_stay_where_they_are():
    bins = Bins.uniform(-5.0, 5.0, 400)
    peaks = torch.exp(-((bins.centers.abs() - 2) ** 2) / (2 * 0.2**2))
    moved = Histogram(bins, probs=peaks).with_mean(exact(0.4))
    right = bins.centers > 0
    # By 4, from peak to peak, is a little farther than most may go.
    assert 0.55 < moved.probs[right].sum().item() < 0.65
    assert (moved.quantile([0.1, 0.9]).abs() - 2).abs().max() < 0.3


def test_far_from_its_mean_a_histogram_is_shifted():
    bins = Bins.uniform(0.0, 100.0, 400)
    histogram = Histogram(bins, logits=-((bins.centers - 30) ** 2) / (2 * 2.0**2))
    moved = histogram.with_mean(exact(60.0))
    levels = torch.linspace(0.01, 0.99, 45).double()
    away = moved.quantile(levels) - histogram.quantile(levels)
    assert (away - 30).abs().max() < 0.05
    assert moved.cdf(exact(80.0)).item() > 1 - 1e-3


def test_a_heavy_tail_does_not_run_away():
    """As an exponential tilt would have it: a thousandth far out, and a mean that lies apart."""
    bins = Bins.uniform(0.0, 1000.0, 500)
    logits = torch.logaddexp(-((bins.centers - 60) ** 2) / (2 * 15.0**2), exact(-11.0))
    histogram = Histogram(bins, logits=logits)
    moved = histogram.with_mean(histogram.mean + 80)
    assert (1 - moved.cdf(exact(600.0))).item() < 1 - histogram.cdf(exact(400.0)).item() + 1e-3
    assert moved.quantile(0.95).item() < 200


@settings(max_examples=40)
@given(histograms(), st.floats(0.0, 1.0))
def test_a_mirror_changes_nothing(histogram, share):
    (wanted,) = means_at(histogram.bins, [share])
    mirrored = Histogram(Bins(-histogram.bins.edges.flip(0)), probs=histogram.probs.flip(-1))
    there = mirrored.with_mean(-wanted).probs.flip(-1)
    torch.testing.assert_close(there, histogram.with_mean(wanted).probs, rtol=1e-4, atol=1e-7)


def test_far_tails_keep_their_digits():
    # From bin to bin by exp(-5): 1e-200 at either end of what is not near the peak.
    bins = Bins.uniform(0.0, 200.0, 200)
    logits = -5.0 * (torch.arange(200.0).double() - 100).abs()
    moved = Histogram(bins, logits=logits).with_mean(exact(101.5 + 1e-12))
    # Tails are stretched or compressed by the share of their length that the middle has moved.
    torch.testing.assert_close(moved.logits[0], logits[0], rtol=0.05, atol=0)
    torch.testing.assert_close(moved.logits[-1], logits[-1], rtol=0.05, atol=0)
    assert (moved.logits.diff()[:100] > 4).all()
    assert (moved.logits.diff()[103:] < -4).all()


@pytest.mark.parametrize("grid", BINS)
def test_its_own_mean_changes_nothing(grid):
    histogram = Histogram(GRIDS[grid], logits=torch.randn(7, GRIDS[grid].count).double())
    same = histogram.with_mean(moments(histogram))
    torch.testing.assert_close(same.probs, histogram.probs, rtol=1e-9, atol=0)


@settings(max_examples=40)
@given(histograms(), st.floats(0.0, 1.0))
def test_a_larger_mean_moves_probability_to_the_right_everywhere(histogram, share):
    (wanted,) = means_at(histogram.bins, [share])
    moved = histogram.with_mean(wanted)
    direction = torch.sign(wanted - histogram.mean)
    change = direction * (moved.probs.cumsum(-1) - histogram.probs.cumsum(-1))
    assert (change <= LEFT_SHARE + 1e-9).all()


@pytest.mark.parametrize("away", [-6.0, -2.0, -0.1, 0.1, 2.0, 6.0])
def test_what_was_possible_stays_possible(away):
    """No bin between others is left without probability, however far a narrow peak goes."""
    bins = Bins.uniform(-10.0, 10.0, 200)
    logits = torch.maximum(-((bins.centers / 0.3) ** 2), torch.tensor(-20.0).double())
    moved = Histogram(bins, logits=logits).with_mean(exact(away))
    assert moved.probs.min() > 1e-16


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
    moved = histogram.with_mean(wanted)
    assert moved.batch_shape == batch
    torch.testing.assert_close(moved.mean, wanted, rtol=0, atol=1e-9)
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
    moved = Histogram(bins, logits=logits).with_mean(wanted)
    assert moved.probs.dtype == torch.float32
    reach = bins.centers[-1] - bins.centers[0]
    assert ((moments(moved) - wanted).abs() <= max(1e-6, TOLERANCE[grid]) * reach).all()


def test_a_mean_in_float32_is_taken():
    histogram = Histogram(BINS["years"], logits=torch.randn(4, 100))
    wanted = torch.full((4,), 1999.5)
    torch.testing.assert_close(histogram.with_mean(wanted).mean, wanted)


def test_a_mean_beyond_what_is_not_empty_fills_bins_after_all():
    histogram = Histogram(Bins.uniform(0.0, 4.0, 4), probs=torch.tensor([0.5, 0.5, 0.0, 0.0]))
    moved = histogram.with_mean(torch.tensor(3.0))
    assert moved.mean.item() == pytest.approx(3.0, abs=1e-5)
    assert torch.isfinite(moved.probs).all()


def test_no_gradient_and_no_change_of_the_original():
    logits = torch.randn(3, 100, requires_grad=True)
    histogram = Histogram(BINS["equal"], logits=logits)
    before = histogram.probs.detach().clone()
    assert not histogram.with_mean(torch.tensor(0.3)).logits.requires_grad
    torch.testing.assert_close(histogram.probs, before, rtol=0, atol=0)


# Atoms

ATOMS = Bins.uniform(0.0, 10.0, 50).with_atoms([0.0, 3.0])


@pytest.mark.parametrize("mean", [0.01, 0.5, 1.9, 2.5, 4.0, 7.0, 9.7])
def test_atoms_stay_where_they_are_and_the_mean_is_exact(mean):
    histogram = Histogram(ATOMS, logits=torch.randn(20, ATOMS.count).double())
    moved = histogram.with_mean(exact(mean))
    assert moved.bins == ATOMS
    torch.testing.assert_close(moved.mean, exact(mean).expand(20), rtol=0, atol=1e-6)
    assert (moved.probs >= 0).all()


def test_an_atom_at_the_lower_end_has_less_the_larger_the_mean():
    bins = Bins.uniform(0.0, 10.0, 50).with_atoms([0.0])
    histogram = Histogram(bins, logits=torch.randn(bins.count).double()).expand((40,))
    moved = histogram.with_mean(torch.linspace(0.5, 9.0, 40).double())
    assert (moved.prob(0.0).diff() < 1e-12).all()
    assert moved.prob(0.0)[0] > 0.1 > 1e-3 > moved.prob(0.0)[-1]


def test_a_small_change_of_the_mean_changes_atoms_little():
    histogram = Histogram(ATOMS, logits=torch.randn(30, ATOMS.count).double())
    moved = histogram.with_mean(histogram.mean + 1e-3)
    torch.testing.assert_close(moved.probs, histogram.probs, rtol=0, atol=2e-3)


def test_all_in_atoms_can_be_moved():
    probs = torch.zeros(1, ATOMS.count).double()
    probs[0, 0] = 1.0
    moved = Histogram(ATOMS, probs=probs).expand((3,)).with_mean(exact([0.0, 1.0, 8.0]))
    torch.testing.assert_close(moved.mean, exact([0.0, 1.0, 8.0]), rtol=0, atol=1e-6)


@st.composite
def histograms_with_atoms(draw):
    wide = draw(histograms())
    shares = draw(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=4))
    reach = wide.bins.high - wide.bins.low
    bins = wide.bins.with_atoms([wide.bins.low + share * reach for share in shares])
    size = bins.count
    probs = draw(st.lists(st.floats(1e-6, 1.0), min_size=size, max_size=size))
    return Histogram(bins, probs=torch.tensor(probs, dtype=torch.float64))


@settings(max_examples=60)
@given(histograms_with_atoms(), st.floats(0.0, 1.0))
def test_any_histogram_with_atoms_takes_any_mean(histogram, share):
    (wanted,) = means_at(histogram.bins, [share])
    reach = histogram.bins.high - histogram.bins.low
    assert (moments(histogram.with_mean(wanted)) - wanted).abs() <= 1e-7 * reach
