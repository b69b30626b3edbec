"""Tilted histograms: the mean that was asked for, whatever the tails, and the nearest of all."""

import pytest
import torch

from softbins._core.tilt import tilted_to_mean

CENTERS = {
    "equal": torch.linspace(-3, 5, 100, dtype=torch.float64),
    "stretched": torch.linspace(0, 14, 100, dtype=torch.float64).sinh(),
}


def random_probs(centers, rows=200, sharpness=4.0):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(rows, len(centers), generator=generator, dtype=torch.float64)
    return torch.softmax(sharpness * logits, -1)


@pytest.mark.parametrize("name", CENTERS)
@pytest.mark.parametrize("share", [0.0, 1e-6, 0.01, 0.5, 0.99])
def test_the_mean_is_the_one_asked_for(name, share):
    centers = CENTERS[name]
    reach = centers[-1] - centers[0]
    mean = (centers[0] + share * reach).expand(200)
    found = tilted_to_mean(random_probs(centers), centers, mean)
    assert found.sum(-1) == pytest.approx(1)
    assert (found @ centers - mean).abs().max() <= 1e-9 * reach


@pytest.mark.parametrize("name", CENTERS)
def test_its_own_mean_changes_nothing(name):
    probs = random_probs(CENTERS[name])
    found = tilted_to_mean(probs, CENTERS[name], probs @ CENTERS[name])
    torch.testing.assert_close(found, probs)


def test_log_ratios_are_straight_lines():
    centers = CENTERS["equal"]
    probs = random_probs(centers, sharpness=1.0)
    found = tilted_to_mean(probs, centers, torch.full((200,), 2.0, dtype=torch.float64))
    slopes = (found / probs).log().diff(dim=-1)
    torch.testing.assert_close(slopes, slopes[:, :1].expand_as(slopes), rtol=1e-6, atol=1e-9)


def test_a_row_does_not_depend_on_the_rows_beside_it():
    centers = CENTERS["stretched"]
    probs, mean = random_probs(centers), torch.linspace(1, 1e5, 200, dtype=torch.float64)
    together = tilted_to_mean(probs, centers, mean)
    alone = torch.cat(
        [tilted_to_mean(p[None], centers, m[None]) for p, m in zip(probs, mean, strict=True)]
    )
    torch.testing.assert_close(alone, together, rtol=1e-9, atol=1e-12)
