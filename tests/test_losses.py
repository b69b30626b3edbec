import copy
import math
import shutil

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import kl_divergence

from softbins import (
    Bins,
    Gaussian,
    Histogram,
    HistogramLoss,
    OneBin,
    Similarity,
    gradient_bound,
)
from softbins._core import loss_table
from tests.instances import BINS, cases, targets

EQUAL = BINS["equal"]
# Small and large batches may take different ways through the code, and must agree.
BATCHES = [7, 3000]
COMPILERS = ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)]


def batch(bins, *shape, dtype=torch.float32):
    y = bins.low + (bins.high - bins.low) * torch.rand(shape, dtype=torch.float64)
    return torch.randn(*shape, bins.count, dtype=dtype, requires_grad=True), y.to(dtype)


def reference(logits, weights):
    """Equation 2, written out."""
    return -(weights.double() * torch.log_softmax(logits.double(), -1)).sum(-1)


# Every target


@pytest.mark.parametrize("size", BATCHES)
@pytest.mark.parametrize(("bins", "name"), cases())
def test_loss_is_equation_2_and_its_gradient_is_f_minus_p(bins, name, size):
    if size > 1000 and "payoff" in name:
        size = 300
    bins = BINS[bins]
    target = targets(bins)[name]
    logits, y = batch(bins, size)
    p = target.weights(y, bins)
    losses = HistogramLoss(bins, target, reduction="none")(logits, y)
    torch.testing.assert_close(losses.double(), reference(logits, p), atol=2e-5, rtol=1e-5)
    (gradient,) = torch.autograd.grad(losses.sum(), logits)
    torch.testing.assert_close(gradient, torch.softmax(logits, -1) - p, atol=1e-6, rtol=0)


@pytest.mark.parametrize(("bins", "name"), cases())
def test_gradcheck_in_float64(bins, name):
    bins = BINS[bins]
    loss = HistogramLoss(bins, targets(bins)[name])
    logits, y = batch(bins, 3, dtype=torch.float64)
    # In a random direction; the test above has every entry of the gradient.
    for check in (torch.autograd.gradcheck, torch.autograd.gradgradcheck):
        assert check(lambda z: loss(z, y), logits, fast_mode=True)


@pytest.mark.parametrize("size", BATCHES)
def test_second_derivatives_and_retained_graphs(size):
    loss = HistogramLoss(EQUAL, reduction="sum")
    logits, y = batch(EQUAL, size)
    value = loss(logits, y)
    (first,) = torch.autograd.grad(value, logits, retain_graph=True)
    kept = first.clone()
    first.zero_()  # it is ours: changing it must not change what comes next
    (second,) = torch.autograd.grad(value, logits, retain_graph=True)
    assert torch.equal(second, kept)
    # The Hessian of HL in the logits is diag(f) - f f', whatever the target.
    direction, f = torch.randn_like(logits), torch.softmax(logits, -1).detach()
    (gradient,) = torch.autograd.grad(value, logits, create_graph=True)
    (curvature,) = torch.autograd.grad((gradient * direction).sum(), logits)
    expected = f * direction - f * (f * direction).sum(-1, keepdim=True)
    torch.testing.assert_close(curvature, expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("size", BATCHES)
@pytest.mark.parametrize("outside", ["clamp", "tail"])
@pytest.mark.parametrize("bins", BINS)
def test_a_target_outside_never_gives_nan_or_a_silent_zero(bins, outside, size):
    bins = BINS[bins]
    span = bins.high - bins.low
    beyond = torch.tensor([-1e6, -3.0, -0.5, 1.5, 4.0, 1e6], dtype=torch.float64)
    y = (bins.low + span * beyond).float()[torch.arange(size) % 6]
    for target in targets(bins, outside).values():
        if size > 1000 and not isinstance(target, Gaussian):
            continue
        losses = HistogramLoss(bins, target, reduction="none")(torch.zeros(size, bins.count), y)
        torch.testing.assert_close(losses, torch.full((size,), math.log(bins.count)))


NOT_FINITE = [math.nan, math.inf, -math.inf]
SHAPES = [(7,), (8, 375), (3000,)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("bad", NOT_FINITE)
def test_a_target_that_is_not_finite_is_found_wherever_it_is(bad, shape):
    logits, y = batch(EQUAL, *shape)
    y.view(-1)[-2] = bad
    total = y.numel()
    with pytest.raises(ValueError, match=f"y: 1 of {total} values are NaN or infinite"):
        HistogramLoss(EQUAL)(logits, y)


@pytest.mark.parametrize("nan_has_a_cell", [True, False], ids=["like ARM", "like x86"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("bad", NOT_FINITE)
def test_the_table_finds_a_target_that_is_not_finite(bad, shape, nan_has_a_cell):
    if loss_table.NAN_HAS_A_CELL and not nan_has_a_cell:
        pytest.skip("on this processor NaN has a cell")
    logits, y = batch(EQUAL, *shape)
    y.view(-1)[-2] = bad
    target = Gaussian.of_bins(1.0)
    table = loss_table.table_for(target, EQUAL, logits, y)
    assert table is not None
    total, known = y.numel(), {"target": target, "bins": EQUAL, "table": table}
    with pytest.raises(ValueError, match=f"y: 1 of {total} values are NaN or infinite"):
        loss_table.histogram_loss(logits, y, **known, over=total, nan_has_a_cell=nan_has_a_cell)


@pytest.mark.parametrize("size", BATCHES)
def test_error_also_refuses_what_lies_just_outside(size):
    loss = HistogramLoss(EQUAL, Gaussian.of_bins(1.0, outside="error"))
    logits, y = batch(EQUAL, size)
    y[3] = 1.0001
    with pytest.raises(ValueError, match=r"y: 1 of .* outside \[0, 1\], the first at index 3"):
        loss(logits, y)


def test_an_end_that_float32_rounds_outwards_is_still_inside():
    bins = Bins.uniform(0.0, 2011.3, 100)
    y = torch.tensor([2011.3])
    assert y.item() > bins.high
    loss = HistogramLoss(bins, Gaussian.of_bins(1.0, outside="error"))
    assert torch.isfinite(loss(torch.zeros(1, 100), y))


@pytest.mark.parametrize("size", BATCHES)
def test_extreme_logits_give_the_right_finite_loss(size):
    y = torch.full((size,), 0.105)
    logits = torch.full((size, 100), 0.0)
    logits[:, 90] = 300.0
    logits.requires_grad_()
    losses = HistogramLoss(EQUAL, reduction="none")(logits, y)
    assert losses.tolist() == pytest.approx([300.0] * size)
    (gradient,) = torch.autograd.grad(losses.sum(), logits)
    assert torch.isfinite(gradient).all()


# Large batches against the general way


@pytest.mark.parametrize("outside", ["clamp", "error"])
@pytest.mark.parametrize("ratio", [1e-6, 0.03, 0.5, 1.0, 2.0, 3.0, 4.0, 7.0, 50.0])
@pytest.mark.parametrize("bins", ["equal", "years", "few"])
def test_float32_agrees_with_float64_for_any_sigma(bins, ratio, outside):
    bins = BINS[bins]
    target = Gaussian.of_bins(ratio, outside=outside)
    loss = HistogramLoss(bins, target, reduction="none")
    logits, y = batch(bins, 4500)
    ends = torch.cat([bins.edges, bins.centers]).float().clamp(bins.low, bins.high)
    y = torch.cat([ends, y[len(ends) :]])
    losses = loss(logits, y)
    assert losses.dtype == torch.float32
    exact = reference(logits, target.weights(y.double(), bins))
    torch.testing.assert_close(losses.double(), exact, atol=1e-5, rtol=1e-6)
    (gradient,) = torch.autograd.grad(losses.sum(), logits)
    p = target.weights(y.double(), bins)
    torch.testing.assert_close(
        gradient.double(), torch.softmax(logits.double(), -1) - p, atol=1e-6, rtol=0
    )


# Section 2.2


@pytest.mark.parametrize("bins", BINS)
def test_the_kl_identity(bins):
    # KL(p || q) = HL + sum_i p_i log w_i - h(p), here for the histogram density of p itself.
    bins = BINS[bins]
    logits, y = batch(bins, 20, dtype=torch.float64)
    target = Gaussian.of_bins(0.8)
    p, q = Histogram(bins, probs=target.weights(y, bins)), Histogram(bins, logits=logits)
    loss = HistogramLoss(bins, target, reduction="none")(logits, y)
    widths = torch.where(bins.widths > 0, bins.widths, 1.0)  # atoms count as bins of width 1
    identity = loss + (p.probs * widths.log()).sum(-1) - p.entropy()
    torch.testing.assert_close(kl_divergence(p, q), identity, atol=1e-12, rtol=1e-10)


def test_the_kl_identity_for_the_continuous_gaussian():
    # The same with the truncated Gaussian itself as p, by quadrature over [a, b].
    bins, y, sigma = Bins([0.0, 0.7, 1.0, 2.5, 4.0]), 1.3, 0.6
    logits = torch.randn(4, dtype=torch.float64)
    q = Histogram(bins, logits=logits)
    t = torch.linspace(0, 4, 400_001, dtype=torch.float64)
    normal = torch.distributions.Normal(torch.tensor(y, dtype=torch.float64), sigma)
    log_p = normal.log_prob(t) - (normal.cdf(bins.edges[-1]) - normal.cdf(bins.edges[0])).log()
    kl = torch.trapezoid(log_p.exp() * (log_p - q.log_prob(t)), t)
    entropy = -torch.trapezoid(log_p.exp() * log_p, t)
    target = Gaussian(sigma)
    p = target.weights(torch.tensor(y, dtype=torch.float64), bins)
    loss = HistogramLoss(bins, target)(logits, torch.tensor(y, dtype=torch.float64))
    expected = loss + (p * bins.widths.log()).sum() - entropy
    assert kl.item() == pytest.approx(expected.item(), abs=2e-5)


def test_onebin_is_cross_entropy_with_hard_labels():
    logits, y = batch(EQUAL, 50)
    ours = HistogramLoss(EQUAL, OneBin())(logits, y)
    torch.testing.assert_close(ours, F.cross_entropy(logits, EQUAL.index(y)))


# Proposition 1


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh, nn.Identity])
@pytest.mark.parametrize("target", [Gaussian.of_bins(1.0), OneBin(), Similarity(0.1)])
def test_proposition_1_holds_on_random_networks(target, activation, bias):
    bins = Bins.uniform(0, 1, 12)
    loss = HistogramLoss(bins, target)
    for seed in range(5):
        torch.manual_seed(seed)
        body = nn.Sequential(nn.Linear(4, 10), activation(), nn.Linear(10, 8), activation())
        head = nn.Linear(8, 12, bias=bias)
        x, y = 3 * torch.randn(6, 4), torch.rand(6)
        bound, norm = gradient_bound(body, head, loss, x, y)
        assert bound.shape == norm.shape == (6,)
        assert (norm <= bound).all()
        # Neither side is zero by accident, and the bound is not just a huge number.
        assert (norm > 1e-3).all()
        assert (bound < 100 * norm).all()


def test_proposition_1_norm_is_that_of_backward():
    bins = Bins.uniform(0, 1, 12)
    loss, body, head = (
        HistogramLoss(bins),
        nn.Sequential(nn.Linear(3, 5), nn.ReLU()),
        nn.Linear(5, 12),
    )
    x, y = torch.randn(1, 3), torch.rand(1)
    loss(head(body(x)), y).backward()
    gradients = [p.grad.flatten() for p in [*body.parameters(), *head.parameters()]]
    _, norm = gradient_bound(body, head, loss, x, y)
    assert norm.item() == pytest.approx(torch.cat(gradients).norm().item())


def test_proposition_1_without_a_body_has_lipschitz_constant_zero():
    bins = Bins.uniform(0, 1, 4)
    loss, head = HistogramLoss(bins, OneBin()), nn.Linear(3, 4, bias=False)
    x, y = torch.randn(2, 3), torch.rand(2)
    bound, norm = gradient_bound(nn.Identity(), head, loss, x, y)
    error = (torch.softmax(head(x), -1) - OneBin().weights(y, bins)).abs().sum(-1)
    torch.testing.assert_close(bound, (x.norm(dim=-1) * error).detach())
    assert (norm <= bound).all()


# Shapes, reductions, weights


@pytest.mark.parametrize("shape", [(), (6,), (2, 3), (2, 1, 3)])
def test_any_leading_shape(shape):
    logits, y = batch(EQUAL, *shape)
    losses = HistogramLoss(EQUAL, reduction="none")(logits, y)
    assert losses.shape == shape
    flat = HistogramLoss(EQUAL)(logits.reshape(-1, 100), y.reshape(-1))
    torch.testing.assert_close(losses.mean(), flat)


@pytest.mark.parametrize("size", BATCHES)
def test_reductions_and_weights(size):
    logits, y = batch(EQUAL, size)
    weight = torch.rand(size)
    loss = {r: HistogramLoss(EQUAL, reduction=r) for r in ("none", "sum", "mean")}
    losses = loss["none"](logits, y)
    torch.testing.assert_close(loss["sum"](logits, y), losses.sum())
    torch.testing.assert_close(loss["mean"](logits, y), losses.mean())
    torch.testing.assert_close(loss["none"](logits, y, weight), losses * weight)
    torch.testing.assert_close(loss["sum"](logits, y, weight), (losses * weight).sum())
    weighted = (losses * weight).sum() / weight.sum()
    torch.testing.assert_close(loss["mean"](logits, y, weight), weighted)


def test_a_whole_weight_is_a_repeated_row():
    logits, y = batch(EQUAL, 4)
    repeats = torch.tensor([1, 0, 3, 2])
    loss = HistogramLoss(EQUAL)
    repeated = loss(logits.repeat_interleave(repeats, 0), y.repeat_interleave(repeats))
    torch.testing.assert_close(loss(logits, y, repeats), repeated)


@pytest.mark.parametrize("size", BATCHES)
def test_sigma_for_each_call(size):
    logits, y = batch(EQUAL, size)
    loss = HistogramLoss(EQUAL, Gaussian(0.01), reduction="none")
    sigma = torch.rand(size) * 0.05 + 0.005
    losses = loss(logits, y, sigma=sigma)
    expected = reference(logits, Gaussian(sigma.double()).weights(y.double(), EQUAL))
    torch.testing.assert_close(losses.double(), expected, atol=1e-5, rtol=1e-6)
    torch.testing.assert_close(loss(logits, y, sigma=0.01), loss(logits, y))


def test_sigma_for_each_member():
    logits, y = batch(EQUAL, 3, 900)
    loss = HistogramLoss(EQUAL, reduction="none")
    ratios = torch.tensor([[0.5], [1.0], [2.0]])
    together = loss(logits, y, sigma=ratios)
    for member, ratio in enumerate([0.5, 1.0, 2.0]):
        alone = HistogramLoss(EQUAL, Gaussian.of_bins(ratio), "none")(logits[member], y[member])
        torch.testing.assert_close(together[member], alone, atol=1e-5, rtol=1e-6)


@pytest.mark.parametrize("size", BATCHES)
def test_gradients_reach_targets_and_sigma_when_asked(size):
    # Nobody needs them for training a network, but a silent zero would be a lie.
    logits, y = batch(EQUAL, size, dtype=torch.float32)
    y = y.clamp(0.1, 0.9).requires_grad_()
    sigma = torch.tensor(0.02, requires_grad=True)
    loss = HistogramLoss(EQUAL, Gaussian(0.02))
    by_y, by_sigma = torch.autograd.grad(loss(logits.detach(), y, sigma=sigma), [y, sigma])
    assert (by_y != 0).any()
    h = 1e-4
    high, low = loss(logits, y, sigma=0.02 + h), loss(logits, y, sigma=0.02 - h)
    assert by_sigma.item() == pytest.approx(((high - low) / (2 * h)).item(), rel=0.05, abs=0.05)


# Where it runs


@pytest.mark.parametrize("backend", COMPILERS)
@pytest.mark.parametrize("size", BATCHES)
def test_compiles_without_graph_breaks(backend, size):
    if backend == "inductor" and not shutil.which("g++"):
        pytest.skip("inductor needs a C++ compiler")
    torch.compiler.reset()
    loss = HistogramLoss(EQUAL)
    compiled = torch.compile(loss, fullgraph=True, backend=backend)
    logits, y = batch(EQUAL, size)
    for extra in ({}, {"weight": torch.rand(size)}, {"sigma": torch.full((size,), 0.5)}):
        ours, theirs = loss(logits, y, **extra), compiled(logits, y, **extra)
        torch.testing.assert_close(theirs, ours, atol=1e-5, rtol=1e-6)
        (expected,) = torch.autograd.grad(ours, logits)
        (gradient,) = torch.autograd.grad(theirs, logits)
        torch.testing.assert_close(gradient, expected, atol=1e-7, rtol=1e-5)


def test_a_compiled_loss_still_refuses_bad_targets():
    torch.compiler.reset()
    compiled = torch.compile(HistogramLoss(EQUAL), fullgraph=True, backend="aot_eager")
    logits, y = batch(EQUAL, 4)
    y[2] = math.nan
    with pytest.raises(ValueError, match="y: 1 of 4 values are NaN or infinite.* at index 2"):
        compiled(logits, y)


@pytest.mark.parametrize("size", BATCHES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_and_low_precision_compute_in_float32(dtype, size):
    loss = HistogramLoss(EQUAL)
    logits, y = batch(EQUAL, size)
    low = logits.detach().to(dtype).requires_grad_()
    expected = loss(low.detach().float(), y)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(low, y)
        assert loss.distribution(low).mean.dtype == torch.float32
        torch.testing.assert_close(
            loss.distribution(low).mean, loss.distribution(low.detach().float()).mean
        )
    assert value.dtype == torch.float32
    assert torch.equal(value, expected)
    value.backward()
    assert low.grad.dtype == dtype


def test_a_network_trains_under_autocast():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 100))
    optimizer = torch.optim.Adam(network.parameters(), 1e-2)
    x, loss = torch.rand(512, 2), HistogramLoss(EQUAL)
    y = x.mean(-1)
    for _ in range(150):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            value = loss(network(x), y)
        value.backward()
        optimizer.step()
    error = (loss.distribution(network(x)).mean - y).abs().mean()
    assert error < 0.02


@pytest.mark.parametrize("size", BATCHES)
def test_vmap_over_members_targets_and_sigmas(size):
    loss = HistogramLoss(EQUAL)
    logits, y = batch(EQUAL, 3, size)
    each = torch.stack([loss(logits[i], y[i]) for i in range(3)])
    torch.testing.assert_close(torch.func.vmap(loss)(logits, y), each, atol=1e-5, rtol=1e-6)
    shared = torch.func.vmap(loss, in_dims=(0, None))(logits, y[0])
    expected = torch.stack([loss(logits[i], y[0]) for i in range(3)])
    torch.testing.assert_close(shared, expected, atol=1e-5, rtol=1e-6)
    gradients = torch.func.vmap(torch.func.grad(loss))(logits, y)
    (by_hand,) = torch.autograd.grad(each.sum(), logits)
    torch.testing.assert_close(gradients, by_hand, atol=1e-7, rtol=1e-5)
    sigmas = torch.tensor([0.5, 1.0, 2.0])
    by_sigma = torch.func.vmap(lambda z, t, s: loss(z, t, sigma=s))(logits, y, sigmas)
    torch.testing.assert_close(by_sigma[1], each[1], atol=1e-5, rtol=1e-6)


def test_vmap_still_refuses_bad_targets():
    logits, y = batch(EQUAL, 2, 5)
    y[1, 3] = math.inf
    with pytest.raises(ValueError, match=r"y: 1 of 10 .* at index \(1, 3\)"):
        torch.func.vmap(HistogramLoss(EQUAL))(logits, y)


# Checkpoints


def test_a_reloaded_module_predicts_the_same_bits(tmp_path):
    y = torch.distributions.Cauchy(0.0, 1.0).sample((300,))
    loss = HistogramLoss(Bins.quantile(y, 40))
    torch.save(loss.state_dict(), tmp_path / "loss.pt")
    other = HistogramLoss(Bins.uniform(0, 1, 40))
    other.load_state_dict(torch.load(tmp_path / "loss.pt", weights_only=True))
    logits, y = torch.randn(30, 40), torch.randn(30)
    assert other.bins == loss.bins
    assert torch.equal(other(logits, y), loss(logits, y))
    assert torch.equal(other.distribution(logits).mean, loss.distribution(logits).mean)
    assert torch.equal(other.distribution(logits).crps(y), loss.distribution(logits).crps(y))


def test_state_dict_holds_the_edges_and_nothing_else():
    state = HistogramLoss(EQUAL).state_dict()
    assert list(state) == ["edges"]
    assert torch.equal(state["edges"], EQUAL.edges)


@pytest.mark.parametrize("convert", [nn.Module.half, nn.Module.bfloat16, nn.Module.float])
def test_changing_a_networks_precision_leaves_the_edges_alone(convert):
    bins = BINS["years"]
    network = nn.ModuleDict({"loss": HistogramLoss(bins), "layer": nn.Linear(2, 100)})
    convert(network)
    assert torch.equal(network["loss"].edges, bins.edges)
    assert network["loss"].bins == bins


def test_a_bad_checkpoint_is_refused_and_changes_nothing():
    loss = HistogramLoss(EQUAL)
    with pytest.raises(ValueError, match="edges: three from index 0 on are 0.0"):
        loss.load_state_dict({"edges": torch.zeros(101)})
    with pytest.raises(RuntimeError, match="size mismatch for edges"):
        loss.load_state_dict({"edges": torch.arange(5.0)})
    assert loss.bins == EQUAL
    assert torch.equal(loss.edges, EQUAL.edges)


def test_loading_a_checkpoint_leaves_the_given_bins_alone():
    bins = Bins.uniform(0, 1, 5)
    loss = HistogramLoss(bins)
    loss.load_state_dict(HistogramLoss(Bins.uniform(2, 3, 5)).state_dict())
    assert bins == Bins.uniform(0, 1, 5)
    assert loss.bins == Bins.uniform(2, 3, 5)


def test_copies_are_independent_and_equal():
    loss = HistogramLoss(EQUAL)
    twin = copy.deepcopy(loss)
    logits, y = batch(EQUAL, 5)
    assert torch.equal(loss(logits, y), twin(logits, y))


def test_moving_to_another_device_moves_the_bins():
    loss = HistogramLoss(EQUAL).to("meta")
    assert loss.edges.device.type == loss.bins.edges.device.type == "meta"


def test_repr_shows_the_parts():
    assert "100 equal bins" in repr(HistogramLoss(EQUAL))
    assert "reduction='mean'" in repr(HistogramLoss(EQUAL))


# Bad input


def zeros(*shape):
    return torch.zeros(shape)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda loss: loss(zeros(4, 99), zeros(4)), r"number of bins, 100, got shape \(4, 99\)"),
        (lambda loss: loss(zeros(), zeros()), r"logits: .* got shape \(\)"),
        (lambda loss: loss(zeros(4, 100), zeros(4, 1)), r"y: shape \(4, 1\) .* need \(4,\)"),
        (lambda loss: loss(zeros(4, 100), zeros(5)), r"y: shape \(5,\) does not match"),
        (lambda loss: loss(zeros(4, 100), zeros(4), zeros(3)), r"weight: shape \(3,\)"),
        (lambda loss: loss(zeros(2, 100), zeros(2), torch.tensor([1.0, -1.0])), "weight: 1 of 2"),
        (lambda loss: loss(zeros(2, 100), zeros(2), zeros(2)), "weight: .* a weight above 0"),
        (lambda loss: loss(zeros(0, 100), zeros(0)), "y: the mean over no targets"),
        (lambda loss: loss(zeros(2, 100), zeros(2), sigma=0.0), "sigma: got 0.0; .* positive"),
        (lambda loss: loss(zeros(2, 100), zeros(2), sigma=-zeros(2)), "sigma: 2 of 2 .* positive"),
        (lambda loss: loss(zeros(2, 100), zeros(2).to("meta")), "y on meta, .* one device"),
        (lambda loss: loss(zeros(2, 100), zeros(2) / 0), "y: 2 of 2 values are NaN or infinite"),
        (lambda loss: HistogramLoss(EQUAL, reduction="max"), "reduction: expected 'mean'"),
        (
            lambda loss: HistogramLoss(EQUAL, OneBin())(zeros(2, 100), zeros(2), sigma=1.0),
            "sigma: OneBin has none",
        ),
    ],
)
def test_bad_input_is_named_with_its_value(call, message):
    with pytest.raises(ValueError, match=message):
        call(HistogramLoss(EQUAL))


def test_bad_types_are_named():
    with pytest.raises(TypeError, match="bins: expected Bins or StackedBins, got list"):
        HistogramLoss([0, 1, 2])
    with pytest.raises(TypeError, match="target: expected a target such as Gaussian"):
        HistogramLoss(EQUAL, 0.5)


@pytest.mark.parametrize("size", BATCHES)
def test_integer_and_float64_targets_are_converted(size):
    bins = Bins.uniform(0, 10, 20)
    logits = torch.randn(size, 20)
    whole = torch.randint(0, 11, (size,))
    loss = HistogramLoss(bins)
    assert torch.equal(loss(logits, whole), loss(logits, whole.float()))
    assert torch.equal(loss(logits, whole), loss(logits, whole.double()))


# Atoms


def test_the_loss_with_atoms_is_that_of_the_weights():
    """In float32 on a CPU, where equal bins would take the quick way."""
    bins = BINS["atoms"]
    logits = torch.randn(7, bins.count, requires_grad=True)
    y = torch.tensor([0.0, 0.01, 1.0, 1.23, 2.5, 4.0, 9.0])
    target = Gaussian.of_bins(1.0)
    loss = HistogramLoss(bins, target, reduction="none")(logits, y)
    weights = target.weights(y.double(), bins).float()
    torch.testing.assert_close(loss, -(weights * torch.log_softmax(logits, -1)).sum(-1))
    # A target at an atom, in float64, has all its weight there; 1.23 in float32 is another number.
    exact = HistogramLoss(bins, target, reduction="none")(logits.double(), bins.centers[:7])
    assert exact[0].item() == pytest.approx(-torch.log_softmax(logits.double(), -1)[0, 0].item())
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    torch.testing.assert_close(gradient, torch.softmax(logits, -1) - weights)


def test_a_checkpoint_keeps_the_atoms():
    loss, other = HistogramLoss(BINS["atoms"]), HistogramLoss(Bins(BINS["atoms"].edges + 1))
    other.load_state_dict(loss.state_dict())
    assert other.bins == BINS["atoms"]
    assert torch.equal(other.bins.atoms, BINS["atoms"].atoms)
