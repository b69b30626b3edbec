import math

import mpmath
import numpy as np
import pytest
import torch
from scipy import stats
from torch.distributions import Laplace, Normal, StudentT, Uniform

from softbins import Bins, FromCDF, Gaussian, OneBin, Payoff, Similarity, TwoHot, UniformMix
from tests.instances import BINS, PLAIN_BINS, cases, spread_targets, squared, targets

TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}
OUTSIDE = ["clamp", "tail"]


# Every target


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("outside", OUTSIDE)
@pytest.mark.parametrize(("bins", "name"), cases())
def test_rows_are_distributions(bins, name, outside, dtype):
    bins = BINS[bins]
    y = spread_targets(bins, dtype)
    weights = targets(bins, outside)[name].weights(y, bins)
    assert weights.shape == (*y.shape, bins.count)
    assert weights.dtype == dtype
    assert (weights >= 0).all()
    torch.testing.assert_close(
        weights.double().sum(-1), torch.ones(len(y)).double(), atol=TOLERANCE[dtype], rtol=0
    )


@pytest.mark.parametrize(("bins", "name"), cases())
def test_clamp_treats_a_target_outside_as_the_nearest_end(bins, name):
    bins = BINS[bins]
    target, span = targets(bins)[name], bins.high - bins.low
    outside = target.weights(
        torch.tensor([bins.low - span, bins.high + span], dtype=torch.float64), bins
    )
    at_ends = target.weights(torch.tensor([bins.low, bins.high], dtype=torch.float64), bins)
    assert torch.equal(outside, at_ends)


@pytest.mark.parametrize(("bins", "name"), cases())
def test_error_refuses_a_target_outside_and_says_which(bins, name):
    bins = BINS[bins]
    target = targets(bins, outside="error")[name]
    y = torch.tensor([bins.low, bins.high, bins.high + 1.0], dtype=torch.float64)
    with pytest.raises(ValueError, match=r"y: 1 of 3 values are outside .* at index 2 .*clamp"):
        target.weights(y, bins)
    assert target.weights(y[:2], bins).sum().item() == pytest.approx(2.0)


@pytest.mark.parametrize(("bins", "name"), cases())
def test_leading_shapes_and_integers(bins, name):
    bins = BINS[bins]
    target = targets(bins)[name]
    middle = round((bins.low + bins.high) / 2)
    y = torch.tensor([[middle, middle], [middle, middle]])
    assert target.weights(y, bins).shape == (2, 2, bins.count)
    assert target.weights(y, bins).dtype == torch.float32
    assert target.weights(y[0, 0], bins).shape == (bins.count,)
    assert target.weights(y[:0], bins).shape == (0, 2, bins.count)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize(("bins", "name"), cases())
def test_targets_that_are_not_finite_are_counted_and_placed(bins, name, bad):
    bins = BINS[bins]
    y = torch.full((3, 4), bins.low)
    y[1, 2] = y[2, 0] = bad
    with pytest.raises(ValueError, match=r"y: 2 of 12 .* at index \(1, 2\)"):
        targets(bins)[name].weights(y, bins)


# Gaussian against independent implementations


def exact_gaussian(y, sigma, edges):
    """The truncated Gaussian's masses with 60 digits, from the normal distribution alone."""
    with mpmath.workdps(60):
        y, sigma, edges = mpmath.mpf(y), mpmath.mpf(sigma), [mpmath.mpf(e) for e in edges]
        z = [(e - y) / sigma for e in edges]
        # Differences of upper tails right of the target, and of lower tails left of it.
        tail = [mpmath.erfc(abs(v) / mpmath.sqrt(2)) for v in z]
        masses = []
        for (a, ta), (b, tb) in zip(zip(z, tail), zip(z[1:], tail[1:])):  # noqa: B905
            masses.append(ta - tb if a >= 0 else tb - ta if b <= 0 else 2 - ta - tb)
        total = mpmath.fsum(masses)
        return [float(m / total) for m in masses]


RATIOS = [1e-6, 1e-3, 0.1, 0.5, 1.0, 2.0, 10.0, 1e3]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("bins", ["equal", "years", "few", "unequal"])
def test_gaussian_agrees_with_mpmath(bins, ratio, dtype):
    bins = BINS[bins]
    sigma = ratio * (bins.high - bins.low) / bins.count
    near = torch.cat([bins.edges[:3], bins.edges[-2:], bins.centers[:2]])
    random = bins.low + (bins.high - bins.low) * torch.rand(3, dtype=torch.float64)
    just_off = bins.edges[1] + sigma * torch.tensor([-1.5, 0.3, 4.0], dtype=torch.float64)
    inside = torch.cat([near, random, just_off]).to(dtype).clamp(bins.low, bins.high)
    distances = sigma * torch.tensor([0.1, 5.0, 40.0, 1e3, 1e6], dtype=torch.float64)
    outside = torch.cat([bins.low - distances, bins.high + distances]).to(dtype)
    y = torch.cat([inside, outside])
    ours = Gaussian(sigma, outside="tail").weights(y, bins)
    exact = [exact_gaussian(v, sigma, bins.edges.tolist()) for v in y.tolist()]
    assert np.abs(ours.double().numpy() - np.array(exact)).max() <= TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("bins", PLAIN_BINS)
def test_gaussian_agrees_with_scipy_on_every_edge_and_inside(bins, ratio, dtype):
    bins = BINS[bins]
    sigma = ratio * (bins.high - bins.low) / bins.count
    random = bins.low + (bins.high - bins.low) * torch.rand(40, dtype=torch.float64)
    y = torch.cat([bins.edges, bins.centers, random]).to(dtype).clamp(bins.low, bins.high)
    loc = y.double().numpy()[:, None]
    oracle = stats.truncnorm((bins.low - loc) / sigma, (bins.high - loc) / sigma, loc, sigma)
    expected = np.diff(oracle.cdf(bins.edges.numpy()), axis=-1)
    for outside in OUTSIDE:
        ours = Gaussian(sigma, outside=outside).weights(y, bins)
        assert np.abs(ours.double().numpy() - expected).max() <= TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_large_offsets_do_not_blur_float32(dtype):
    bins = Bins.uniform(1e6, 1e6 + 50, 100)
    y = (1e6 + 50 * torch.rand(20, dtype=torch.float64)).to(dtype)
    exact = [exact_gaussian(v, 0.5, bins.edges.tolist()) for v in y.tolist()]
    ours = Gaussian.of_bins(1.0).weights(y, bins)
    assert np.abs(ours.double().numpy() - np.array(exact)).max() <= TOLERANCE[dtype]


@pytest.mark.parametrize("bins", BINS)
def test_the_tail_of_a_far_gaussian_ends_up_in_the_nearest_bin(bins):
    # Between edges at distance d and d + w, the tail falls by about exp(-d w / sigma^2).
    bins = BINS[bins]
    sigma = bins.widths.min().item()
    y = torch.tensor([bins.low - 1e6 * sigma, bins.high + 1e6 * sigma], dtype=torch.float64)
    weights = Gaussian(sigma, outside="tail").weights(y, bins)
    assert torch.equal(weights, OneBin().weights(y, bins))


def test_entropy_of_the_binned_gaussian_is_the_papers_floor():
    # The floor of HL-Gaussian's objective is the entropy of p. With bins of width 1 it is 1.459
    # at sigma = 1 on average over the target's place in its bin; Table 1 prints 1.465.
    bins = Bins.uniform(0, 100, 100)
    y = 20 + torch.linspace(0, 50, 10001, dtype=torch.float64)
    p = Gaussian.of_bins(1.0).weights(y, bins)
    assert torch.special.entr(p).sum(-1).mean().item() == pytest.approx(1.459, abs=5e-4)


@pytest.mark.parametrize("bins", ["equal", "years", "few", "unequal", "quantile"])
def test_onebin_is_the_limit_of_a_narrow_gaussian(bins):
    bins = BINS[bins]
    y = bins.low + (bins.high - bins.low) * torch.rand(200, dtype=torch.float64)
    limit = OneBin().weights(y, bins)
    distances = [
        (Gaussian.of_bins(r).weights(y, bins) - limit).abs().max().item() for r in (1e-2, 1e-12)
    ]
    assert distances[1] == 0.0
    assert distances[0] > 0.0


def test_a_narrow_gaussian_on_an_edge_is_shared_by_both_bins():
    # The one place where the limit differs: half of a Gaussian lies on either side of its centre.
    bins = Bins.uniform(0.0, 4.0, 4)
    assert Gaussian(1e-9).weights(torch.tensor(1.0), bins).tolist() == [0.5, 0.5, 0.0, 0.0]


def test_sigma_of_bins_is_the_width_of_the_targets_own_bin():
    bins = Bins([0.0, 1.0, 11.0, 12.0])
    y = torch.tensor([0.5, 6.0], dtype=torch.float64)
    own = Gaussian.of_bins(0.5).weights(y, bins)
    assert torch.equal(own[0], Gaussian(0.5).weights(y, bins)[0])
    assert torch.equal(own[1], Gaussian(5.0).weights(y, bins)[1])


@pytest.mark.parametrize("outside", OUTSIDE)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_a_tensor_of_sigmas_is_one_sigma_for_each_target(dtype, outside):
    bins, y = BINS["equal"], torch.rand(3, 5, dtype=dtype)
    sigmas = torch.tensor([[0.001], [0.01], [0.3]], dtype=dtype)
    together = Gaussian(sigmas, outside=outside).weights(y, bins)
    for i in range(3):
        alone = Gaussian(sigmas[i].item(), outside=outside).weights(y[i], bins)
        torch.testing.assert_close(together[i], alone, atol=TOLERANCE[dtype], rtol=0)


# The others


def test_uniform_mix_has_epsilon_everywhere_else():
    weights = UniformMix(0.05).weights(
        torch.tensor(2.5, dtype=torch.float64), Bins.uniform(0, 4, 4)
    )
    assert weights.tolist() == pytest.approx([0.05, 0.05, 0.85, 0.05], abs=1e-15)


def test_uniform_mix_takes_an_epsilon_for_each_member():
    bins, y = BINS["equal"], torch.rand(2, 7)
    together = UniformMix(torch.tensor([[0.001], [0.01]])).weights(y, bins)
    assert torch.allclose(together[0], UniformMix(0.001).weights(y[0], bins), atol=1e-7)
    assert torch.allclose(together[1], UniformMix(0.01).weights(y[1], bins), atol=1e-7)


@pytest.mark.parametrize("bins", BINS)
def test_two_hot_keeps_the_mean(bins):
    bins = BINS[bins]
    y = torch.lerp(bins.centers[0], bins.centers[-1], torch.rand(100, dtype=torch.float64))
    y = torch.cat([y, bins.centers])
    weights = TwoHot().weights(y, bins)
    torch.testing.assert_close((weights * bins.centers).sum(-1), y, rtol=1e-12, atol=1e-12)
    assert (weights > 0).sum(-1).max() <= 2


@pytest.mark.parametrize("bandwidth", [1e-4, 0.02, 1.0, 1e3])
def test_similarity_is_a_normalised_radial_basis(bandwidth):
    bins = Bins.uniform(0, 1, 10)
    y = torch.linspace(0, 1, 23, dtype=torch.float64)
    ours = Similarity(bandwidth).weights(y, bins)
    exponent = -((bins.centers - y[:, None]) ** 2) / (2 * bandwidth**2)
    torch.testing.assert_close(ours, torch.softmax(exponent, -1), atol=1e-9, rtol=0)


def test_from_cdf_with_a_normal_is_gaussian():
    bins, y = BINS["unequal"], torch.linspace(-2, 10, 50, dtype=torch.float64)
    ours = FromCDF(lambda y: Normal(y, 0.8)).weights(y, bins)
    torch.testing.assert_close(ours, Gaussian(0.8).weights(y, bins), atol=1e-14, rtol=0)


def test_from_cdf_explains_families_that_do_not_fit():
    bins, y = Bins.uniform(0, 10, 5), torch.tensor([5.0])
    with pytest.raises(ValueError, match="make: Uniform has no cdf .* validate_args=False"):
        FromCDF(lambda y: Uniform(y - 1, y + 1, validate_args=True)).weights(y, bins)
    loose = FromCDF(lambda y: Uniform(y - 1, y + 1, validate_args=False))
    assert loose.weights(y, bins).tolist() == [[0.0, 0.0, 1.0, 0.0, 0.0]]
    with pytest.raises(NotImplementedError):
        FromCDF(lambda y: StudentT(3.0, y)).weights(y, bins)


@pytest.mark.parametrize("ratio", [1e-3, 1e-2, 0.1, 0.3, 1.0, 10.0, 1e3])
@pytest.mark.parametrize("bins", ["equal", "unequal", "quantile"])
def test_payoff_of_the_squared_reward_is_gaussian_with_variance_temperature(bins, ratio):
    # Section 3: r(t, y) = -(t - y)^2 / 2 and tau = sigma^2.
    bins = BINS[bins]
    sigma = ratio * bins.widths.max().item()
    random = bins.low + (bins.high - bins.low) * torch.rand(20, dtype=torch.float64)
    y = torch.cat([random, bins.edges])
    ours = Payoff(squared, sigma**2).weights(y, bins)
    torch.testing.assert_close(ours, Gaussian(sigma).weights(y, bins), atol=1e-6, rtol=0)


def test_payoff_of_the_absolute_reward_is_laplace():
    bins, y = BINS["unequal"], torch.linspace(-2, 10, 40, dtype=torch.float64)
    ours = Payoff(lambda t, y: -(t - y).abs(), 0.7).weights(y, bins)
    expected = FromCDF(lambda y: Laplace(y, 0.7)).weights(y, bins)
    torch.testing.assert_close(ours, expected, atol=1e-6, rtol=0)


def test_payoff_takes_a_temperature_for_each_target():
    bins, y = BINS["equal"], torch.tensor([0.3, 0.6], dtype=torch.float64)
    sigma = torch.tensor([0.01, 0.2], dtype=torch.float64)
    ours = Payoff(squared, sigma**2).weights(y, bins)
    torch.testing.assert_close(ours, Gaussian(sigma).weights(y, bins), atol=1e-6, rtol=0)


# Bad parameters


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, torch.tensor([1.0, 0.0])])
@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("sigma", Gaussian),
        ("sigma", Gaussian.of_bins),
        ("bandwidth", Similarity),
        ("temperature", lambda value: Payoff(squared, value)),
    ],
)
def test_scales_must_be_positive(name, make, value):
    with pytest.raises(ValueError, match=f"{name}: .*must be positive and finite"):
        make(value)


@pytest.mark.parametrize("value", [-0.1, 0.6, 2.0, math.nan, torch.tensor([0.1, -0.1])])
def test_epsilon_must_be_a_share(value):
    with pytest.raises(ValueError, match="epsilon: .*"):
        UniformMix(value)


def test_epsilon_must_leave_the_targets_own_bin_the_most():
    with pytest.raises(ValueError, match=r"epsilon: got 0.3; with 4 bins, .* \[0, 1 / 4\]"):
        UniformMix(0.3).weights(torch.tensor(0.5), Bins.uniform(0, 1, 4))
    even = UniformMix(0.25).weights(torch.tensor(0.5), Bins.uniform(0, 1, 4))
    assert even.tolist() == [0.25] * 4


def test_outside_must_be_a_known_policy():
    with pytest.raises(ValueError, match="outside: expected 'clamp', 'error' or 'tail', got 'x'"):
        OneBin(outside="x")


def test_targets_on_another_device_are_refused():
    with pytest.raises(ValueError, match="y: is on meta, but the bins are on cpu"):
        OneBin().weights(torch.zeros(3, device="meta"), BINS["equal"])
