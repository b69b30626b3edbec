"""The functions for JAX agree with PyTorch, also compiled, mapped and differentiated."""

import importlib
import math
import re
import subprocess
import sys
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import softbins.jax
from softbins import Bins, FromCDF, Gaussian, Histogram, OneBin, TwoHot, UniformMix
from tests.instances import BINS, PLAIN_BINS, array_cases, spread_targets, targets
from tests.torch_reference import TOLERANCE, assert_equal_to_torch, references

EQUAL = BINS["equal"]
# Unlike bins, with both rules for targets outside; compiling all of them takes half a minute.
QUICK = [("quantile", "clamp"), ("symlog", "clamp"), ("years", "tail"), ("unequal", "tail")]
CASES = [
    pytest.param(*case, marks=[] if case in QUICK else [pytest.mark.slow]) for case in array_cases()
]
LEVELS = [0.0, 0.05, 0.5, 0.95, 1.0]


# Equal to PyTorch


def compiled_results(case):
    """Weights, losses and gradients of a case, in one compiled function."""

    def losses(logits, y):
        return softbins.jax.loss(logits, y, case.bins, case.target)

    def total(logits, y):
        return losses(logits, y).sum()

    @jax.jit
    def compiled(logits, y):
        weights = softbins.jax.weights(y, case.bins, case.target)
        return weights, losses(logits, y), jax.grad(total)(logits, y)

    return compiled(case.logits, case.y)


@pytest.mark.parametrize(("bins", "outside"), CASES)
def test_weights_losses_and_gradients_are_those_of_torch(bins, outside):
    for name, case in references(bins, outside).items():
        weights, losses, gradient = compiled_results(case)
        assert_equal_to_torch(weights, case.weights, name)
        assert_equal_to_torch(losses, case.losses, name, relative=TOLERANCE)
        assert_equal_to_torch(gradient, case.gradient, name)


@pytest.mark.parametrize("sigma", [0.6, 0.75, 3.0, 10.0])
@pytest.mark.parametrize("bins", [Bins.symlog(20.0, 255), Bins.transformed(torch.exp2, 0, 10, 40)])
def test_gaussians_on_transformed_bins_are_those_of_torch(bins, sigma):
    place = torch.rand(500, dtype=torch.float64) * bins.count
    inside = bins.edges[place.long()] + (place % 1) * bins.widths[place.long()]
    ends = torch.tensor([2 * bins.low - 1, 2 * bins.high], dtype=torch.float64)
    y = torch.cat([inside, bins.edges, bins.centers, ends]).float()
    target = Gaussian.of_bins(sigma)
    found = jax.jit(lambda y: softbins.jax.weights(y, bins, target))(y.numpy())
    assert_equal_to_torch(found, target.weights(y.double(), bins).numpy(), str(sigma))


@pytest.mark.parametrize("bins", ["years", "unequal", "quantile"])
def test_summaries_are_those_of_the_histogram(bins):
    bins = BINS[bins]
    y = spread_targets(bins)[:-2].float()
    logits = torch.randn(len(y), bins.count)
    known, span = Histogram(bins, logits=logits.double()), bins.high - bins.low
    scale = max(abs(bins.low), abs(bins.high), span)

    def assert_close(found, expected):
        assert found.dtype == jnp.float32
        np.testing.assert_allclose(np.asarray(found) / scale, expected / scale, atol=TOLERANCE)

    @jax.jit
    def summaries(logits, y):
        mean, crps = softbins.jax.mean(logits, bins), softbins.jax.crps(logits, y, bins)
        return mean, crps, softbins.jax.quantile(logits, LEVELS, bins)

    mean, crps, found = summaries(logits.numpy(), y.numpy())
    assert_close(mean, known.mean)
    assert_close(crps, known.crps(y))
    assert found.shape == (len(y), len(LEVELS))
    # A quantile in a bin of little probability moves a lot when that is rounded: the cdf does not.
    levels = known.cdf(torch.tensor(np.asarray(found)).T).T
    np.testing.assert_allclose(levels, np.broadcast_to(LEVELS, found.shape), atol=5e-5)


@pytest.mark.parametrize("q", [0.25, [0.25, 0.5], [[0.25], [0.5]]])
def test_a_quantile_is_one_for_each_level(q):
    found = jax.jit(lambda logits: softbins.jax.quantile(logits, q, EQUAL))(jnp.zeros((3, 2, 100)))
    np.testing.assert_allclose(found, np.broadcast_to(q, (3, 2, *np.shape(q))), atol=1e-6)


def test_a_quantile_of_level_0_is_the_first_edge_even_where_the_first_bin_is_empty():
    logits = jnp.array([-jnp.inf, 0.0, 0.0])
    expected = Histogram(Bins([0.0, 1.0, 2.0, 3.0]), logits=torch.tensor([-math.inf, 0.0, 0.0]))
    found = softbins.jax.quantile(logits, LEVELS, [0.0, 1.0, 2.0, 3.0])
    np.testing.assert_allclose(found, expected.quantile(LEVELS), atol=1e-6)


# Far tails


@cache
def tail_weights(name):
    """The weights as a compiled function of targets and sigma, once for each kind of bins."""
    target = Gaussian(1.0, outside="tail")
    return jax.jit(lambda y, sigma: softbins.jax.weights(y, BINS[name], target, sigma=sigma))


@given(
    ratio=st.floats(-6, 3).map(lambda power: 10**power),
    distance=st.floats(-3, 12).map(lambda power: 10**power),
    side=st.sampled_from(["low", "high"]),
    name=st.sampled_from(PLAIN_BINS),
)
def test_far_tails_have_all_their_digits(ratio, distance, side, name):
    bins = BINS[name]
    sigma = ratio * (bins.high - bins.low) / bins.count
    beyond = distance * sigma * (-1 if side == "low" else 1)
    y = torch.tensor([getattr(bins, side) + beyond]).float()
    sigma = float(np.float32(sigma))
    exact = Gaussian(sigma, outside="tail").weights(y.double(), bins).numpy()
    found = np.asarray(tail_weights(name)(y.numpy(), sigma))
    np.testing.assert_allclose(found, exact, atol=TOLERANCE)
    np.testing.assert_allclose(found.sum(), 1.0, atol=TOLERANCE)
    # Not only in sum: every weight that float32 can hold, relative to itself.
    seen = exact > 1e-30
    np.testing.assert_allclose(found[seen], exact[seen], rtol=2e-4)


@pytest.mark.parametrize("outside", ["clamp", "tail"])
def test_sigmas_that_float32_cannot_hold(outside):
    bins, y = BINS["unequal"], np.array([-30.0, -1.95, 2.0, 70.0], "float32")
    shares = bins.widths / (bins.high - bins.low)
    for sigma in (1e30, 1e300):
        flat = softbins.jax.weights(y, bins, Gaussian(sigma, outside=outside))
        np.testing.assert_allclose(flat, shares.expand(4, -1), atol=TOLERANCE)
    narrow = softbins.jax.weights(y, bins, Gaussian(1e-300, outside=outside))
    np.testing.assert_array_equal(narrow, OneBin().weights(torch.tensor(y), bins))


# Transformations and precisions


@pytest.mark.parametrize("name", ["gaussian", "onebin", "uniform", "twohot"])
def test_mapped_over_rows_it_is_the_same(name):
    case = references("unequal", "tail")[name]

    def one(logits, y):
        return softbins.jax.loss(logits, y, case.bins, case.target)

    mapped = jax.jit(jax.vmap(jax.value_and_grad(one)))
    losses, gradients = mapped(case.logits, case.y)
    assert_equal_to_torch(losses, case.losses, name, relative=TOLERANCE)
    assert_equal_to_torch(gradients, case.gradient, name)


def test_bins_and_targets_may_be_static_arguments():
    compiled = jax.jit(softbins.jax.loss, static_argnames=("bins", "target"))
    logits, y = jnp.zeros((2, 100)), jnp.array([0.2, 0.9])
    found = compiled(logits, y, bins=Bins.uniform(0.0, 1.0, 100), target=OneBin())
    np.testing.assert_allclose(found, math.log(100), rtol=TOLERANCE)


def test_summaries_are_compiled_and_differentiated():
    logits, y = jnp.linspace(-1.0, 1.0, 100), jnp.array(0.3)

    def all_of_them(logits, y, q):
        found = softbins.jax.quantile(logits, q, EQUAL)
        return softbins.jax.mean(logits, EQUAL) + softbins.jax.crps(logits, y, EQUAL) + found

    value, gradient = jax.jit(jax.value_and_grad(all_of_them))(logits, y, jnp.array(0.7))
    exact = torch.tensor(np.asarray(logits), dtype=torch.float64, requires_grad=True)
    known = Histogram(EQUAL, logits=exact)
    expected = known.mean + known.crps(torch.tensor(0.3).double()) + known.quantile(0.7)
    expected.backward()
    np.testing.assert_allclose(value, expected.item(), atol=1e-6)
    np.testing.assert_allclose(gradient, exact.grad, atol=1e-6)


def test_float64_is_as_exact_as_torch():
    with jax.enable_x64(True):
        for name, case in references("unequal", "tail").items():
            weigh = jax.jit(lambda y, case=case: softbins.jax.weights(y, case.bins, case.target))
            weights = weigh(case.y.astype(float))
            assert weights.dtype == jnp.float64
            np.testing.assert_allclose(weights, case.weights, atol=1e-12, err_msg=name)


def test_whole_numbers_and_low_precision_become_float32():
    weights = softbins.jax.weights(np.array([0, 1]), EQUAL)
    assert weights.dtype == jnp.float32
    losses = softbins.jax.loss(jnp.zeros((2, 100), jnp.bfloat16), jnp.array([0.2, 0.9]), EQUAL)
    assert losses.dtype == jnp.float32
    np.testing.assert_allclose(losses, math.log(100), rtol=TOLERANCE)


# Sigmas of their own


def test_a_sigma_for_each_target_is_traced_and_differentiated():
    y, sigma = np.array([0.2, 0.505, 0.9], "float32"), np.array([0.01, 0.05, 0.3], "float32")
    logits = np.random.default_rng(0).normal(size=(3, 100)).astype("float32")

    def by_sigma(sigma):
        return softbins.jax.loss(logits, y, EQUAL, Gaussian(1.0), sigma=sigma).sum()

    value, gradient = jax.jit(jax.value_and_grad(by_sigma))(sigma)
    exact = torch.tensor(sigma, dtype=torch.float64, requires_grad=True)
    weights = Gaussian(exact).weights(torch.tensor(y).double(), EQUAL)
    expected = -(weights * torch.log_softmax(torch.tensor(logits).double(), -1)).sum()
    expected.backward()
    np.testing.assert_allclose(value, expected.item(), rtol=TOLERANCE)
    np.testing.assert_allclose(gradient, exact.grad, rtol=1e-3)


def test_parameters_of_a_target_may_be_tensors():
    y = np.array([0.2, 0.9], "float32")
    for target in (Gaussian(torch.tensor([0.01, 0.2])), UniformMix(torch.tensor([0.0, 0.01]))):
        exact = target.weights(torch.tensor(y), EQUAL)
        np.testing.assert_allclose(softbins.jax.weights(y, EQUAL, target), exact, atol=TOLERANCE)


# What has to be refused


@pytest.mark.parametrize("target", [Gaussian(0.1), OneBin(), TwoHot(), UniformMix(0.001)])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_target_that_is_not_finite_has_a_loss_of_nan(bad, target):
    losses = softbins.jax.loss(jnp.zeros((2, 100)), jnp.array([0.5, bad]), EQUAL, target)
    assert jnp.isnan(losses).tolist() == [False, True]


@pytest.mark.parametrize("name", ["gaussian", "onebin", "uniform", "twohot"])
def test_error_makes_targets_outside_nan_but_not_the_ends(name):
    bins = Bins.uniform(0.0, 2011.3, 100)
    target = targets(bins, outside="error")[name]
    y = np.array([-0.1, 0.0, 2011.3, 2011.4], "float32")
    assert float(y[2]) > bins.high
    weights = softbins.jax.weights(y, bins, target)
    assert jnp.isnan(weights).all(-1).tolist() == [True, False, False, True]
    np.testing.assert_allclose(weights[1:3].sum(-1), 1.0, atol=TOLERANCE)


def test_a_bin_that_is_ruled_out_costs_nothing_without_weight_there():
    logits = jnp.array([0.0, 0.0, -jnp.inf])
    losses = [softbins.jax.loss(logits, y, [0, 1, 2, 3], OneBin()) for y in (0.5, 2.5)]
    assert losses == [pytest.approx(math.log(2)), math.inf]
    gradient = jax.grad(softbins.jax.loss)(logits, 0.5, [0, 1, 2, 3], OneBin())
    assert gradient.tolist() == pytest.approx([-0.5, 0.5, 0.0])


ZEROS, Y = np.zeros((2, 100), "float32"), np.zeros(2)
FOUR = [0.0, 1.0, 2.0, 3.0, 4.0]
REFUSED = {
    "y: shape (3,) does not match logits": lambda f: f.loss(ZEROS, np.zeros(3), EQUAL),
    "logits: last dimension must be the number of bins, 4": lambda f: f.loss(ZEROS, Y, FOUR),
    "the number of bins, 4, got shape (2, 100)": lambda f: f.mean(ZEROS, FOUR),
    "logits: need floating-point": lambda f: f.loss(ZEROS.astype(int), Y, EQUAL),
    "target: expected one of Gaussian": lambda f: f.weights(Y, FOUR, FromCDF(None)),
    "sigma: OneBin has none": lambda f: f.weights(Y, FOUR, OneBin(), sigma=1.0),
    "epsilon: got 0.3; with 4 bins": lambda f: f.weights(Y, FOUR, UniformMix(0.3)),
    "q: 1 of 2 values are outside [0, 1]": lambda f: f.quantile(ZEROS, [0.5, 1.5], EQUAL),
    "edges: must increase": lambda f: f.weights(Y, [0.0, 2.0, 1.0]),
    "bins: the range [0, 1e+39] does not fit": lambda f: f.mean(ZEROS[:, :2], [0.0, 1.0, 1e39]),
}


@pytest.mark.parametrize("complaint", REFUSED)
def test_what_is_wrong_is_said(complaint):
    with pytest.raises((TypeError, ValueError), match=re.escape(complaint)):
        REFUSED[complaint](softbins.jax)


def test_without_jax_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    monkeypatch.delitem(sys.modules, "softbins.jax")
    with pytest.raises(ImportError, match=r'jax is not installed: pip install "softbins\[jax\]"'):
        importlib.import_module("softbins.jax")


def test_jax_alone_is_needed():
    code = "import sys, softbins.jax; print([m for m in ('keras', 'sklearn') if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_sigmas_that_transformed_bins_do_not_take_are_refused():
    bins, y = BINS["symlog"], jnp.zeros(2)
    for sigma in (0.3, 20.0):
        with pytest.raises(ValueError, match=f"sigma of 0.6 to 10 bins, got {sigma:g}; use TwoHot"):
            softbins.jax.weights(y, bins, Gaussian.of_bins(sigma))
    with pytest.raises(ValueError, match="sigma: on Bins.* it must be one number"):
        softbins.jax.weights(y, bins, Gaussian.of_bins(1.0), sigma=jnp.ones(2))
