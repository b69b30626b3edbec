"""Bins that are equal in another space: a target is the mean of its own weights."""

import math

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from softbins import Bins, Gaussian, Histogram, HistogramLoss, TwoHot

BINS = {
    "DreamerV3": Bins.symlog(20.0, 255),
    "TD-MPC2": Bins.symlog(10.0, 101),
    "few": Bins.symlog(3.0, 4),
    "logarithm": Bins.transformed(torch.exp, -3.0, 5.0, 40),
    "square": Bins.transformed(torch.sqrt, 1.0, 9.0, 20),
}
SIGMAS = [1e-6, 0.01, 0.3, 0.5, 0.75, 1.0, 2.0, 5.0]


def round_trip(target, y, bins):
    return Histogram(bins, probs=target.weights(y, bins)).mean


def miss(bins, y, mean):
    """How far the mean is off, as a share of the target or, near 0, of its bin."""
    width = bins.widths[bins.locate(y.double())]
    return ((mean.double() - y.double()).abs() / torch.maximum(y.double().abs(), width)).max()


def symexp(z):
    return math.copysign(math.expm1(abs(z)), z)


@settings(max_examples=200, deadline=None)
@given(
    z=st.floats(-20.0, 20.0, allow_subnormal=False),
    ratio=st.one_of(st.sampled_from(SIGMAS), st.floats(0.01, 5.0)),
)
@example(z=20.0, ratio=0.75)
@example(z=math.nextafter(20.0, 0.0), ratio=0.75)
@example(z=-19.99, ratio=2.0)
@example(z=1e-12, ratio=0.75)
@example(z=math.log1p(1000.0), ratio=0.75)
def test_every_target_inside_comes_back(z, ratio):
    bins = BINS["DreamerV3"]
    y = torch.tensor([symexp(z)], dtype=torch.float64)
    assert miss(bins, y, round_trip(Gaussian.of_bins(ratio), y, bins)) < 1e-12
    y = y.float().clamp(-symexp(20.0), symexp(20.0))
    assert miss(bins, y, round_trip(Gaussian.of_bins(ratio), y, bins)) < 1e-6


@pytest.mark.parametrize(
    "target", [TwoHot(), *map(Gaussian.of_bins, SIGMAS), Gaussian(0.4)], ids=str
)
@pytest.mark.parametrize("name", BINS)
def test_every_place_between_the_outer_centers_comes_back(name, target):
    bins = BINS[name]
    first, last = bins.centers[0].item(), bins.centers[-1].item()
    shares = torch.linspace(0, 1, 101, dtype=torch.float64)
    near_ends = torch.tensor([1e-9, 1e-3, 0.5], dtype=torch.float64)
    y = torch.cat([bins.edges, bins.centers, first + (last - first) * shares])
    y = torch.cat([y, first + near_ends * bins.widths[0], last - near_ends * bins.widths[-1]])
    y = y.clamp(first, last)
    assert miss(bins, y, round_trip(target, y, bins)) < 1e-12


def test_weights_at_a_center_are_those_beside_it():
    bins = BINS["DreamerV3"]
    at, beside = (Gaussian.of_bins(0.75).weights(bins.centers * (1 + e), bins) for e in (0, 1e-9))
    torch.testing.assert_close(at[1:-1], beside[1:-1], atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", BINS)
def test_a_narrow_gaussian_is_two_hot(name):
    bins = BINS[name]
    y = torch.lerp(bins.centers[:-1], bins.centers[1:], torch.rand(bins.count - 1).double())
    narrow, two_hot = (t.weights(y, bins) for t in (Gaussian.of_bins(1e-9), TwoHot()))
    torch.testing.assert_close(narrow, two_hot, atol=2e-5, rtol=0)


def test_the_width_is_constant_in_the_transformed_space():
    bins = BINS["DreamerV3"]
    y = bins.centers[[140, 180, 220]]  # far from 0, where symlog is a logarithm
    weights = Gaussian.of_bins(1.5).weights(y, bins)
    around = torch.stack([weights[row, at - 9 : at + 10] for row, at in enumerate((140, 180, 220))])
    torch.testing.assert_close(around[0], around[2], atol=1e-3, rtol=0)
    place = torch.arange(-9, 10).double()
    spread = (around * place**2).sum(-1) - (around * place).sum(-1) ** 2
    within = 1 / 12  # what a bin's own width adds
    torch.testing.assert_close(
        spread, torch.full((3,), 1.5**2 + within).double(), atol=0.01, rtol=0
    )
    in_unit = Gaussian(1.5 * bins.transformed_step).weights(y, bins)
    torch.testing.assert_close(in_unit, weights)


@pytest.mark.parametrize("name", BINS)
def test_the_curve_and_the_search_agree(name):
    bins = BINS[name]
    y = torch.lerp(bins.centers[:-1], bins.centers[1:], torch.rand(bins.count - 1).double())
    by_search = Gaussian.of_bins(torch.full_like(y, 0.75)).weights(y, bins)
    torch.testing.assert_close(
        Gaussian.of_bins(0.75).weights(y, bins), by_search, atol=1e-6, rtol=0
    )


def test_a_sigma_for_each_target():
    bins, sigmas = BINS["TD-MPC2"], torch.tensor([0.3, 1.0, 4.0], dtype=torch.float64)
    y = torch.tensor([-50.0, 0.2, 3e3], dtype=torch.float64)
    each = Gaussian.of_bins(sigmas).weights(y, bins)
    single = [Gaussian.of_bins(s.item()).weights(v, bins) for s, v in zip(sigmas, y, strict=True)]
    torch.testing.assert_close(each, torch.stack(single), atol=1e-6, rtol=0)


@pytest.mark.parametrize("sigma", [0.75, torch.tensor([0.75, 0.75, 0.75])], ids=["curve", "search"])
def test_compiled_and_mapped_weights_are_the_same(sigma):
    bins, y = BINS["TD-MPC2"], torch.tensor([-50.0, 0.2, 3e3])
    target = Gaussian.of_bins(sigma)
    expected = target.weights(y, bins)
    compiled = torch.compile(target.weights, fullgraph=True, backend="aot_eager")(y, bins)
    torch.testing.assert_close(compiled, expected, atol=1e-6, rtol=0)
    if not isinstance(sigma, torch.Tensor):
        mapped = torch.func.vmap(lambda one: target.weights(one, bins))(y)
        torch.testing.assert_close(mapped, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("sigma", [0.75, torch.tensor(0.75)], ids=["curve", "search"])
def test_the_gradient_of_the_mean_is_one(sigma):
    bins = BINS["TD-MPC2"]
    y = torch.tensor([-50.0, 0.2, 3e3], dtype=torch.float64, requires_grad=True)
    round_trip(Gaussian.of_bins(sigma), y, bins).sum().backward()
    torch.testing.assert_close(y.grad, torch.ones_like(y))


def test_a_checkpoint_carries_the_space(tmp_path):
    loss = HistogramLoss(BINS["TD-MPC2"], Gaussian(0.2))
    other = HistogramLoss(Bins.symlog(3.0, 101), Gaussian(0.2))
    other.load_state_dict(loss.state_dict())
    assert other.bins == loss.bins
    assert other.half().bins == loss.bins
    torch.save(loss.bins, tmp_path / "bins.pt")
    assert torch.load(tmp_path / "bins.pt", weights_only=True) == loss.bins
    assert Bins(loss.bins.edges) != loss.bins


def test_uniform_logits_have_the_mean_zero_in_float32():
    mean = Histogram(BINS["DreamerV3"], logits=torch.zeros(2, 255)).mean
    assert mean.abs().max() < 1e-15


@pytest.mark.parametrize("ratio", [0.3, 0.4, 5.0, 10.0, 12.0, 20.0])
@pytest.mark.parametrize("name", BINS)
def test_a_target_at_a_center_has_the_weights_of_one_beside_it(name, ratio):
    # Where little is missing to the mean, the bin of that center must not take everything.
    bins = BINS[name]
    y, beside = bins.centers[1:-1], bins.centers[1:-1] + 1e-5 * bins.widths[1:-1]
    found, expected = (Gaussian.of_bins(ratio).weights(t, bins) for t in (y, beside))
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Bins.symlog(0.0, 5), "limit: need a positive finite number, got 0.0"),
        (lambda: Bins.symlog(800.0, 5), "inverse: must increase and be finite"),
        (lambda: Bins.symlog(3.0, 1), "count: need a whole number of at least 2, got 1"),
        (lambda: Bins.transformed(torch.neg, 0.0, 1.0, 4), "inverse: must increase .* -0 to -1"),
        (lambda: Bins.transformed(torch.cos, -1.0, 1.0, 4), "inverse: must increase"),
        (lambda: Bins.transformed(torch.log, -1.0, 1.0, 4), "inverse: must increase and be finite"),
        (lambda: Bins.transformed(torch.exp, 1.0, 1.0, 4), "low, high: need finite low < high"),
        (
            lambda: Bins.transformed(torch.sum, 0.0, 1.0, 4),
            r"inverse: must give a tensor of shape \(5",
        ),
        (lambda: Bins([0.0, 1.0, 2.0], -1.0), "transformed_step: need a positive finite number"),
    ],
)
def test_bad_input_is_named_with_its_value(make, message):
    with pytest.raises(ValueError, match=message):
        make()
