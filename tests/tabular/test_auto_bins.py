import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from softbins import Bins, Gaussian
from softbins.bins import Bias
from softbins.nn.objectives import HistogramObjective
from softbins.tabular.auto_bins import (
    KNOTS,
    ROOM,
    BlurredObjective,
    StretchedObjective,
    automatic_bins,
    bias,
    blurred_objective,
    histogram_objective,
    warn_of_bias,
)

COUNT, SIGMA = 100, 2.0
ROWS = 2000


def sample(draw):
    return draw(np.random.default_rng(0))


EQUAL = {
    "normal": sample(lambda g: g.normal(size=ROWS)),
    "uniform": sample(lambda g: g.uniform(-1, 5, ROWS)),
    "whole numbers": sample(lambda g: g.poisson(4, ROWS).astype(float)),
    "two values": sample(lambda g: g.integers(0, 2, ROWS).astype(float)),
    "half zeros": sample(lambda g: np.maximum(g.normal(size=ROWS), 0)),
    "exponential": sample(lambda g: g.exponential(size=ROWS)),
    "around 1e9": sample(lambda g: 1e9 + g.integers(0, 5, ROWS)),
    "tiny": sample(lambda g: 1e-30 * g.normal(size=ROWS)),
    "huge": sample(lambda g: 1e30 * g.normal(size=ROWS)),
    "constant": np.full(ROWS, 0.1),
}
STRETCHED = {
    "lognormal": sample(lambda g: np.exp(2 * g.normal(size=ROWS))),
    "negative": sample(lambda g: -np.exp(2 * g.normal(size=ROWS))),
    "cauchy": sample(lambda g: g.standard_cauchy(ROWS)),
    "12 orders": sample(lambda g: 10 ** g.uniform(-6, 6, ROWS)),
    "one outlier": sample(lambda g: np.append(g.normal(size=ROWS), 1e6)),
    "rare": sample(lambda g: np.where(g.random(ROWS) < 0.85, 0, np.exp(3 * g.normal(size=ROWS)))),
}
TARGETS = EQUAL | STRETCHED


def objective_for(name, sigma=SIGMA):
    return histogram_objective(automatic_bins(TARGETS[name], COUNT, sigma), sigma)


def tensor(values, dtype=torch.float64):
    return torch.as_tensor(values, dtype=dtype)


# automatic_bins


@pytest.mark.parametrize("name", TARGETS)
def test_bins_are_stretched_if_tails_are_heavy(name):
    bins = automatic_bins(TARGETS[name], COUNT, SIGMA)
    assert (bins.step is None) == (name in STRETCHED)
    assert bins.count == COUNT


@pytest.mark.parametrize("name", TARGETS)
def test_all_targets_are_inside_with_room(name):
    y = TARGETS[name]
    bins = automatic_bins(y, COUNT, SIGMA)
    first, last = bins.index(tensor([y.min(), y.max()])).tolist()
    # The outermost targets are as many bins from the ends, up to the rounding of an edge.
    room = int(ROOM * SIGMA)
    assert first >= room - 1
    assert last <= COUNT - room
    if y.min() < y.max():
        assert first <= room
        assert last >= COUNT - room - 1


@pytest.mark.parametrize("name", STRETCHED)
def test_stretched_edges_are_even_in_asinh(name):
    y = TARGETS[name]
    first, median, third = np.quantile(y, (0.25, 0.5, 0.75))
    tenth, ninetieth = np.quantile(y, (0.1, 0.9))
    spread = third - first if third > first else (ninetieth - tenth) / 3
    edges = automatic_bins(y, COUNT, SIGMA).edges.numpy()
    steps = np.diff(np.arcsinh((edges - median) / spread))
    np.testing.assert_allclose(steps, steps.mean(), rtol=1e-6)


@given(
    st.sampled_from(sorted(TARGETS.keys() - {"constant", "around 1e9"})),
    st.floats(-6, 6).map(lambda power: 10**power),
    st.floats(-10, 10),
)
def test_another_unit_gives_the_same_bins_in_that_unit(name, scale, shift):
    y = TARGETS[name]
    offset = shift * scale * float(np.std(y))
    here, there = (automatic_bins(v, COUNT, SIGMA).edges.numpy() for v in (y, scale * y + offset))
    tolerance = 1e-9 * scale * np.ptp(here)
    np.testing.assert_allclose(there, scale * here + offset, rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", TARGETS)
def test_the_other_sign_gives_mirrored_bins(name):
    here = automatic_bins(TARGETS[name], COUNT, SIGMA).edges.numpy()
    there = automatic_bins(-TARGETS[name], COUNT, SIGMA).edges.numpy()
    np.testing.assert_allclose(there, -here[::-1], rtol=1e-9, atol=1e-9 * np.ptp(here))


WRONG = {
    "one bin": (1, 0.1, "bins"),
    "no bins": (0, 0.1, "bins"),
    "no room": (12, 2.0, "bins"),
    "half a bin": (20.5, 2.0, "bins"),
    "text": ("many", 2.0, "bins"),
    "sigma 0": (100, 0.0, "sigma"),
    "sigma negative": (100, -1.0, "sigma"),
    "sigma nan": (100, math.nan, "sigma"),
    "sigma infinite": (100, math.inf, "sigma"),
    "sigma wide": (100, 20.0, "bins"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_bins_are_named(case):
    count, sigma, name = WRONG[case]
    with pytest.raises(ValueError, match=f"^{name}: .*got"):
        automatic_bins(TARGETS["normal"], count, sigma)


# StretchedObjective


def asinh_step(bins):
    """How much asinh grows in one bin: in the tails, the logarithm of neighbours' ratio."""
    return (bins.widths[1:] / bins.widths[:-1]).log().abs().max().item()


@pytest.mark.parametrize("sigma", [0.75, 2.0, 6.0])
@pytest.mark.parametrize("name", STRETCHED)
def test_the_targets_histogram_has_the_targets_mean(name, sigma):
    objective, y = objective_for(name, sigma), tensor(np.unique(TARGETS[name]))
    weights = objective.weights(y)
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(y))
    # Between knots, 1 / KNOTS of a bin apart, the mean as a function of the place is taken for
    # straight: an error of at most h^2 / 8 times its second derivative. With edges sinh(s u) that
    # is s^2 sinh, and the bin is s cosh wide: s h^2 / 8 of a bin, and e^(s^2 sigma^2 / 2) as much
    # after the Gaussian has averaged it.
    s = asinh_step(objective.bins)
    widths = objective.bins.widths[objective.bins.index(y)]
    error = (weights @ objective.bins.centers - y).abs() / widths
    assert error.max() <= 1.5 * s / (8 * KNOTS**2) * math.exp((s * sigma) ** 2) + 1e-9


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
    assert isinstance(objective, StretchedObjective)
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
    assert isinstance(some, StretchedObjective)
    torch.testing.assert_close(
        some.losses(outputs, y), objective.losses(outputs, y), rtol=0, atol=0
    )
    torch.testing.assert_close(some.batch_loss(outputs, y), objective.batch_loss(outputs, y))


@pytest.mark.parametrize("sigma", [1.0, 2.0, 5.0])
def test_on_equal_bins_it_is_the_plain_objective(sigma):
    # Away from the ends a target's histogram has its mean already, up to exp(-2 pi^2 sigma^2).
    bins, target = Bins.uniform(-3.0, 7.0, COUNT), Gaussian.of_bins(sigma)
    plain = HistogramObjective(bins.low, bins.high, bins, target)
    stretched = StretchedObjective(bins.low, bins.high, bins, target)
    room = 8 * sigma * bins.step
    y = torch.linspace(bins.low + room, bins.high - room, 333, dtype=torch.float64)
    outputs = torch.randn(333, COUNT, dtype=torch.float64)
    torch.testing.assert_close(stretched.weights(y), plain.weights(y), rtol=0, atol=1e-7)
    torch.testing.assert_close(
        stretched.losses(outputs, y), plain.losses(outputs, y), atol=1e-6, rtol=0
    )
    torch.testing.assert_close(stretched.decode(outputs), plain.decode(outputs), atol=0, rtol=0)


def test_near_an_end_it_keeps_the_mean_and_the_plain_objective_does_not():
    bins, target = Bins.uniform(0.0, 1.0, COUNT), Gaussian.of_bins(2.0)
    plain = HistogramObjective(bins.low, bins.high, bins, target)
    stretched = StretchedObjective(bins.low, bins.high, bins, target)
    y = torch.tensor([0.02, 0.98], dtype=torch.float64)
    assert ((plain.weights(y) @ bins.centers - y).abs() > 1e-3).all()
    assert ((stretched.weights(y) @ bins.centers - y).abs() < 1e-4).all()


def test_beyond_the_farthest_mean_a_target_has_the_farthest_histogram():
    objective = objective_for("lognormal")
    bins = objective.bins
    y = torch.tensor([bins.low - 1e3, bins.low, bins.high, bins.high + 1e9], dtype=torch.float64)
    assert objective.place(y).tolist() == [0.0, 0.0, COUNT, COUNT]
    assert torch.isfinite(objective.weights(y)).all()


# BlurredObjective


@pytest.fixture(params=["normal", "lognormal"])
def blurred(request):
    y = TARGETS[request.param]
    return blurred_objective(y, objective_for(request.param), 0.05, 40), tensor(y[:30])


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
    blurred = blurred_objective(y, objective_for(name), share, 64).blurred
    deviation = blurred.target.sigma * blurred.bins.step
    assert deviation == pytest.approx(share * np.ptp(y))
    # Its bins leave room for that.
    assert y.min() - blurred.bins.low == pytest.approx(ROOM * deviation)
    assert blurred.bins.high - y.max() == pytest.approx(ROOM * deviation)


def test_a_prediction_stays_where_the_distribution_can_follow():
    # Blurred bins reach farther than sharp ones, and stretched ones very much so.
    objective = blurred_objective(TARGETS["12 orders"], objective_for("12 orders"), 0.1, 64)
    assert isinstance(objective, BlurredObjective)
    assert objective.blurred.bins.high > 5 * objective.high
    ends = torch.full((2, objective.outputs), -100.0, dtype=torch.float64)
    ends[0, 0] = ends[1, 63] = 100.0
    assert objective.decode(ends).tolist() == [objective.low, objective.high]


@pytest.mark.parametrize("share", [0.0, -1.0, math.nan, math.inf])
def test_a_wrong_blur_is_named(share):
    with pytest.raises(ValueError, match="^blur: .*got"):
        blurred_objective(TARGETS["normal"], objective_for("normal"), share, 64)


# Bias


def truncated_mean(y, sigma, low, high):
    """By numerical integration of a Gaussian that is cut off at both ends."""

    def density(t):
        return math.exp(-(((t - y) / sigma) ** 2) / 2)

    around = [p for p in (y - 4 * sigma, y, y + 4 * sigma) if low < p < high]
    mass, _ = quad(density, low, high, points=around, epsabs=0, epsrel=1e-11, limit=500)
    moment, _ = quad(lambda t: t * density(t), low, high, points=around, epsrel=1e-11, limit=500)
    return moment / mass


def histogram_mean(y, sigma, bins):
    """By the masses of a Gaussian between the edges."""
    cdf = [math.erf((edge - y) / (sigma * math.sqrt(2))) for edge in bins.edges.tolist()]
    masses = np.diff(cdf)
    return float(masses @ bins.centers.numpy() / masses.sum())


@pytest.mark.parametrize("ratio", [0.2, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("count", [4, 10, 33])
def test_bias_is_what_brute_force_finds(count, ratio):
    bins = Bins.uniform(-1.0, 2.0, count)
    sigma = ratio * bins.step
    y = np.random.default_rng(1).uniform(-0.95, 1.95, 25)
    cut = np.array([truncated_mean(v, sigma, -1.0, 2.0) - v for v in y])
    total = np.array([histogram_mean(v, sigma, bins) - v for v in y])
    found = bias(histogram_objective(bins, ratio), y)
    assert found.truncation == pytest.approx(np.abs(cut).max(), rel=1e-6)
    assert found.discretisation == pytest.approx(np.abs(total - cut).max(), rel=1e-5, abs=1e-12)


def test_golden_bias():
    # In the middle of two bins nothing is cut off or moved; at a quarter of the first bin, with a
    # Gaussian so narrow that all of it is in that bin, the mean is the bin's centre.
    bins = Bins.uniform(0.0, 2.0, 2)
    assert bias(histogram_objective(bins, 0.01), np.array([1.0])) == pytest.approx(
        (0, 0), abs=1e-12
    )
    assert bias(histogram_objective(bins, 0.01), np.array([0.25])) == pytest.approx((0.25, 0))
    # At an end half of a Gaussian is left, whose mean is sigma sqrt(2 / pi) away.
    found = bias(histogram_objective(Bins.uniform(0.0, 1.0, 1000), 10.0), np.array([0.0]))
    assert found.truncation == pytest.approx(0.01 * math.sqrt(2 / math.pi))
    assert found.discretisation < 1e-5


@pytest.mark.parametrize("name", TARGETS)
def test_automatic_bins_cost_next_to_nothing(name):
    y = TARGETS[name]
    found = bias(objective_for(name), y)
    assert sum(found) <= 1e-3 * y.std() or name == "constant"
    if name in EQUAL and name != "constant":
        # ROOM sigmas from the end: a truncated Gaussian's mean is off by sigma phi / Phi.
        sigma = SIGMA * automatic_bins(y, COUNT, SIGMA).step
        phi = math.exp(-(ROOM**2) / 2) / math.sqrt(2 * math.pi)
        below = (1 + math.erf(ROOM / math.sqrt(2))) / 2
        assert found.truncation == pytest.approx(sigma * phi / below, rel=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_bias(found, y)


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 7.0, 1e30])
@pytest.mark.parametrize("name", ["normal", "lognormal"])
def test_bias_is_in_the_targets_unit(name, scale):
    y = TARGETS[name][:300]
    here, there = (
        bias(histogram_objective(automatic_bins(v, 20, 1.0), 1.0), v) for v in (y, scale * y)
    )
    assert there.discretisation == pytest.approx(scale * here.discretisation, rel=1e-6)
    assert there.truncation == pytest.approx(scale * here.truncation, rel=1e-6)


def test_coarse_bins_are_warned_of():
    y = TARGETS["normal"]
    objective = histogram_objective(Bins.uniform(y.min(), y.max(), 4), 0.3)
    with pytest.warns(UserWarning, match="^bins: predictions may be off by .* more than 1%"):
        warn_of_bias(bias(objective, y), y)


@pytest.mark.parametrize(
    ("cost", "warned"),
    [
        (Bias(0.0, 0.0), False),
        (Bias(0.0099, 0.0), False),
        (Bias(0.0101, 0.0), True),
        (Bias(0.0, 0.0101), True),
        (Bias(0.006, 0.006), True),
    ],
)
def test_a_hundredth_of_the_spread_is_worth_saying(cost, warned):
    y = np.array([-1.0, 1.0])  # their standard deviation is 1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_bias(cost, y)
    assert bool(caught) == warned


@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, 1e9 + 0.1, math.pi * 1e-30])
@pytest.mark.parametrize("rows", [1, 7, 80])
def test_a_constant_target_is_no_reason_to_warn(value, rows):
    # Its standard deviation may be 1e-17 of itself, as its bias.
    y = np.full(rows, value)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_bias(bias(histogram_objective(automatic_bins(y, COUNT, SIGMA), SIGMA), y), y)
    assert not caught
