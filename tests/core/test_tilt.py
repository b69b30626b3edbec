"""Tilted histograms: the mean that was asked for, whatever the tails, and the nearest of all."""

import pytest
import torch

from softbins import Bins
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


@pytest.mark.parametrize("name", BINS)
@pytest.mark.parametrize("share", [0.0, 1e-6, 0.01, 0.5, 0.99])
def test_the_mean_is_the_one_asked_for(name, share):
    bins, centers = BINS[name], BINS[name].centers
    reach = centers[-1] - centers[0]
    mean = (centers[0] + share * reach).expand(200)
    found = tilted_towards_mean(random_probs(bins), bins, mean, FREE)
    assert found.sum(-1) == pytest.approx(1)
    assert (found @ centers - mean).abs().max() <= 1e-9 * reach


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
def test_a_narrow_histogram_is_bent_no_more_than_to_the_limit(limit):
    bins = BINS["equal"]
    probs = torch.softmax(-((bins.centers - 1) ** 2) / (2 * 0.5**2), -1).unsqueeze(0)
    found = tilted_towards_mean(probs, bins, torch.tensor([4.5], dtype=torch.float64), limit)
    (slope,) = ((found / probs).log().diff(dim=-1) / bins.centers.diff()).median(-1).values
    quartiles = 2 * 0.6745 * 0.5  # of a Gaussian
    assert slope.item() == pytest.approx(limit / quartiles, rel=0.02)


def test_the_median_of_a_heavy_tail_stays():
    """A hundredth of the probability lies far away, and decides the mean."""
    bins = Bins.uniform(0.0, 1000.0, 2000)
    near, far = (torch.exp(-((bins.centers - at) ** 2) / 8) for at in (10, 900))
    probs = (0.99 * near / near.sum() + 0.01 * far / far.sum()).unsqueeze(0)
    found = tilted_towards_mean(probs, bins, probs @ bins.centers + 9.0, 0.5)
    assert (found @ bins.centers).item() == pytest.approx((probs @ bins.centers).item() + 9.0)
    medians = [(p.cumsum(-1) < 0.5).sum().item() for p in (probs, found)]
    assert medians[0] == medians[1]
