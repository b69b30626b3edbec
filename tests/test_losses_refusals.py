"""What the loss refuses instead of returning NaN, and what it computes at the ends of the range."""

import math

import numpy as np
import pytest
import torch

from softbins import Bins, Gaussian, Histogram, HistogramLoss, OneBin

EQUAL = Bins.uniform(0.0, 1.0, 100)
UNEQUAL = Bins.quantile(torch.linspace(0.0, 1.0, 300) ** 2, 100)
# Equal bins in float32 go through a table, everything else through the general way.
WAYS = {"table": (EQUAL, torch.float32), "general": (UNEQUAL, torch.float64)}
REDUCTIONS = ["mean", "sum", "none"]
NAN, INF = math.nan, math.inf


@pytest.fixture(params=WAYS)
def way(request):
    return WAYS[request.param]


def batch(bins, *shape, dtype=torch.float32):
    return torch.randn(*shape, bins.count, dtype=dtype), torch.rand(shape, dtype=dtype)


# Rows of logits without a softmax

BAD_ROWS = {
    "holds NaN": [NAN] * 100,
    "holds NaN at one bin": [0.0] * 99 + [NAN],
    "is -inf throughout": [-INF] * 100,
    "holds inf": [0.0] * 99 + [INF],
}
FAULTS = {name: name.removesuffix(" at one bin") for name in BAD_ROWS}


@pytest.mark.parametrize("size", [7, 3000])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", BAD_ROWS)
def test_a_row_without_a_softmax_is_named(way, name, reduction, size):
    bins, dtype = way
    logits, y = batch(bins, size, dtype=dtype)
    logits[size - 2] = torch.tensor(BAD_ROWS[name])
    message = rf"logits: row {size - 2} {FAULTS[name]} \(rows without a softmax: 1 of {size}\); "
    for given in (logits, logits.clone().requires_grad_()):
        with pytest.raises(ValueError, match=message):
            HistogramLoss(bins, reduction=reduction)(given, y)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_a_row_of_weight_zero_needs_a_softmax_as_well(reduction):
    logits, y = batch(EQUAL, 3)
    logits[1] = NAN
    with pytest.raises(ValueError, match="logits: row 1 holds NaN"):
        HistogramLoss(EQUAL, reduction=reduction)(logits, y, torch.tensor([1.0, 0.0, 1.0]))


def test_the_row_of_a_batch_with_several_dimensions_is_named(way):
    bins, dtype = way
    logits, y = batch(bins, 2, 3, dtype=dtype)
    logits[1, 2] = -INF
    with pytest.raises(ValueError, match=r"logits: row \(1, 2\) is -inf throughout .* 1 of 6\)"):
        HistogramLoss(bins)(logits, y)


def test_a_single_row_has_no_index():
    with pytest.raises(ValueError, match="logits: the row holds NaN .* 1 of 1"):
        HistogramLoss(EQUAL)(torch.full((100,), NAN), torch.tensor(0.5))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_that_overflowed_is_named(dtype):
    logits, y = batch(EQUAL, 4)
    logits = logits.to(dtype)
    logits[3, 5] = INF
    with pytest.raises(ValueError, match="logits: row 3 holds inf"):
        HistogramLoss(EQUAL)(logits, y)


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", BAD_ROWS)
def test_a_compiled_loss_names_the_row_too(name, reduction, backend):
    torch.compiler.reset()
    loss = torch.compile(HistogramLoss(EQUAL, reduction=reduction), fullgraph=True, backend=backend)
    logits, y = batch(EQUAL, 4)
    assert torch.isfinite(loss(logits, y)).all()
    logits[2] = torch.tensor(BAD_ROWS[name])
    with pytest.raises(ValueError, match=f"logits: row 2 {FAULTS[name]} .* 1 of 4"):
        loss(logits, y)


def test_vmap_names_the_row_too():
    logits, y = batch(EQUAL, 2, 5)
    loss = HistogramLoss(EQUAL)
    logits[1, 3] = -INF
    with pytest.raises(ValueError, match=r"logits: row \(1, 3\) is -inf throughout"):
        torch.func.vmap(loss)(logits, y)
    with pytest.raises(ValueError, match="logits: row 3 is -inf throughout .* 1 of 5"):
        torch.func.vmap(loss, in_dims=(None, 0))(logits[1], y)
    with pytest.raises(ValueError, match="logits: row 3 is -inf throughout"):
        torch.func.grad(loss)(logits[1], y[1])


def test_networks_side_by_side_outlive_one_that_diverged(way):
    bins, dtype = way
    logits, y = batch(bins, 2, 5, dtype=dtype)
    alone = logits[1].clone().requires_grad_()
    HistogramLoss(bins)(alone, y[1]).backward()
    logits[0, 3] = NAN
    logits.requires_grad_()
    total = HistogramLoss(bins).sum_of_means(logits, y)
    total.backward()
    assert total.isnan()
    torch.testing.assert_close(logits.grad[1], alone.grad)


def test_the_check_can_be_left_out(way):
    bins, dtype = way
    logits, y = batch(bins, 5, dtype=dtype)
    logits[2] = NAN
    losses = HistogramLoss(bins, reduction="none", check_logits=False)(logits, y)
    assert losses.isnan().tolist() == [False, False, True, False, False]


# Bins that the network rules out


def test_minus_infinity_rules_out_a_bin(way):
    bins, dtype = way
    target = Gaussian(0.01)
    logits, _ = batch(bins, 2, dtype=dtype)
    y = torch.tensor([0.02, 0.98], dtype=dtype)
    logits[:, 99] = -INF
    logits.requires_grad_()
    losses = HistogramLoss(bins, target, reduction="none")(logits, y)
    # A bin without target weight costs nothing; one with target weight everything.
    kept = Bins(bins.edges[:-1])
    expected = HistogramLoss(kept, target)(logits[:1, :99], y[:1])
    torch.testing.assert_close(losses[0], expected)
    assert losses[1] == INF
    (gradient,) = torch.autograd.grad(losses[0], logits)
    assert torch.isfinite(gradient).all()
    assert gradient[0, 99] == 0


def test_a_bin_ruled_out_beside_a_narrow_target_costs_nothing():
    logits = torch.zeros(1, 100)
    logits[0, 50:52] = -INF
    loss = HistogramLoss(EQUAL, Gaussian(1e-6))(logits, torch.tensor([0.495]))
    assert loss.item() == pytest.approx(math.log(98))


def test_weight_zero_leaves_out_an_infinite_loss(way):
    bins, dtype = way
    logits, y = batch(bins, 2, dtype=dtype)
    weight = torch.tensor([1.0, 0.0], dtype=dtype)
    one_bin = OneBin()
    logits[1, bins.index(y)[1]] = -INF
    value = HistogramLoss(bins, one_bin)(logits, y, weight)
    torch.testing.assert_close(value, HistogramLoss(bins, one_bin)(logits[:1], y[:1]))


# Types


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [0.1, 0.2]}, "y: need a tensor, got list; .*torch.as_tensor"),
        ({"y": np.array([0.1, 0.2])}, "y: need a tensor, got ndarray; .*torch.as_tensor"),
        ({"y": 0.5}, "y: need a tensor, got float"),
        ({"logits": np.zeros((2, 100))}, "logits: need a tensor, got ndarray"),
        ({"logits": [[0.0] * 100] * 2}, "logits: need a tensor, got list"),
        (
            {"logits": torch.zeros(2, 100, dtype=torch.int64)},
            "logits: need floating-point numbers, got torch.int64; .*float",
        ),
        ({"logits": torch.zeros(2, 100) > 0}, "logits: need floating-point numbers, got torch.bo"),
        ({"weight": [1.0, 1.0]}, "weight: need a tensor, got list"),
        ({"weight": np.ones(2)}, "weight: need a tensor, got ndarray"),
    ],
)
def test_what_is_no_tensor_of_numbers_is_a_type_error(change, message):
    given = {"logits": torch.zeros(2, 100), "y": torch.zeros(2)} | change
    with pytest.raises(TypeError, match=message):
        HistogramLoss(EQUAL)(**given)
    if "weight" not in change:
        with pytest.raises(TypeError, match=message):
            HistogramLoss(EQUAL).sum_of_means(**given)


def test_a_distribution_of_an_array_is_a_type_error():
    with pytest.raises(TypeError, match="logits: need a tensor, got ndarray; .*torch.as_tensor"):
        HistogramLoss(EQUAL).distribution(np.zeros((2, 100)))
    with pytest.raises(TypeError, match="probs: need a tensor, got list"):
        Histogram(EQUAL, probs=[0.01] * 100)


# Weights


def test_weights_may_be_true_and_false():
    logits, y = batch(EQUAL, 3)
    kept = torch.tensor([True, False, True])
    loss = HistogramLoss(EQUAL)
    torch.testing.assert_close(loss(logits, y, kept), loss(logits[kept], y[kept]))


DIVIDE = "divide all weights by the same number"


def test_weights_whose_sum_overflows_are_told_to_be_smaller():
    logits, y = batch(EQUAL, 2)
    with pytest.raises(ValueError, match=rf"weight\.sum\(\): .*float32.*{DIVIDE}"):
        HistogramLoss(EQUAL)(logits, y, torch.full((2,), 3e38))


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_a_weight_that_float32_does_not_hold_is_told_to_be_smaller(reduction):
    logits, y = batch(EQUAL, 2)
    weight = torch.tensor([1.0, 1e39], dtype=torch.float64)
    message = rf"weight: 1 of 2 values .* index 1 \(1e\+39\); .*{DIVIDE}"
    with pytest.raises(ValueError, match=message):
        HistogramLoss(EQUAL, reduction=reduction)(logits, y, weight)


def test_the_weighted_mean_does_not_overflow_before_the_weights_do(way):
    bins, dtype = way
    logits, y = batch(bins, 2, dtype=dtype)
    largest = torch.finfo(dtype).max
    weight = torch.tensor([0.1, 0.3], dtype=dtype)
    loss = HistogramLoss(bins)
    torch.testing.assert_close(loss(logits, y, weight * largest), loss(logits, y, weight))
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(logits, y, weight * largest), loss(logits, y, weight))


# Checkpoints


def test_assigned_edges_stay_in_float64():
    loss = HistogramLoss(EQUAL)
    wanted = Bins.uniform(2.0, 3.0, 100)
    loss.load_state_dict({"edges": wanted.edges.float()}, assign=True)
    assert loss.edges.dtype == loss.bins.edges.dtype == torch.float64
    assert torch.equal(loss.edges, wanted.edges.float().double())
    assert torch.equal(loss.edges, loss.bins.edges)


def test_assigned_edges_are_a_copy():
    loss, state = HistogramLoss(EQUAL), HistogramLoss(Bins.uniform(2.0, 3.0, 100)).state_dict()
    loss.load_state_dict(state, assign=True)
    state["edges"].zero_()
    assert loss.bins == Bins.uniform(2.0, 3.0, 100)
    assert torch.equal(loss.edges, loss.bins.edges)


def test_a_checkpoint_gives_a_module_on_the_meta_device_its_bins():
    loss = HistogramLoss(EQUAL).to("meta")
    loss.load_state_dict(HistogramLoss(UNEQUAL).state_dict(), assign=True)
    logits, y = batch(UNEQUAL, 3)
    assert torch.equal(loss(logits, y), HistogramLoss(UNEQUAL)(logits, y))


def test_a_checkpoint_without_edges_leaves_the_bins_alone():
    loss = HistogramLoss(EQUAL)
    loss.load_state_dict({}, strict=False)
    assert loss.bins is EQUAL


# Bins that float32 does not hold


@pytest.mark.parametrize(("low", "high"), [(0.0, 1e39), (-1e39, 1.0), (-3e38, 3e38)])
def test_bins_beyond_float32_are_refused_there_and_exact_in_float64(low, high):
    bins = Bins.uniform(low, high, 10)
    with pytest.raises(ValueError, match=r"bins: .* does not fit into torch.float32; .*float64"):
        HistogramLoss(bins).distribution(torch.zeros(2, 10))
    with pytest.raises(ValueError, match=r"bins: .* does not fit into torch.float32"):
        Histogram(bins, probs=torch.ones(2, 10))
    mean = HistogramLoss(bins).distribution(torch.zeros(2, 10).double()).mean
    assert mean.tolist() == pytest.approx([(low + high) / 2] * 2, abs=1e-12 * (high - low))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_summary_of_the_largest_bins_is_finite(dtype):
    largest = torch.finfo(dtype).max
    bins = Bins.uniform(0.9 * largest, largest, 10)
    predicted = Histogram(bins, logits=torch.randn(3, 10, dtype=dtype))
    for value in (predicted.mean, predicted.median, predicted.mode, *predicted.interval(0.9)):
        assert ((value >= bins.low) & (value <= bins.high)).all()
    assert torch.isfinite(predicted.crps(torch.full((3,), bins.low, dtype=torch.float64))).all()
