"""Tilted histograms: the mean that was asked for, if it lies away from the longer tail."""

import pytest
import torch

from softbins import Bins, Histogram
from softbins._core.tilt import tilted_towards_mean

BINS = {
    "equal": Bins.uniform(-3.0, 5.0, 100),
    "stretched": Bins(torch.linspace(0, 14, 101, dtype=torch.float64).sinh()),
    "with an atom": Bins.uniform(0.0, 5.0, 99).with_atoms([0.0]),
}
FREE = 1e9  # a limit that is none


def random_probs(bins, rows=200, sharpness=4.0):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(rows, bins.count, generator=generator, dtype=torch.float64)
    return torch.softmax(sharpness * logits, -1)


def may_be_tilted(probs, bins, mean):
    """Whether the way to the mean leads away from the longer tail."""
    own = probs @ bins.centers
    has_long_right_tail = own > Histogram(bins, probs=probs).quantile(0.5)
    return torch.where(has_long_right_tail, mean < own, mean > own)


@pytest.mark.parametrize("name", BINS)
@pytest.mark.parametrize("share", [0.0, 1e-6, 0.01, 0.5, 0.99])
def test_the_mean_is_the_one_asked_for_or_nothing_changes(name, share):
    bins, centers = BINS[name], BINS[name].centers
    probs, reach = random_probs(bins), centers[-1] - centers[0]
    mean = (centers[0] + share * reach).expand(200)
    found = tilted_towards_mean(probs, bins, mean, FREE)
    tilts = may_be_tilted(probs, bins, mean)
    assert 0 < tilts.sum() < 200
    assert found.sum(-1) == pytest.approx(1)
    assert (found @ centers - mean)[tilts].abs().max() <= 1e-9 * reach
    torch.testing.assert_close(found[~tilts], probs[~tilts])


@pytest.mark.parametrize("name", BINS)
def test_no_longer_tail_gets_anything(name):
    """Beyond any point on its side, there is no more than before."""
    bins = BINS[name]
    probs = random_probs(bins)
    own = probs @ bins.centers
    is_right = own > Histogram(bins, probs=probs).quantile(0.5)
    for move in (-0.1, 0.1):
        mean = own + move * (bins.centers[-1] - bins.centers[0])
        more = (tilted_towards_mean(probs, bins, mean, FREE) - probs).cumsum(-1)
        assert more[is_right].min() > -1e-12
        assert more[~is_right].max() < 1e-12


@pytest.mark.parametrize("name", BINS)
def test_its_own_mean_changes_nothing(name):
    bins = BINS[name]
    probs = random_probs(bins)
    found = tilted_towards_mean(probs, bins, probs @ bins.centers, FREE)
    torch.testing.assert_close(found, probs)


def test_log_ratios_are_straight_lines():
    bins = BINS["equal"]
    probs = random_probs(bins, sharpness=1.0)
    found = tilted_towards_mean(probs, bins, torch.full((200,), 2.0, dtype=torch.float64), FREE)
    assert may_be_tilted(probs, bins, torch.full((200,), 2.0)).any()
    slopes = (found / probs).log().diff(dim=-1)
    torch.testing.assert_close(slopes, slopes[:, :1].expand_as(slopes), rtol=1e-6, atol=1e-9)


def test_a_row_does_not_depend_on_the_rows_beside_it():
    bins = BINS["stretched"]
    probs, mean = random_probs(bins), torch.linspace(1, 1e5, 200, dtype=torch.float64)
    together = tilted_towards_mean(probs, bins, mean, FREE)
    alone = torch.cat(
        [
            tilted_towards_mean(p[None], bins, m[None], FREE)
            for p, m in zip(probs, mean, strict=True)
        ]
    )
    torch.testing.assert_close(alone, together, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("limit", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("side", [-1, 1])
def test_a_narrow_histogram_is_bent_no_more_than_to_the_limit(side, limit):
    bins = Bins.uniform(-4.0, 4.0, 100)
    near, far = (torch.exp(-((bins.centers - at) ** 2) / 0.5) for at in (0.0, 3.5 * side))
    probs = (near / near.sum() + 1e-9 * far / far.sum()).unsqueeze(0)
    mean = torch.tensor([-3.0 * side], dtype=torch.float64)
    found = tilted_towards_mean(probs, bins, mean, limit)
    (slope,) = ((found / probs).log().diff(dim=-1) / bins.centers.diff()).median(-1).values
    quartiles = 2 * 0.6745 * 0.5  # of a Gaussian
    assert slope.item() == pytest.approx(-side * limit / quartiles, rel=0.02)


def test_the_median_of_a_heavy_tail_stays():
    """A hundredth of the probability lies far away, and decides the mean."""
    bins = Bins.uniform(0.0, 1000.0, 2000)
    near, far = (torch.exp(-((bins.centers - at) ** 2) / 8) for at in (10, 900))
    probs = (0.99 * near / near.sum() + 0.01 * far / far.sum()).unsqueeze(0)
    found = tilted_towards_mean(probs, bins, probs @ bins.centers - 8.0, 0.5)
    assert (found @ bins.centers).item() == pytest.approx((probs @ bins.centers).item() - 8.0)
    medians = [(p.cumsum(-1) < 0.5).sum().item() for p in (probs, found)]
    assert abs(medians[0] - medians[1]) <= 1  # a bin of 0.5, where the mean has moved by 8
