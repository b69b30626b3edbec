"""The head: a linear layer with its bins and its loss."""

import copy

import pytest
import torch
from torch import nn

from softbins import (
    Bins,
    Gaussian,
    Histogram,
    HistogramHead,
    HistogramLoss,
    StackedBins,
    TwoHot,
)
from tests.instances import BINS

EQUAL = Bins.uniform(-2.0, 3.0, 20)
SYMLOG = Bins.symlog(8.0, 21)
STACKED = StackedBins([EQUAL, Bins.uniform(0.0, 500.0, 20), Bins.uniform(-1e4, 1e4, 20)])


@pytest.mark.parametrize("shape", [(), (7,), (2, 3)])
@pytest.mark.parametrize("name", BINS)
def test_a_head_is_a_linear_layer_and_a_loss(name, shape):
    bins = BINS[name]
    head = HistogramHead(4, bins, Gaussian.of_bins(0.75))
    x, y = torch.randn(*shape, 4), bins.low + (bins.high - bins.low) * torch.rand(shape)
    assert head.bins == bins
    logits = head.linear(x)
    torch.testing.assert_close(head(x).mean, Histogram(bins, logits=logits).mean)
    expected = HistogramLoss(bins, Gaussian.of_bins(0.75))(logits, y)
    torch.testing.assert_close(head.loss(x, y), expected)


@pytest.mark.parametrize("bins", [EQUAL, Bins.symlog(20.0, 255), Bins.symlog(5.0, 4)], ids=repr)
def test_the_first_mean_is_the_middle(bins):
    head = HistogramHead(4, bins, zero_init=True)
    middle = torch.full((3,), (bins.low + bins.high) / 2)
    torch.testing.assert_close(head(1e3 * torch.randn(3, 4)).mean, middle, atol=1e-6, rtol=0)
    head.loss(torch.randn(3, 4), middle).backward()
    assert head.linear.weight.grad.abs().max() > 0


def test_outputs_on_the_same_bins():
    head = HistogramHead(4, EQUAL, outputs=3)
    x, y = torch.randn(5, 4), torch.rand(5, 3)
    assert head(x).mean.shape == (5, 3)
    first = Histogram(EQUAL, logits=head.linear(x)[:, :20])
    torch.testing.assert_close(head(x).mean[:, 0], first.mean)
    loss = HistogramLoss(EQUAL)(head.linear(x).view(5, 3, 20), y)
    torch.testing.assert_close(head.loss(x, y), loss)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_range_for_each_output(reduction, weighted):
    head = HistogramHead(4, STACKED, Gaussian.of_bins(1.0), reduction=reduction)
    x, y = torch.randn(6, 4), torch.rand(6, 3) * torch.tensor([1.0, 500.0, 2000.0])
    weight = torch.rand(6, 3) if weighted else None
    logits = head.linear(x).view(6, 3, 20)
    assert head.bins == STACKED
    torch.testing.assert_close(head(x).mean, HistogramLoss(STACKED).distribution(logits).mean)
    expected = HistogramLoss(STACKED, Gaussian.of_bins(1.0), reduction)(logits, y, weight)
    torch.testing.assert_close(head.loss(x, y, weight), expected)


def learnt(head, make_y, steps=150):
    """The error of a small network with this head, as a share of the targets' deviation."""
    torch.manual_seed(0)
    x = torch.rand(256, 3)
    y = make_y(x)
    body = nn.Sequential(nn.Linear(3, 32), nn.ReLU())
    optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=2e-2)
    for _ in range(steps):
        optimizer.zero_grad()
        head.loss(body(x), y).backward()
        optimizer.step()
    mean = head(body(x)).mean
    return ((mean - y).abs().mean(0) / y.std(0)).max().item()


@pytest.mark.parametrize("target", [Gaussian.of_bins(0.75), TwoHot()], ids=["gaussian", "two-hot"])
def test_it_learns_several_scales(target):
    head = HistogramHead(32, Bins.symlog(10.0, 101), target, zero_init=True)
    assert learnt(head, lambda x: torch.exp(4 * x[:, 0]) - 1) < 0.2
    ranges = StackedBins([Bins.uniform(-0.5, 1.5, 30), Bins.uniform(-1e3, 4e3, 30)])
    assert (
        learnt(HistogramHead(32, ranges, target), lambda x: x[:, :2] * torch.tensor([1, 3e3])) < 0.2
    )


@pytest.mark.parametrize("bins", [EQUAL, SYMLOG, STACKED], ids=["equal", "symlog", "stacked"])
def test_it_compiles_and_takes_autocast(bins):
    head = HistogramHead(4, bins, Gaussian.of_bins(0.75))
    shape = (5, 3) if bins is STACKED else (5,)
    x, y = torch.randn(5, 4), torch.rand(shape)
    compiled = torch.compile(head.loss, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, y), head.loss(x, y), atol=1e-5, rtol=1e-5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = head.loss(x, y)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, head.loss(x, y), atol=0.05, rtol=0.05)


@pytest.mark.parametrize("bins", [EQUAL, SYMLOG, STACKED], ids=["equal", "symlog", "stacked"])
def test_a_checkpoint_predicts_the_same(bins, tmp_path):
    head, x = HistogramHead(4, bins, TwoHot()), torch.randn(5, 4)
    wrong = Bins.symlog(1.0, 21) if bins is SYMLOG else Bins.uniform(0, 1, 20)
    other = HistogramHead(4, StackedBins([wrong] * 3) if bins is STACKED else wrong, TwoHot())
    torch.save(head.state_dict(), tmp_path / "head.pt")
    other.load_state_dict(torch.load(tmp_path / "head.pt", weights_only=True))
    assert other.bins == bins
    assert torch.equal(head(x).mean, other(x).mean)
    assert copy.deepcopy(head).bins == bins


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: HistogramHead(4, EQUAL, outputs=0), "outputs: need a whole number .* got 0"),
        (lambda: HistogramHead(4, EQUAL, outputs="3"), "outputs: need a whole number .* got '3'"),
        (lambda: HistogramHead(4, EQUAL, spare=1.5), "spare: need a whole number .* got 1.5"),
        (lambda: HistogramHead(4, STACKED, outputs=2), "outputs: 2 outputs do not fit Stacked"),
        (lambda: HistogramHead(4, EQUAL, reduction="all"), "reduction: expected 'mean'"),
        (lambda: HistogramHead(4, STACKED, reduction="all"), "reduction: expected 'mean'"),
        (lambda: HistogramHead(4, EQUAL)(torch.zeros(2, 3)), r"x: last dimension .* 4, got shape"),
        (
            lambda: HistogramHead(4, EQUAL).loss(torch.zeros(2, 4), torch.zeros(2, 1)),
            r"y: need shape \(2,\) for features of shape \(2, 4\), got \(2, 1\)",
        ),
        (
            lambda: HistogramHead(4, EQUAL, outputs=3).loss(torch.zeros(2, 4), torch.zeros(2)),
            r"y: need shape \(2, 3\)",
        ),
        (
            lambda: HistogramHead(4, STACKED).loss(torch.zeros(2, 4), torch.zeros(2, 2)),
            r"y: need shape \(2, 3\)",
        ),
    ],
)
def test_bad_input_is_named_with_its_value(call, message):
    with pytest.raises(ValueError, match=message):
        call()
