"""A sharp histogram for the units of trained networks."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from softbins import Bins, Gaussian
from softbins.nn import head as heads
from softbins.nn.embedded import EmbeddedMLP
from softbins.nn.head import HeadSettings, fit_head
from softbins.nn.objectives import HistogramObjective
from softbins.nn.settings import Settings
from softbins.nn.stopping import Stop
from softbins.nn.trainer import MemberData

ROWS, FEATURES, SEEDS = 400, 2, (3, 4)
SETTINGS = Settings(batch_size=64, weight_decay=0.0)
HEAD = HeadSettings(
    steps=400,
    min_epochs=12,
    max_epochs=24,
    learning_rate=0.06,
    max_batch_size=256,
    max_units=2**26,
)


def fit(stack, objective, x, y, rows, seeds=SEEDS, settings=SETTINGS, weight=None, head=HEAD):
    data = MemberData(x, y, rows, weight=weight)
    return fit_head(stack, objective, data, seeds, settings, head)


def network(seeds=SEEDS):
    return EmbeddedMLP(FEATURES, [0], (12,), 5, seeds)


@pytest.fixture
def table():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, FEATURES, generator=generator)
    y = x[:, 0] + (0.1 + 0.4 * (x[:, 1] > 0)) * torch.randn(ROWS, generator=generator)
    bins = Bins.covering(y, 40, 1.5)
    return x, y, HistogramObjective(bins.low, bins.high, bins, Gaussian.of_bins(1.5))


def loss(stack, layer, x, y, objective, rows):
    """The mean loss of each member on some rows."""
    weight, bias = layer
    with torch.no_grad():
        outputs = stack.units(x[rows].expand(stack.members, -1, -1)) @ weight + bias
        return objective.losses(outputs, y[rows].expand(stack.members, -1)).mean(-1)


def everything(stack):
    return [torch.arange(ROWS)] * stack.members


def test_it_finds_the_least_loss(table):
    x, y, objective = table
    stack = network()
    found = fit(stack, objective, x, y, everything(stack))
    ours = loss(stack, found, x, y, objective, torch.arange(ROWS))
    units = stack.units(x.expand(2, -1, -1)).detach()
    weight = torch.zeros(2, 12, 40, requires_grad=True)
    bias = torch.zeros(2, 1, 40, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=500, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        total = objective.losses(units @ weight + bias, y.expand(2, -1)).mean(-1).sum()
        total.backward()
        return total

    optimizer.step(closure)
    least = loss(stack, (weight, bias), x, y, objective, torch.arange(ROWS))
    nothing = torch.zeros(2, 12, 40), heads._common_distribution(objective, y.expand(2, -1)).float()
    before = loss(stack, nothing, x, y, objective, torch.arange(ROWS))
    # A few hundred steps gain most of what there is to gain; the rest would be learnt by heart.
    assert (ours - least < 0.2 * (before - least)).all()


def test_the_networks_stay_as_they_are(table):
    x, y, objective = table
    stack = network()
    before = [p.detach().clone() for p in stack.parameters()]
    weight, bias = fit(stack, objective, x, y, everything(stack))
    assert weight.shape == (2, 12, 40)
    assert bias.shape == (2, 1, 40)
    assert not weight.requires_grad
    for parameter, old in zip(stack.parameters(), before, strict=True):
        assert torch.equal(parameter, old)


def test_a_member_learns_from_its_own_rows(table):
    x, y, objective = table
    rows = [torch.arange(0, ROWS, 2), torch.arange(1, ROWS - 40, 2)]
    stack = network()
    first = fit(stack, objective, x, y, rows)
    changed = y.clone()
    changed[rows[1]] = y.flip(0)[rows[1]]
    second = fit(stack, objective, x, changed, rows)
    torch.testing.assert_close(first[0][0], second[0][0], rtol=0, atol=1e-4)
    assert (first[0][1] - second[0][1]).abs().max() > 0.2


def test_a_member_alone_is_itself_in_a_stack(table):
    x, y, objective = table
    stack = network()
    together = fit(stack, objective, x, y, everything(stack))
    for place, seed in enumerate(SEEDS):
        single = network([seed])
        alone = fit(single, objective, x, y, everything(single), [seed])
        for one, all_of_them in zip(alone, together, strict=True):
            torch.testing.assert_close(one[0], all_of_them[place], rtol=0, atol=1e-3)


def test_rows_without_weight_do_not_count(table):
    x, y, objective = table
    stack, spoilt = network(), y.clone()
    spoilt[::2] = y.flip(0)[::2]
    weight = torch.ones(ROWS)
    weight[::2] = 0
    found = fit(stack, objective, x, spoilt, everything(stack), weight=weight)
    plain = fit(stack, objective, x, spoilt, everything(stack))
    real = torch.arange(1, ROWS, 2)
    better = loss(stack, found, x, y, objective, real) - loss(stack, plain, x, y, objective, real)
    assert (better < -0.05).all()


@pytest.mark.parametrize(
    ("rows", "batch", "expected"), [(600, 64, 24), (3000, 128, 17), (10**6, 256, 12)]
)
def test_how_long_it_trains(rows, batch, expected):
    settings = heads._settings(Settings(batch_size=batch, patience=3), HEAD, rows)
    assert (settings.epochs, settings.patience) == (expected, None)


def test_many_rows_are_thinned_out(table, monkeypatch):
    x, y, objective = table
    stack, seen = network(), []
    units = stack.units
    monkeypatch.setattr(stack, "units", lambda part: seen.append(part.shape[1]) or units(part))
    few = replace(HEAD, max_units=2 * 12 * 150)
    found = fit(stack, objective, x, y, everything(stack), head=few)
    assert sum(seen) == 134  # every third
    assert np.isfinite(loss(stack, found, x, y, objective, torch.arange(ROWS)).numpy()).all()


@pytest.mark.parametrize(("max_units", "is_held"), [(2 * 12 * 150, False), (10**9, True)])
def test_targets_are_held_only_where_all_units_are(table, monkeypatch, max_units, is_held):
    x, y, objective = table
    made = []

    class Watched(heads.Trainer):
        def __init__(self, *arguments, **more):
            super().__init__(*arguments, **more)
            made.append(self.settings.max_precomputed_numbers)

    monkeypatch.setattr(heads, "Trainer", Watched)
    stack = network()
    fit(stack, objective, x, y, everything(stack), head=replace(HEAD, max_units=max_units))
    assert [most > 0 for most in made] == [is_held]


def test_batches_are_not_larger_than_it_needs(table):
    """Large batches suit hidden layers; the head would be left with too few steps."""
    x, y, objective = table
    stack = network()
    settings = [Settings(batch_size=size * HEAD.max_batch_size) for size in (1, 4)]
    usual, large = (
        fit(stack, objective, x, y, everything(stack), settings=each) for each in settings
    )
    assert all(torch.equal(one, other) for one, other in zip(usual, large, strict=True))


@pytest.mark.parametrize(("left", "least"), [(math.inf, 20_000), (1e9, 20_000), (-1.0, 4000)])
def test_a_head_learns_from_as_many_rows_as_the_time_allows(left, least, monkeypatch):
    x, index = torch.randn(20_000, FEATURES), torch.arange(20_000).expand(len(SEEDS), -1)
    monkeypatch.setattr(Stop, "seconds_left", left)
    found = heads._rows_in_time(network(), x, index, Stop())
    assert least <= found.shape[1] <= max(least, 4096)
    steps = found[0].diff().unique()
    assert len(steps) == 1
