"""The gradients by hand are those of autograd: of `EmbeddedMLP`, and of a table's histogram."""

import numpy as np
import pytest
import torch

from softbins.bins import Bins
from softbins.nn.embedded import EmbeddedMLP
from softbins.nn.objectives import METHODS, make_objective
from softbins.nn.settings import Settings
from softbins.nn.stack import StackedMLP
from softbins.nn.trainer import MemberData, Trainer
from softbins.tabular.objectives import histogram_objective

ROWS, FEATURES, OUTPUTS, SEEDS = 11, 3, 6, (7, 8)
EMBEDDED = {"none": [], "one": [1], "some": [2, 0], "all": [0, 1, 2]}


def network(embedded, hidden=(5, 4), activation="silu"):
    """In float64, where two ways to a gradient agree to many digits."""
    torch.manual_seed(0)
    shape = (FEATURES, embedded, hidden, OUTPUTS)
    stack = EmbeddedMLP(*shape, SEEDS, activation=activation).double()
    with torch.no_grad():  # from where nothing is 0 by accident
        for parameter in stack.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    stack.standardize(
        torch.tensor([[1.0, 2, 3], [0, 1, 0]]), torch.tensor([[1.0, 2, 1], [3, 1, 0]])
    )
    return stack


def generators():
    return [torch.Generator().manual_seed(seed) for seed in SEEDS]


def inputs():
    return torch.randn(2, ROWS, FEATURES, generator=torch.Generator().manual_seed(1)).double()


def gradients(stack, outputs, weights):
    stack.zero_grad()
    (outputs * weights).sum().backward()
    return [p.grad for p in stack.parameters()]


def assert_alike(ours, theirs):
    for own, other in zip(ours, theirs, strict=True):
        expected = torch.zeros_like(own) if other is None and own is not None else other
        torch.testing.assert_close(own, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("activation", ["silu", "relu"])
@pytest.mark.parametrize("hidden", [(5,), (5, 4), (6, 20, 3)], ids=str)
@pytest.mark.parametrize("embedded", EMBEDDED)
def test_a_training_step_is_the_network(embedded, hidden, activation):
    stack, x = network(EMBEDDED[embedded], hidden, activation), inputs()
    weights = torch.randn(2, ROWS, OUTPUTS).double()
    step, plain = stack(x, generators()), stack(x)
    torch.testing.assert_close(step, plain, rtol=1e-12, atol=1e-12)
    assert_alike(gradients(stack, step, weights), gradients(stack, plain, weights))


@pytest.mark.parametrize("embedded", EMBEDDED)
def test_a_step_without_autograd_is_the_same(embedded):
    stack, x = network(EMBEDDED[embedded]), inputs()
    weights = torch.randn(2, ROWS, OUTPUTS).double()
    plain = stack(x, generators())
    theirs = gradients(stack, plain, weights)
    stack.zero_grad()
    outputs, pull = stack.step(x, generators())
    assert not outputs.requires_grad
    assert torch.equal(outputs, plain)
    pull(weights)
    assert_alike([p.grad for p in stack.parameters()], theirs)


def test_any_stack_makes_a_step():
    stack, x = StackedMLP(FEATURES, (4,), OUTPUTS, SEEDS).double(), inputs()
    weights = torch.randn(2, ROWS, OUTPUTS).double()
    theirs = [g.clone() for g in gradients(stack, stack(x), weights)]
    stack.zero_grad()
    outputs, pull = stack.step(x, generators())
    pull(weights)
    torch.testing.assert_close(outputs, stack(x).detach())
    assert_alike([p.grad for p in stack.parameters()], theirs)


def test_frozen_parameters_get_no_gradient():
    stack = network([0])
    stack.freeze_hidden()
    _, pull = stack.step(inputs(), generators())
    pull(torch.ones(2, ROWS, OUTPUTS).double())
    assert all(p.grad is None for p in stack.weights[:-1])
    assert stack.weights[-1].grad is not None


def test_a_training_step_is_differentiable_once():
    stack = network([0])
    outputs = stack(inputs(), generators()).square().sum()
    (first,) = torch.autograd.grad(outputs, [stack.weights[0]], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


# A histogram


def targets(unequal=False):
    return np.random.default_rng(0).normal(size=40) ** (5 if unequal else 1)


def histogram(unequal):
    y = targets(unequal)
    edges = np.sinh(np.linspace(-3, 3, 31)) * (1.1 * np.abs(y).max() / np.sinh(3))
    return histogram_objective(Bins(edges) if unequal else Bins.covering(y, 30, 2.0), 2.0)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("unequal", [False, True])
def test_a_histogram_knows_its_gradient(unequal, weighted):
    objective, y = histogram(unequal), torch.from_numpy(targets(unequal)).view(2, 20)
    outputs = torch.randn(2, 20, objective.outputs, dtype=torch.float64, requires_grad=True)
    weight = torch.rand(2, 20, dtype=torch.float64) if weighted else None
    objective.batch_loss(outputs, y, weight).backward()
    precomputed = objective.precompute_targets(y.reshape(-1)).view_as(outputs)
    assert precomputed.dtype == torch.float32
    found = objective.gradient(outputs.detach(), precomputed, weight)
    torch.testing.assert_close(found, outputs.grad, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("method", METHODS)
def test_other_objectives_leave_it_to_autograd(method):
    objective = make_objective(method, 0.0, 1.0)
    assert objective.precompute_targets(torch.rand(5)) is None
    outputs = torch.zeros(5, objective.outputs)
    with pytest.raises(NotImplementedError, match=type(objective).__name__):
        objective.gradient(outputs, outputs, None)


@pytest.mark.parametrize("weighted", [False, True])
def test_targets_are_precomputed_where_they_fit(weighted):
    """With and without precomputed targets a training comes to the same."""
    y = torch.from_numpy(targets()).float()
    x, weight = torch.randn(40, FEATURES), torch.rand(40) if weighted else None
    objective, found = histogram(unequal=False), []
    for most in (40 * objective.outputs, 40 * objective.outputs - 1):
        stack = EmbeddedMLP(FEATURES, [0], (8,), objective.outputs, SEEDS)
        rows = [torch.arange(35), torch.arange(5, 38)]  # the last batch is filled up
        settings = Settings(epochs=3, batch_size=16, max_precomputed_numbers=most)
        data = MemberData(x, y, rows, weight=weight)
        trainer = Trainer(stack, objective, data, settings, SEEDS)
        trainer.run()
        found.append((trainer.precomputed is None, [p.detach() for p in stack.parameters()]))
    (precomputed, ours), (plain, theirs) = found
    assert not precomputed
    assert plain
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)
