"""The loss by windows is the loss by all bins, and is taken where it should be."""

import pytest
import torch

from softbins import Bins, Gaussian, HistogramLoss
from softbins._core import loss_windows
from softbins._core.loss_windows import windows_for

ROWS = 4500  # more than one block
YEARS = Bins.uniform(1922.0, 2011.0, 100)
NORMAL = Bins.quantile(torch.erfinv(torch.linspace(-0.9999, 0.9999, 5000)), 100)
SYMLOG = Bins.symlog(20.0, 255)


def sigmas(low, high):
    return torch.linspace(low, high, ROWS)


CASES = {
    "sigmas of bins": (YEARS, Gaussian.of_bins(sigmas(0.1, 3.0))),
    "sigmas of years": (YEARS, Gaussian(sigmas(0.2, 2.0))),
    "sigma on unequal bins": (NORMAL, Gaussian(0.02)),
    "bins on unequal bins": (NORMAL, Gaussian.of_bins(1.0)),
    "bins on symlog bins": (SYMLOG, Gaussian.of_bins(0.75)),
    "sigma on symlog bins": (SYMLOG, Gaussian(0.3)),
}


def batch(bins):
    """Logits, and targets on the edges, inside, and in one case of ten outside."""
    torch.manual_seed(0)
    y = bins.edges[torch.randint(bins.count, (ROWS,))]
    y = y + torch.rand(ROWS).double() * bins.widths[bins.locate(y)]
    y[::50] = bins.edges[1:-1][torch.randint(bins.count - 1, (ROWS // 50,))]
    if bins is not SYMLOG:
        y[::20] = bins.high + torch.rand(ROWS // 20).double()
    else:
        y = y.clamp(bins.edges[3], bins.edges[-4])  # nearer to the ends, a Gaussian is outside
    return torch.randn(ROWS, bins.count, requires_grad=True), y.float()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_windows_give_the_loss_and_its_gradient(name, reduction):
    bins, target = CASES[name]
    logits, y = batch(bins)
    assert windows_for(target, bins, logits, y) is not None
    loss = HistogramLoss(bins, target, reduction)(logits, y)
    p = target.weights(y.double(), bins)
    losses = -(p * torch.log_softmax(logits.double(), -1)).sum(-1)
    expected = losses if reduction == "none" else getattr(losses, reduction)()
    torch.testing.assert_close(loss.double(), expected, atol=1e-5, rtol=1e-5)
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    share = ROWS if reduction == "mean" else 1
    difference = share * gradient.double() - (torch.softmax(logits.double(), -1) - p)
    assert difference.abs().max() < 1e-6


@pytest.mark.parametrize("name", CASES)
def test_bins_far_away_may_be_ruled_out(name):
    bins, target = CASES[name]
    logits, y = batch(bins)
    p = target.weights(y.double(), bins)
    far = (torch.arange(bins.count) - bins.locate(y.double()).unsqueeze(-1)).abs() > 40
    far &= p == 0
    ruled_out = logits.detach().masked_fill(far, -torch.inf)
    losses = HistogramLoss(bins, target, "none")(ruled_out, y)
    log_f = torch.log_softmax(ruled_out.double(), -1).masked_fill(far, 0.0)
    torch.testing.assert_close(losses.double(), -(p * log_f).sum(-1), atol=1e-5, rtol=1e-5)


def test_one_bad_target_is_named():
    for bins, target in CASES.values():
        logits, y = batch(bins)
        y[7] = torch.nan
        with pytest.raises(ValueError, match="y: 1 of 4500 values are NaN .* at index 7"):
            HistogramLoss(bins, target)(logits, y)


@pytest.mark.parametrize(
    ("bins", "target"),
    [
        (YEARS, Gaussian.of_bins(sigmas(0.01, 1.0))),
        (YEARS, Gaussian.of_bins(sigmas(1.0, 30.0))),
        (YEARS, Gaussian(sigmas(0.5, 1.0), outside="tail")),
        (YEARS, Gaussian(sigmas(0.5, 1.0).requires_grad_())),
        (NORMAL, Gaussian(1.0)),
        (NORMAL, Gaussian(1e-6)),
        (NORMAL, Gaussian(0.02, outside="tail")),
        (SYMLOG, Gaussian.of_bins(0.1)),
    ],
    ids=str,
)
def test_what_windows_do_not_cover_goes_the_general_way(bins, target):
    logits, y = batch(bins)
    assert windows_for(target, bins, logits, y) is None
    assert torch.isfinite(HistogramLoss(bins, target)(logits, y))


def test_targets_at_the_ends_of_symlog_bins_go_the_general_way():
    target, y = Gaussian.of_bins(0.75), torch.tensor([1.0, SYMLOG.high])
    assert windows_for(target, SYMLOG, torch.zeros(2, 255), y) is None


@pytest.mark.parametrize("sigma", [Gaussian(0.02), Gaussian.of_bins(1.0)], ids=str)
def test_small_batches_on_unequal_bins_take_one_way_for_all_if_there_is_one(sigma):
    few = loss_windows.MIN_WEIGHTS // NORMAL.count - 1
    logits, y = (part[:few] for part in batch(NORMAL))
    found = windows_for(sigma, NORMAL, logits, y)
    # A sigma of the widest bins reaches over most of the others.
    assert (found.lookup.rest(found.rows) is not None) == sigma.in_bins
    losses = HistogramLoss(NORMAL, sigma, "none")(logits, y)
    expected = -(sigma.weights(y, NORMAL) * torch.log_softmax(logits, -1)).sum(-1)
    torch.testing.assert_close(losses, expected, atol=1e-5, rtol=1e-5)
