import math

import numpy as np
import pytest
import scoringrules
import torch
from torch.distributions import Distribution, kl_divergence

from softbins import Bins, Histogram
from tests.instances import BINS

DTYPES = [torch.float32, torch.float64]


def random_histogram(bins, *batch, dtype=torch.float64, scale=2.0):
    return Histogram(bins, logits=scale * torch.randn(*batch, bins.count, dtype=dtype))


def inside(bins, *shape):
    return bins.low + (bins.high - bins.low) * torch.rand(*shape, dtype=torch.float64)


# Golden numbers: two bins [0, 1) and [1, 3] with probabilities 1/4 and 3/4


@pytest.fixture
def golden():
    return Histogram(Bins([0.0, 1.0, 3.0]), probs=torch.tensor([0.25, 0.75], dtype=torch.float64))


def test_golden_moments(golden):
    # Centres 0.5 and 2: mean 0.125 + 1.5; variance between 1.5^2 * 3/16, within (1/4 + 3/4 * 4)/12.
    assert golden.mean.item() == pytest.approx(1.625)
    assert golden.variance.item() == pytest.approx(2.25 * 3 / 16 + 3.25 / 12)
    assert golden.stddev.item() == pytest.approx(math.sqrt(2.25 * 3 / 16 + 3.25 / 12))


def test_golden_density(golden):
    # Densities 1/4 and 3/8.
    y = torch.tensor([0.5, 1.0, 3.0, -0.1, 3.1])
    expected = [math.log(0.25), math.log(0.375), math.log(0.375), -math.inf, -math.inf]
    assert golden.log_prob(y).tolist() == pytest.approx(expected)
    assert golden.mode.item() == 2.0
    assert golden.entropy().item() == pytest.approx(-0.25 * expected[0] - 0.75 * expected[1])


def test_golden_cdf_and_quantiles(golden):
    y = torch.tensor([-1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 9.0])
    assert golden.cdf(y).tolist() == pytest.approx([0, 0, 0.125, 0.25, 0.625, 1, 1])
    assert golden.median.item() == pytest.approx(1 + 2 / 3)
    assert golden.quantile([0.125, 0.25, 1.0]).tolist() == pytest.approx([0.5, 1.0, 3.0])


def test_golden_crps(golden):
    # For y = 2: integral of cdf^2 on [0, 2] plus (1 - cdf)^2 on [2, 3]
    # = (1/4)^2 / 3 + [(5/8)^3 - (1/4)^3] / (3 * 3/8) + (3/8)^3 / (3 * 3/8).
    slope = 3 / 8
    expected = 1 / 48 + ((5 / 8) ** 3 - (1 / 4) ** 3 + (3 / 8) ** 3) / (3 * slope)
    assert golden.crps(torch.tensor(2.0)).item() == pytest.approx(expected)


def test_golden_intervals(golden):
    low, high = golden.interval(0.5)
    assert (low.item(), high.item()) == pytest.approx((1.0, 1 + 4 / 3))
    # The denser bin holds 0.75 in [1, 3]: half of the mass takes 4/3 there, and any such
    # stretch is shortest; 0.9 needs all of it plus 0.15 / 0.25 from the left.
    low, high = golden.interval(0.5, kind="shortest")
    assert (high - low).item() == pytest.approx(4 / 3)
    low, high = golden.interval(0.9, kind="shortest")
    assert (low.item(), high.item()) == pytest.approx((0.4, 3.0))


# The interface


def test_it_is_a_torch_distribution():
    histogram = random_histogram(BINS["equal"], 4, 3)
    assert isinstance(histogram, Distribution)
    assert histogram.batch_shape == (4, 3)
    assert histogram.event_shape == ()
    assert histogram.has_rsample
    assert histogram.support.check(histogram.sample((7,))).all()
    assert repr(histogram) == "Histogram(Bins(100 equal bins on [0, 1]), batch_shape=(4, 3))"


def test_logits_and_probs_are_two_views_of_the_same():
    logits = torch.randn(5, 100)
    a = Histogram(BINS["equal"], logits=logits)
    b = Histogram(BINS["equal"], probs=3 * torch.softmax(logits, -1))
    torch.testing.assert_close(a.probs, b.probs)
    torch.testing.assert_close(a.logits, b.logits)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bins", BINS)
def test_shapes_and_dtypes(bins, dtype):
    histogram = random_histogram(BINS[bins], 4, 3, dtype=dtype)
    y = inside(BINS[bins], 5, 4, 3).to(dtype)
    for value in (histogram.mean, histogram.variance, histogram.mode, histogram.median):
        assert (value.shape, value.dtype) == ((4, 3), dtype)
    for method in (histogram.log_prob, histogram.cdf, histogram.crps):
        assert (method(y).shape, method(y).dtype) == ((5, 4, 3), dtype)
        assert method(y[0, 0, 0]).shape == (4, 3)
        torch.testing.assert_close(method(y)[2], method(y[2]))
    assert histogram.quantile([0.1, 0.5]).shape == (4, 3, 2)
    assert histogram.quantile(0.1).shape == (4, 3)
    assert histogram.icdf(torch.rand(6, 4, 3, dtype=dtype)).shape == (6, 4, 3)
    assert histogram.sample((2, 5)).shape == (2, 5, 4, 3)
    assert histogram.sample().shape == (4, 3)
    assert histogram.entropy().shape == (4, 3)


def test_half_precision_is_computed_in_float32():
    logits = torch.randn(3, 100).bfloat16()
    assert Histogram(BINS["equal"], logits=logits).mean.dtype == torch.float32


def test_expand():
    histogram = random_histogram(BINS["equal"])
    wide = histogram.expand((6,))
    assert wide.batch_shape == (6,)
    torch.testing.assert_close(wide.mean, histogram.mean.expand(6))


def test_mode_is_the_highest_density_not_the_highest_probability():
    histogram = Histogram(Bins([0.0, 0.1, 10.0]), probs=torch.tensor([0.4, 0.6]))
    assert histogram.mode.item() == pytest.approx(0.05)


def test_the_mean_of_years_keeps_its_digits_in_float32():
    bins = BINS["years"]
    logits = torch.randn(1000, 100)
    exact = Histogram(bins, logits=logits.double()).mean
    assert (Histogram(bins, logits=logits).mean - exact).abs().max() < 2e-4


# Zero probability


def test_empty_bins_give_no_nan_and_no_samples():
    bins = Bins.uniform(0, 5, 5)
    histogram = Histogram(bins, probs=torch.tensor([0.0, 0.5, 0.0, 0.5, 0.0]))
    samples = histogram.sample((2000,))
    assert torch.isfinite(histogram.log_prob(samples)).all()
    assert histogram.entropy().item() == pytest.approx(math.log(2))
    assert histogram.quantile([0.0, 0.5, 1.0]).tolist() == [0.0, 2.0, 4.0]
    low, high = histogram.interval(1.0, kind="shortest")
    assert (low.item(), high.item()) == (1.0, 4.0)


def test_extreme_logits_stay_finite():
    logits = torch.tensor([[0.0, 500.0, -500.0]])
    histogram = Histogram(Bins([0.0, 1.0, 2.0, 3.0]), logits=logits)
    assert histogram.mean.item() == 1.5
    assert histogram.log_prob(torch.tensor([2.5])).item() == -1000.0
    assert math.isfinite(histogram.entropy().item())


# Sampling


@pytest.mark.parametrize("bins", BINS)
def test_moments_agree_with_samples(bins):
    histogram = random_histogram(BINS[bins], 3)
    samples = histogram.sample((200_000,))
    error = 6 * histogram.stddev / math.sqrt(200_000)
    assert ((samples.mean(0) - histogram.mean).abs() <= error).all()
    torch.testing.assert_close(samples.var(0), histogram.variance, rtol=0.1, atol=0)
    place = histogram.quantile(0.3)
    # Between both sides of a jump, where there is one.
    assert ((samples <= place).double().mean(0) >= 0.29).all()
    assert ((samples < place).double().mean(0) <= 0.31).all()


def test_rsample_has_the_pathwise_gradient():
    # d/d logits of E[y] by samples must be that of the closed form.
    logits = torch.randn(5, dtype=torch.float64, requires_grad=True)
    bins = Bins([0.0, 1.0, 2.5, 3.0, 5.0, 6.0])
    sampled = Histogram(bins, logits=logits).rsample((400_000,)).mean()
    exact = Histogram(bins, logits=logits).mean
    (by_samples,) = torch.autograd.grad(sampled, logits)
    (by_formula,) = torch.autograd.grad(exact, logits)
    torch.testing.assert_close(by_samples, by_formula, atol=0.02, rtol=0)


def test_sample_carries_no_gradient_and_follows_the_seed():
    histogram = random_histogram(BINS["equal"], 2)
    histogram.logits.requires_grad_()
    torch.manual_seed(1)
    first = histogram.sample((3,))
    torch.manual_seed(1)
    assert torch.equal(first, histogram.sample((3,)))
    assert not first.requires_grad


# Scores


@pytest.mark.parametrize("bins", BINS)
def test_crps_agrees_with_numerical_integration(bins):
    bins = BINS[bins]
    histogram = random_histogram(bins, 1)
    span = bins.high - bins.low
    for y in [*inside(bins, 3).tolist(), bins.low, bins.high, bins.low - span, bins.high + span]:
        knots = torch.cat([bins.edges, torch.tensor([y], dtype=torch.float64)]).unique()
        # Gauss-Legendre is exact for the quadratic between two knots.
        nodes, weights = (torch.tensor(part) for part in np.polynomial.legendre.leggauss(4))
        width = knots.diff().unsqueeze(-1)
        t = knots[:-1].unsqueeze(-1) + width * (nodes + 1) / 2
        gap = histogram.cdf(t.reshape(-1, 1)).reshape(t.shape) - (t >= y).double()
        numeric = (gap**2 * weights * width / 2).sum().item()
        assert histogram.crps(torch.tensor([y])).item() == pytest.approx(numeric, rel=1e-6)


def test_crps_agrees_with_scoringrules_on_a_large_sample():
    bins = BINS["unequal"]
    histogram = random_histogram(bins, 4, scale=1.0)
    y = inside(bins, 4)
    sample = histogram.sample((20_000,)).T.numpy()
    theirs = scoringrules.crps_ensemble(y.numpy(), sample)
    np.testing.assert_allclose(histogram.crps(y).numpy(), theirs, rtol=0.03)


def test_crps_of_a_sharp_histogram_is_the_absolute_error():
    bins = Bins([-1.0, 1.999999, 2.000001, 7.0])
    histogram = Histogram(bins, probs=torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64))
    y = torch.tensor([-3.0, 0.0, 5.0])
    torch.testing.assert_close(histogram.crps(y), (y - 2).abs().double(), atol=1e-6, rtol=0)


# Mixtures and divergences


def test_the_cdf_of_a_pool_is_the_mean_of_the_cdfs():
    same = [random_histogram(BINS["equal"], 3) for _ in range(4)]
    y = torch.linspace(-0.5, 1.5, 41, dtype=torch.float64)[:, None].expand(-1, 3)
    pooled = Histogram.pool(same)
    torch.testing.assert_close(pooled.cdf(y), sum(m.cdf(y) for m in same) / 4)
    assert pooled.bins == BINS["equal"]


def test_members_with_different_bins_pool_exactly():
    members = [
        random_histogram(Bins([0.0, 1.0, 3.0]), 2),
        random_histogram(Bins([-1.0, 0.5, 2.0, 5.0]), 2),
    ]
    pooled = Histogram.pool(members)
    y = torch.linspace(-2, 6, 200, dtype=torch.float64)[:, None].expand(-1, 2)
    torch.testing.assert_close(pooled.cdf(y), (members[0].cdf(y) + members[1].cdf(y)) / 2)
    torch.testing.assert_close(pooled.mean, (members[0].mean + members[1].mean) / 2)


def test_kl_divergence_agrees_with_samples_and_with_itself():
    bins = BINS["unequal"]
    p, q = random_histogram(bins, 2), random_histogram(bins, 2)
    y = p.sample((200_000,))
    expected = (p.log_prob(y) - q.log_prob(y)).mean(0)
    torch.testing.assert_close(kl_divergence(p, q), expected, rtol=0.03, atol=0.01)
    assert (kl_divergence(p, p) == 0).all()


def test_kl_divergence_between_different_bins_uses_their_union():
    p = Histogram(Bins([0.0, 1.0, 2.0]), probs=torch.tensor([0.5, 0.5], dtype=torch.float64))
    q = Histogram(Bins([0.0, 0.5, 2.0]), probs=torch.tensor([0.5, 0.5], dtype=torch.float64))
    # p is 1/2 everywhere; q is 1 on [0, 1/2] and 1/3 on [1/2, 2].
    expected = 0.25 * math.log(0.5 / 1) + 0.75 * math.log(0.5 / (1 / 3))
    assert kl_divergence(p, q).item() == pytest.approx(expected)
    shifted = Histogram(Bins([1.0, 2.0, 3.0]), probs=torch.tensor([0.5, 0.5]).double())
    assert kl_divergence(p, shifted).item() == math.inf


# Bad input

UNIT = Bins([0.0, 1.0, 2.0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Histogram(UNIT), "logits, probs: give exactly one"),
        (lambda: Histogram(UNIT, torch.zeros(2), torch.ones(2)), "give exactly one"),
        (
            lambda: Histogram(UNIT, logits=torch.zeros(4, 3)),
            r"number of bins, 2, got shape \(4, 3\)",
        ),
        (lambda: Histogram(UNIT, logits=torch.zeros(())), r"got shape \(\)"),
        (lambda: Histogram(UNIT, probs=torch.tensor([0.5, -0.5])), r"probs: 1 of 2 .* \(-0.5\)"),
        (lambda: Histogram(UNIT, probs=torch.zeros(2)), "probs: .* sums to 0"),
        (lambda: Histogram(UNIT, logits=torch.tensor([0.0, math.nan])), "logits: 1 of 2 .* NaN"),
        (lambda: random_histogram(UNIT).quantile(1.5), r"q: 1 of 1 values are outside \[0, 1\]"),
        (lambda: random_histogram(UNIT).icdf(torch.tensor([-0.1])), "value: 1 of 1"),
        (lambda: random_histogram(UNIT).cdf(torch.tensor([math.nan])), "value: 1 of 1 .* NaN"),
        (lambda: random_histogram(UNIT, 3, 1).cdf(torch.zeros(3, 4)), r"value: shape \(3, 4\)"),
        (lambda: random_histogram(UNIT).interval(0.0), r"coverage: must lie in \(0, 1\], got 0.0"),
        (lambda: random_histogram(UNIT).interval(0.9, kind="x"), "kind: expected 'central' or"),
        (lambda: Histogram.pool([]), "members: need at least one"),
    ],
)
def test_bad_input_is_named_with_its_value(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# Atoms: 3/4 at 0 and a quarter on [0, 2]


@pytest.fixture
def spike():
    return Histogram(Bins([0.0, 0.0, 1.0, 2.0]), probs=torch.tensor([0.75, 0.1, 0.15]).double())


def test_golden_atom(spike):
    y = torch.tensor([-1.0, 0.0, 1.0, 2.0], dtype=torch.float64)
    assert spike.cdf(y).tolist() == pytest.approx([0, 0.75, 0.85, 1])
    assert spike.prob(y).tolist() == pytest.approx([0, 0.75, 0, 0])
    assert spike.prob(0.0).item() == pytest.approx(0.75)
    assert spike.quantile([0.0, 0.5, 0.7499]).tolist() == [0.0, 0.0, 0.0]
    assert spike.quantile(0.85).item() == pytest.approx(1.0)
    assert spike.log_prob(y[1:]).exp().tolist() == pytest.approx([0.75, 0.15, 0.15])
    assert spike.mode.item() == 0.0
    assert spike.mean.item() == pytest.approx(0.05 + 0.225)
    entropy = -0.75 * math.log(0.75) - 0.1 * math.log(0.1) - 0.15 * math.log(0.15)
    assert spike.entropy().item() == pytest.approx(entropy)


def test_golden_crps_at_an_atom(spike):
    # For y = 0 the integral of (1 - cdf)^2 on [0, 2], from 1/4 to 0.15 and on to 0.
    expected = (0.25**3 - 0.15**3) / (3 * 0.1) + 0.15**3 / (3 * 0.15)
    assert spike.crps(torch.tensor(0.0)).item() == pytest.approx(expected)


def test_intervals_begin_at_an_atom_exactly(spike):
    low, high = spike.interval(0.8)
    assert (low.item(), high.item()) == (0.0, pytest.approx(1 + 1 / 3))
    low, high = spike.interval(0.7, "shortest")
    assert (low.item(), high.item()) == (0.0, 0.0)


def test_samples_hit_an_atom_exactly_as_often_as_they_should(spike):
    torch.manual_seed(0)
    share = (spike.sample((40_000,)) == 0).double().mean().item()
    assert share == pytest.approx(0.75, abs=4 * math.sqrt(0.75 * 0.25 / 40_000))


def test_histograms_with_other_atoms_are_pooled_exactly(spike):
    other = Histogram(Bins([0.0, 1.0, 1.0, 2.0]), probs=torch.tensor([0.25, 0.5, 0.25]).double())
    both = Histogram.pool([spike, other])
    assert both.bins.edges.tolist() == [0.0, 0.0, 1.0, 1.0, 2.0]
    y = torch.linspace(-0.5, 2.5, 61, dtype=torch.float64)
    torch.testing.assert_close(both.cdf(y), (spike.cdf(y) + other.cdf(y)) / 2)
    assert both.prob(torch.tensor([0.0, 1.0])).tolist() == pytest.approx([0.375, 0.25])


def test_kl_of_an_atom_that_the_other_lacks_is_infinite(spike):
    wide = Histogram(Bins([0.0, 1.0, 2.0]), probs=torch.tensor([0.5, 0.5]).double())
    assert kl_divergence(spike, wide).item() == math.inf
    assert kl_divergence(spike, spike).item() == 0.0
