"""Outputs with a range each: one loss and one distribution, the same as those of each output."""

import copy
import pickle

import pytest
import torch

from softbins import (
    Bins,
    FromCDF,
    Gaussian,
    Histogram,
    HistogramLoss,
    OneBin,
    Payoff,
    Similarity,
    StackedBins,
    StackedHistogram,
    TwoHot,
    UniformMix,
    gradient_bound,
)

EACH = [Bins.uniform(0.0, 1.0, 30), Bins.uniform(-5e3, 2e3, 30), Bins.uniform(1922.0, 2011.0, 30)]
BINS = StackedBins(EACH)
TARGETS = {
    "gaussian of bins": Gaussian.of_bins(0.75),
    "gaussian": Gaussian(40.0),
    "sigmas": Gaussian(torch.tensor([0.03, 200.0, 3.0])),
    "tail": Gaussian.of_bins(1.0, outside="tail"),
    "onebin": OneBin(),
    "twohot": TwoHot(),
    "uniform": UniformMix(0.01),
    "similarity": Similarity(50.0),
}


def batch(dtype=torch.float32):
    """Logits, and targets inside and outside of each range."""
    torch.manual_seed(0)
    low, span = BINS.edges[:, 0], BINS.edges[:, -1] - BINS.edges[:, 0]
    y = (low + span * (1.4 * torch.rand(40, 3, dtype=torch.float64) - 0.2)).to(dtype)
    return torch.randn(40, 3, 30, dtype=dtype), y


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", TARGETS)
def test_one_loss_is_that_of_each_output(name, dtype):
    target, (logits, y) = TARGETS[name], batch(dtype)
    logits.requires_grad_()
    losses = HistogramLoss(BINS, target, "none")(logits, y)
    for output, bins in enumerate(EACH):
        own = target
        if name == "sigmas":
            own = Gaussian(target.sigma[output].item())
        expected = HistogramLoss(bins, own, "none")(logits[:, output], y[:, output])
        torch.testing.assert_close(losses[:, output], expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(HistogramLoss(BINS, target)(logits, y), losses.mean())
    (gradient,) = torch.autograd.grad(losses.sum(), logits)
    assert gradient.sum(-1).abs().max() < 1e-5


def test_a_sigma_with_the_call():
    logits, y = batch()
    one = HistogramLoss(BINS, Gaussian(1.0), "none")(logits, y, sigma=torch.tensor([0.1, 300.0, 5]))
    own = HistogramLoss(EACH[1], Gaussian(300.0), "none")(logits[:, 1], y[:, 1])
    torch.testing.assert_close(one[:, 1], own)


def points():
    logits, y = batch(torch.float64)
    return (
        StackedHistogram(BINS, logits),
        [Histogram(b, logits=logits[:, j]) for j, b in enumerate(EACH)],
        y,
    )


@pytest.mark.parametrize(
    "summary",
    [
        lambda d, y: d.mean,
        lambda d, y: d.variance,
        lambda d, y: d.stddev,
        lambda d, y: d.mode,
        lambda d, y: d.median,
        lambda d, y: d.entropy(),
        lambda d, y: d.log_prob(y),
        lambda d, y: d.cdf(y),
        lambda d, y: d.crps(y),
        lambda d, y: d.icdf(torch.tensor(0.3)),
        lambda d, y: d.quantile([0.1, 0.5]),
        lambda d, y: d.quantile(torch.full((2, 3), 0.4)),
        lambda d, y: d.interval(0.9)[0],
        lambda d, y: d.interval(0.5, kind="shortest")[1],
    ],
)
def test_one_distribution_is_that_of_each_output(summary):
    stacked, each, y = points()
    found = summary(stacked, y)
    assert found.shape[:2] == (40, 3)
    for output, own in enumerate(each):
        expected = summary(own, y[:, output])
        torch.testing.assert_close(found[:, output], expected, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(summary(stacked.unbind()[output], y[:, output]), expected)


def test_samples_lie_in_the_range_of_their_output():
    stacked, _, _ = points()
    samples = stacked.rsample((200,))
    assert samples.shape == (200, 40, 3)
    assert ((samples >= BINS.edges[:, 0]) & (samples <= BINS.edges[:, -1])).all()
    assert stacked.support.check(samples).all()
    middle = samples.mean(0)
    assert ((middle - stacked.mean).abs() < 5 * stacked.stddev / 200**0.5).all()


def test_bins_travel(tmp_path):
    loss, other = HistogramLoss(BINS), HistogramLoss(StackedBins([Bins.uniform(0, 1, 30)] * 3))
    other.load_state_dict(loss.state_dict())
    assert other.bins == BINS
    assert loss.half().bins == BINS
    assert loss.edges.dtype == torch.float64
    torch.save(BINS, tmp_path / "bins.pt")
    again = torch.load(tmp_path / "bins.pt", weights_only=True)
    assert again == BINS == pickle.loads(pickle.dumps(BINS)) == copy.deepcopy(BINS)
    assert hash(again) == hash(BINS)
    assert BINS.to("cpu") is BINS
    assert list(BINS) == EACH
    assert len(BINS) == 3
    assert repr(BINS).startswith("StackedBins(30 equal bins each on [0, 1], [-5000, 2000],")


def test_it_compiles():
    logits, y = batch()
    loss = HistogramLoss(BINS, Gaussian(40.0))
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(logits, y), loss(logits, y), rtol=1e-5, atol=1e-5)


LOGITS, Y = batch()
STRICT = HistogramLoss(BINS, Gaussian.of_bins(1.0, outside="error"))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: StackedBins([]), "bins: need those of at least one output"),
        (lambda: StackedBins([EACH[0], Bins.uniform(0, 1, 3)]), "output 0 has 30, output 1 has 3"),
        (lambda: StackedBins([EACH[0], Bins.symlog(3.0, 30)]), "only equal bins .* output 1 has"),
        (lambda: StackedBins([Bins([0, 1, 3])]), "only equal bins can be stacked, output 0"),
        (lambda: HistogramLoss(BINS)(LOGITS[:, 0], Y[:, 0]), r"outputs .* 3, got shape \(40,\)"),
        (lambda: HistogramLoss(BINS)(LOGITS[:, :2], Y[:, :2]), r"3, got shape \(40, 2\)"),
        (lambda: HistogramLoss(BINS)(LOGITS, Y.log()), "y: .* values are NaN or infinite"),
        (
            lambda: STRICT(LOGITS[:2], torch.tensor([[0.5, 0, 1999], [0.5, 0, 2012]])),
            r"output 2: y: 1 of 2 values are outside \[1922, 2011\], the first at index 1",
        ),
        (lambda: HistogramLoss(BINS, FromCDF(torch.distributions.Cauchy)), "target: FromCDF is"),
        (
            lambda: HistogramLoss(BINS, Payoff(lambda t, y: -(t - y).abs(), 1.0)),
            "target: Payoff is",
        ),
        (lambda: StackedHistogram(BINS, torch.zeros(4, 30)), r"need shape \(..., 3, 30\)"),
        (
            lambda: gradient_bound(
                torch.nn.ReLU(), torch.nn.Linear(2, 3), HistogramLoss(BINS), Y, Y
            ),
            "loss: the bound is that of one output",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_ends_that_were_rounded_outwards_are_no_error():
    ends = torch.stack([BINS.edges[:, 0], BINS.edges[:, -1]]).float()
    assert STRICT(LOGITS[:2], ends).isfinite()


def test_other_things_than_bins_are_refused():
    with pytest.raises(TypeError, match="expected Bins for output 1, got list"):
        StackedBins([EACH[0], [0.0, 1.0]])
    with pytest.raises(TypeError, match="expected Bins or StackedBins, got list"):
        HistogramLoss(EACH)
