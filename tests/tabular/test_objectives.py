"""What networks learn from a table: Gaussians on unequal bins, and two histograms at once."""

import math

import numpy as np
import pytest
import torch

from softbins import Bins, Gaussian
from softbins.nn.objectives import HistogramObjective
from softbins.tabular.defaults import DEFAULTS
from softbins.tabular.objectives import KNOTS_PER_BIN, TwoHeadObjective, UnequalBinsObjective
from tests.tabular.target_tables import (
    COUNT,
    STRETCHED,
    TARGETS,
    blurred_for,
    objective_for,
    tensor,
)

MARGIN = DEFAULTS.bins.margin


# UnequalBinsObjective


def asinh_step(bins):
    """How much asinh grows in one bin: in the tails, the logarithm of neighbours' ratio."""
    return (bins.widths[1:] / bins.widths[:-1]).log().abs().max().item()


@pytest.mark.parametrize("sigma", [0.75, 2.0, 6.0])
@pytest.mark.parametrize("name", STRETCHED)
def test_the_targets_histogram_has_the_targets_mean(name, sigma):
    objective, y = objective_for(name, sigma), tensor(np.unique(TARGETS[name]))
    weights = objective.weights(y)
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(y))
    # Between knots, 1 / KNOTS_PER_BIN of a bin apart, the mean is taken for a straight function of
    # the place: an error of at most h^2 / 8 times its second derivative. With edges sinh(s u) that
    # is s^2 sinh, and the bin is s cosh wide: s h^2 / 8 of a bin, and e^(s^2 sigma^2 / 2) as much
    # after the Gaussian has averaged it.
    s = asinh_step(objective.bins)
    widths = objective.bins.widths[objective.bins.index(y)]
    error = (weights @ objective.bins.centers - y).abs() / widths
    assert error.max() <= 1.5 * s / (8 * KNOTS_PER_BIN**2) * math.exp((s * sigma) ** 2) + 1e-9


@pytest.mark.parametrize("name", STRETCHED)
def test_places_increase_with_the_target(name):
    objective = objective_for(name)
    y = tensor(np.unique(TARGETS[name]))
    places = objective.place(y)
    assert (places.diff() > 0).all()
    assert places.min() > 0
    assert places.max() < COUNT


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", STRETCHED)
def test_the_loss_is_the_cross_entropy_of_the_weights(name, dtype):
    objective = objective_for(name)
    assert isinstance(objective, UnequalBinsObjective)
    y = tensor(TARGETS[name][:60], dtype).view(3, 20)
    outputs = torch.randn(3, 20, COUNT, dtype=dtype)
    expected = -(objective.weights(y.double()) * outputs.double().log_softmax(-1)).sum(-1)
    close = {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-9}
    rows = objective.losses(outputs, y)
    assert rows.dtype == dtype
    torch.testing.assert_close(rows.double(), expected, **close)
    total, weight = objective.batch_loss(outputs, y), torch.rand(3, 20, dtype=dtype)
    torch.testing.assert_close(total.double(), expected.mean(-1).sum(), **close)
    weighted = objective.batch_loss(outputs, y, weight)
    torch.testing.assert_close(weighted.double(), (expected * weight).sum(), **close)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", STRETCHED)
def test_the_gradient_is_predicted_minus_target(name, dtype):
    objective = objective_for(name)
    y = tensor(TARGETS[name][:20], dtype)
    outputs = torch.randn(20, COUNT, dtype=dtype, requires_grad=True)
    expected = outputs.detach().double().softmax(-1) - objective.weights(y.double())
    for loss, scale in (
        (objective.losses(outputs, y).sum(), 1),
        (objective.batch_loss(outputs, y), 20),
    ):
        (gradient,) = torch.autograd.grad(loss, outputs)
        atol = 1e-4 if dtype == torch.float32 else 1e-9
        torch.testing.assert_close(scale * gradient.double(), expected, rtol=0, atol=atol)


@pytest.mark.parametrize("name", STRETCHED)
def test_a_constant_predicts_the_target(name):
    objective, y = objective_for(name), tensor(TARGETS[name][:50])
    widths = objective.bins.widths[objective.bins.index(y)]
    constant = objective.outputs_for(y)
    assert constant.shape == (50, COUNT)
    assert torch.isfinite(constant).all()
    assert ((objective.decode(constant) - y).abs() <= 0.01 * widths).all()
    # No other outputs have a smaller loss.
    best = objective.losses(constant, y)
    assert (objective.losses(constant + 0.1 * torch.randn(50, COUNT), y) > best).all()


def test_members_share_the_objective():
    objective = objective_for("lognormal")
    some = objective.select_members(torch.tensor([2, 0]))
    y, outputs = tensor(TARGETS["lognormal"][:40]).view(2, 20), torch.randn(2, 20, COUNT).double()
    assert isinstance(some, UnequalBinsObjective)
    torch.testing.assert_close(
        some.losses(outputs, y), objective.losses(outputs, y), rtol=0, atol=0
    )
    torch.testing.assert_close(some.batch_loss(outputs, y), objective.batch_loss(outputs, y))


@pytest.mark.parametrize("sigma", [1.0, 2.0, 5.0])
def test_on_equal_bins_it_is_the_plain_objective(sigma):
    # Away from the ends a target's histogram has its mean already, up to exp(-2 pi^2 sigma^2).
    bins, target = Bins.uniform(-3.0, 7.0, COUNT), Gaussian.of_bins(sigma)
    plain = HistogramObjective(bins.low, bins.high, bins, target)
    stretched = UnequalBinsObjective(bins.low, bins.high, bins, target)
    room = 8 * sigma * bins.step
    y = torch.linspace(bins.low + room, bins.high - room, 333, dtype=torch.float64)
    outputs = torch.randn(333, COUNT, dtype=torch.float64)
    torch.testing.assert_close(stretched.weights(y), plain.weights(y), rtol=0, atol=1e-7)
    torch.testing.assert_close(
        stretched.losses(outputs, y), plain.losses(outputs, y), atol=1e-6, rtol=0
    )
    torch.testing.assert_close(stretched.decode(outputs), plain.decode(outputs), atol=0, rtol=1e-14)


def test_near_an_end_it_keeps_the_mean_and_the_plain_objective_does_not():
    bins, target = Bins.uniform(0.0, 1.0, COUNT), Gaussian.of_bins(2.0)
    plain = HistogramObjective(bins.low, bins.high, bins, target)
    stretched = UnequalBinsObjective(bins.low, bins.high, bins, target)
    y = torch.tensor([0.02, 0.98], dtype=torch.float64)
    assert ((plain.weights(y) @ bins.centers - y).abs() > 1e-3).all()
    assert ((stretched.weights(y) @ bins.centers - y).abs() < 1e-4).all()


def test_beyond_the_farthest_mean_a_target_has_the_farthest_histogram():
    objective = objective_for("lognormal")
    bins = objective.bins
    y = torch.tensor([bins.low - 1e3, bins.low, bins.high, bins.high + 1e9], dtype=torch.float64)
    assert objective.place(y).tolist() == [0.0, 0.0, COUNT, COUNT]
    assert torch.isfinite(objective.weights(y)).all()


# TwoHeadObjective


@pytest.fixture(params=["normal", "lognormal"])
def blurred(request):
    return blurred_for(request.param, 0.05, 40), tensor(TARGETS[request.param][:30])


def test_outputs_are_those_of_both_heads(blurred):
    objective, _ = blurred
    assert objective.outputs == 40 + COUNT
    assert (objective.low, objective.high) == (objective.sharp.bins.low, objective.sharp.bins.high)
    outputs = torch.randn(30, objective.outputs, dtype=torch.float64)
    first, second = outputs[:, :40], outputs[:, 40:]
    torch.testing.assert_close(
        objective.decode(outputs),
        objective.blurred.decode(first).clamp(objective.low, objective.high),
    )
    assert objective.distribution(outputs).bins == objective.sharp.bins
    torch.testing.assert_close(objective.distribution(outputs).probs, second.softmax(-1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_the_loss_is_the_sum_of_both(blurred, dtype):
    objective, y = blurred
    y = y.to(dtype).view(2, 15)
    outputs = torch.randn(2, 15, objective.outputs, dtype=dtype)
    first, second = outputs[..., :40].contiguous(), outputs[..., 40:].contiguous()
    rows = objective.blurred.losses(first, y) + objective.sharp.losses(second, y)
    torch.testing.assert_close(objective.losses(outputs, y), rows)
    torch.testing.assert_close(objective.batch_loss(outputs, y), rows.mean(-1).sum())
    weight = torch.rand(2, 15, dtype=dtype)
    torch.testing.assert_close(objective.batch_loss(outputs, y, weight), (rows * weight).sum())
    some = objective.select_members(torch.tensor([1]))
    torch.testing.assert_close(some.losses(outputs[1:], y[1:]), rows[1:])


def test_the_gradient_of_each_head_is_its_own(blurred):
    objective, y = blurred
    outputs = torch.randn(30, objective.outputs, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(objective.losses(outputs, y).sum(), outputs)
    parts = outputs.detach().split([40, COUNT], -1)
    heads = (objective.blurred, objective.sharp)
    expected = [part.softmax(-1) - head.weights(y) for part, head in zip(parts, heads, strict=True)]
    torch.testing.assert_close(gradient, torch.cat(expected, -1), rtol=0, atol=1e-9)


def test_a_constant_predicts_the_target_in_both_heads(blurred):
    objective, y = blurred
    constant = objective.outputs_for(y)
    assert constant.shape == (30, objective.outputs)
    widths = objective.sharp.bins.widths[objective.sharp.bins.index(y)]
    assert ((objective.decode(constant) - y).abs() <= 0.05 * widths).all()
    assert ((objective.distribution(constant).mean - y).abs() <= 0.05 * widths).all()


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5])
@pytest.mark.parametrize("name", ["normal", "uniform", "whole numbers"])
def test_the_blur_is_a_share_of_the_range(name, share):
    y = TARGETS[name]
    blurred = blurred_for(name, share).blurred
    deviation = blurred.target.sigma * blurred.bins.step
    assert deviation == pytest.approx(share * np.ptp(y))
    # Its bins leave room for that.
    assert y.min() - blurred.bins.low == pytest.approx(MARGIN * deviation)
    assert blurred.bins.high - y.max() == pytest.approx(MARGIN * deviation)


def test_a_prediction_stays_where_the_distribution_can_follow():
    # Blurred bins reach farther than sharp ones, and stretched ones very much so.
    objective = blurred_for("12 orders", 0.1)
    assert isinstance(objective, TwoHeadObjective)
    assert objective.blurred.bins.high > 5 * objective.high
    ends = torch.full((2, objective.outputs), -100.0, dtype=torch.float64)
    ends[0, 0] = ends[1, 63] = 100.0
    assert objective.decode(ends).tolist() == [objective.low, objective.high]


@pytest.mark.parametrize("share", [0.0, -1.0, math.nan, math.inf])
def test_a_wrong_blur_is_named(share):
    with pytest.raises(ValueError, match="^blur: .*got"):
        blurred_for("normal", share)
