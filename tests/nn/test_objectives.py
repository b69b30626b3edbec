import math

import pytest
import torch
from torch import nn

from softbins import Bins, Gaussian, Histogram, HistogramLoss
from softbins.nn.objectives import METHODS, L2Many, make_objective

DISTRIBUTIONS = {"hl-onebin", "hl-uniform", "hl-gaussian", "mdn"}
LOW, HIGH = -3.0, 7.0


def objective(method, **parameters):
    return make_objective(method, LOW, HIGH, **parameters)


def batch(method, *shape):
    chosen = objective(method)
    y = LOW + (HIGH - LOW) * torch.rand(shape)
    return chosen, torch.randn(*shape, chosen.outputs, requires_grad=True), y


# Every method


@pytest.mark.parametrize("method", METHODS)
def test_shapes_and_the_sum_over_members_of_the_mean_over_rows(method):
    chosen, outputs, y = batch(method, 3, 20)
    losses = chosen.losses(outputs, y)
    assert losses.shape == chosen.decode(outputs).shape == (3, 20)
    torch.testing.assert_close(chosen.batch_loss(outputs, y), losses.mean(-1).sum())
    weight = torch.rand(3, 20)
    torch.testing.assert_close(chosen.batch_loss(outputs, y, weight), (losses * weight).sum())


@pytest.mark.parametrize("method", METHODS)
def test_outputs_for_a_target_predict_it(method):
    chosen = objective(method)
    y = torch.tensor([-2.5, 0.0, 4.4, 6.5])
    prediction = chosen.decode(chosen.outputs_for(y))
    bin_width = (HIGH - LOW) / 100
    exact = method not in ("hl-onebin", "hl-uniform")
    tolerance = 1e-4 if exact else bin_width * (1 if method == "hl-onebin" else 8)
    torch.testing.assert_close(prediction, y, atol=tolerance, rtol=0)


@pytest.mark.parametrize("method", METHODS)
def test_the_target_is_measured_in_its_own_unit(method):
    """Moving and stretching the target moves and stretches the prediction, and nothing else."""
    outputs = torch.randn(30, objective(method).outputs)
    y = LOW + (HIGH - LOW) * torch.rand(30)
    moved = make_objective(method, 100 + 5 * LOW, 100 + 5 * HIGH)
    torch.testing.assert_close(
        moved.decode(outputs), 100 + 5 * objective(method).decode(outputs), atol=1e-3, rtol=1e-5
    )
    torch.testing.assert_close(
        moved.losses(outputs, 100 + 5 * y),
        objective(method).losses(outputs, y),
        atol=1e-3,
        rtol=1e-3,
    )


@pytest.mark.parametrize("method", METHODS)
def test_a_small_network_learns_with_it(method):
    torch.manual_seed(0)
    x = torch.rand(512, 2)
    y = LOW + (HIGH - LOW) * x.mean(-1)
    chosen = objective(method)
    net = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, chosen.outputs))
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(200):
        optimizer.zero_grad()
        chosen.batch_loss(net(x), y).backward()
        optimizer.step()
    error = (chosen.decode(net(x)) - y).abs().mean().item()
    assert error < 0.15 * (y - y.mean()).abs().mean().item()


@pytest.mark.parametrize("method", METHODS)
def test_only_some_predict_a_distribution(method):
    chosen, outputs, _ = batch(method, 2, 5)
    if method not in DISTRIBUTIONS:
        with pytest.raises(ValueError, match="predicts a number, no distribution"):
            chosen.distribution(outputs)
        return
    # About some targets, because a mixture's tails may reach beyond the bins it is shown on.
    y = torch.linspace(LOW + 1, HIGH - 1, 10).view(2, 5)
    outputs = chosen.outputs_for(y) + 0.05 * torch.randn(2, 5, chosen.outputs)
    predicted = chosen.distribution(outputs)
    assert isinstance(predicted, Histogram)
    assert predicted.batch_shape == (2, 5)
    torch.testing.assert_close(predicted.mean, chosen.decode(outputs), atol=0.01, rtol=0)


@pytest.mark.parametrize("method", METHODS)
def test_numbers_and_tensors_of_parameters_agree(method):
    """Each member may have its own sigma, epsilon, noise or clipping threshold."""
    each = torch.tensor([[0.002], [0.004]])
    many = objective(method, sigma=100 * each, epsilon=each, noise=each, clip=each)
    outputs, y = torch.randn(2, 9, many.outputs), LOW + 10 * torch.rand(2, 9)
    for member, value in enumerate([0.002, 0.004]):
        one = objective(method, sigma=100 * value, epsilon=value, noise=value, clip=value)
        torch.testing.assert_close(
            many.losses(outputs, y)[member],
            one.losses(outputs[member], y[member]),
            atol=1e-4,
            rtol=1e-4,
        )
        part = many.select_members(torch.tensor([member]))
        torch.testing.assert_close(
            part.losses(outputs[member : member + 1], y[member : member + 1])[0],
            one.losses(outputs[member], y[member]),
            atol=1e-4,
            rtol=1e-4,
        )


# Golden numbers and single methods


def test_losses_of_one_row():
    # Target 2 in [-3, 7] is 0.5; an output of 0.8 stands for 5.
    y, output = torch.tensor([2.0]), torch.tensor([[0.8]])
    assert objective("l2").losses(output, y).item() == pytest.approx(0.09)
    assert objective("l1").losses(output, y).item() == pytest.approx(0.3)
    assert objective("l2").decode(output).item() == pytest.approx(5.0)


def test_histogram_methods_are_the_histogram_loss():
    chosen, outputs, y = batch("hl-gaussian", 4, 25)
    loss = HistogramLoss(Bins.uniform(LOW, HIGH, 100), Gaussian.of_bins(1.0), "none")
    torch.testing.assert_close(chosen.losses(outputs, y), loss(outputs, y))


@pytest.mark.parametrize("weight", [None, torch.ones(2, 5)])
def test_a_member_that_diverged_leaves_the_others_of_its_stack_alone(weight):
    objective = make_objective("hl-gaussian", low=0.0, high=1.0)
    outputs, y = torch.randn(2, 5, objective.outputs), torch.rand(2, 5)
    outputs[0] = math.nan
    outputs.requires_grad_()
    objective.batch_loss(outputs, y, weight).backward()
    assert torch.isfinite(outputs.grad[1]).all()
    assert torch.isfinite(objective.losses(outputs, y)[1]).all()


def test_l2_softmax_is_the_error_of_the_softmax_mean():
    chosen, outputs, y = batch("l2-softmax", 6)
    centers = (torch.arange(100) + 0.5) / 100
    mean = (torch.softmax(outputs, -1) * centers).sum(-1)
    torch.testing.assert_close(chosen.losses(outputs, y), (mean - (y - LOW) / 10).square())


def test_mdn_is_the_likelihood_of_a_mixture():
    chosen, outputs, y = batch("mdn", 7)
    logits, means, raw = outputs.detach().chunk(3, -1)
    mixture = torch.distributions.MixtureSameFamily(
        torch.distributions.Categorical(logits=logits),
        torch.distributions.Normal(means, nn.functional.softplus(raw) + 1e-2),
    )
    torch.testing.assert_close(chosen.losses(outputs, y).detach(), -mixture.log_prob((y + 3) / 10))
    inside = torch.rand(7)
    predicted = chosen.distribution(outputs.detach() * 0.1)
    assert torch.isfinite(predicted.crps(LOW + 10 * inside)).all()


@pytest.mark.parametrize("components", [2, 4, 8, 16, 32])
def test_mdn_stays_finite_on_a_target_with_a_constant_region(components):
    torch.manual_seed(0)
    x = torch.rand(300, 1)
    y = torch.where(x[:, 0] < 0.6, torch.tensor(0.0), x[:, 0])
    chosen = make_objective("mdn", 0.0, 1.0, components=components)
    net = nn.Sequential(nn.Linear(1, 32), nn.ReLU(), nn.Linear(32, chosen.outputs))
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(400):
        optimizer.zero_grad()
        loss = chosen.batch_loss(net(x), y)
        loss.backward()
        optimizer.step()
        assert torch.isfinite(loss)
    # The best likelihood is that of a point at the smallest width: ln(0.01 sqrt(2 pi)) = -3.686.
    assert -3.69 < loss.item() < -1.0
    assert torch.isfinite(chosen.decode(net(x))).all()


def test_l2_many_keeps_its_outputs_apart():
    chosen = L2Many(LOW, HIGH, count=4)
    outputs = torch.tensor([[0.1, 0.2, 0.3, 0.4]])
    assert chosen.decode_each(outputs)[0].tolist() == pytest.approx([-2.0, -1.0, 0.0, 1.0])
    assert chosen.decode(outputs).item() == pytest.approx(-0.5)


def test_what_training_has_to_know():
    assert objective("l2-noise", noise=0.01).target_noise == pytest.approx(0.1)
    assert objective("l2-clipping", clip=0.3).clipping == 0.3
    assert objective("l2").target_noise == 0.0
    assert objective("l2").clipping is None


@pytest.mark.parametrize("method", ["l3", "hl-cauchy", ""])
def test_an_unknown_method_is_named(method):
    with pytest.raises(ValueError, match=f"objective: expected one of l2, .* got '{method}'"):
        objective(method)


def test_a_range_without_extent_is_refused():
    with pytest.raises(ValueError, match="low < high"):
        make_objective("l2", 1.0, 1.0)
    assert math.isfinite(make_objective("l2", 1.0, 1.5).high)
