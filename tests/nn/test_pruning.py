"""Where there is no noise, two members go on with the time of all."""

import math
from dataclasses import replace

import pytest
import torch

from softbins.nn import pruning
from softbins.nn.objectives import make_objective
from softbins.nn.pruning import PruningRule, train_and_prune
from softbins.nn.settings import Settings
from softbins.nn.stack import StackedMLP
from softbins.nn.trainer import MemberData, Trainer

RULE = PruningRule(decide_after=0.25, max_gap=1.1, max_remaining=0.75, speedup=1.1)
ALWAYS = PruningRule(decide_after=0.25, max_gap=math.inf, max_remaining=math.inf, speedup=1.1)
PAIR = (0, 2)

ROWS = 800
EPOCHS = 40
FOLD, OTHER_FOLD, REST = torch.arange(ROWS).split([100, 100, 600])


def trainer(noise=0.0, folds=(FOLD, OTHER_FOLD, FOLD, OTHER_FOLD), epochs=EPOCHS, patience=20):
    """Four members, of which the first and the third leave out the same rows."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(ROWS, 2, generator=generator)
    y = (x[:, 0] + x[:, 1]) / 4 + 0.25 + noise * torch.randn(ROWS, generator=generator)
    objective = make_objective("hl-gaussian", 0.0, 1.0, bins=20)
    network = StackedMLP(2, (32, 32), objective.outputs, range(4))
    rows = [torch.tensor(sorted({*range(ROWS)} - {*fold.tolist()})) for fold in folds]
    settings = Settings(
        epochs=epochs,
        batch_size=100,
        learning_rate=1e-2,
        schedule="cosine",
        patience=patience,
        monitor="rmse",
    )
    y = y.clamp(0, 1)
    data = MemberData(x, y, rows, list(folds))
    return Trainer(network, objective, data, settings, range(4))


def test_without_noise_two_members_go_on_in_the_time_of_all():
    first = trainer()
    last = train_and_prune(first, RULE, PAIR)
    early = round(RULE.decide_after * EPOCHS)
    times = RULE.speedup * 4 / 2
    assert last is not first
    assert last.network is first.network
    assert last.network.members == 2
    assert last.settings.epochs == early + round(times * (EPOCHS - early))
    assert last.settings.patience == round(times * 20)
    assert last.epoch > EPOCHS
    assert first.epoch == early


def test_both_have_left_out_the_rows_that_judge_them():
    last = train_and_prune(trainer(), RULE, PAIR)
    assert last.validation == [FOLD, FOLD]
    assert all(torch.equal(rows, torch.cat([OTHER_FOLD, REST])) for rows in last.rows)


def test_the_history_is_that_of_the_two_from_their_first_epoch_on():
    first = trainer()
    last = train_and_prune(first, RULE, PAIR)
    early = round(RULE.decide_after * EPOCHS)
    for place, member in enumerate((0, 2)):
        mine = [row for row in last.history if row["member"] == place]
        assert [row["epoch"] for row in mine] == list(range(1, last.epoch + 1))
        before = [row | {"member": place} for row in first.history if row["member"] == member]
        assert mine[:early] == before
    assert {row["member"] for row in last.history} == {0, 1}


def test_noise_keeps_all_members():
    first = trainer(noise=0.1)
    assert train_and_prune(first, RULE, PAIR) is first
    assert first.network.members == 4
    assert first.settings.epochs == EPOCHS


def test_a_pair_that_is_all_there_is_goes_on_as_it_was():
    first = trainer()
    first.network.keep_members(torch.tensor(PAIR))
    data = MemberData(first.x, first.y, first.rows[::2], [FOLD] * 2)
    pair = Trainer(first.network, first.objective, data, first.settings, PAIR)
    assert train_and_prune(pair, ALWAYS, (0, 1)) is pair
    assert pair.settings.epochs == EPOCHS


def test_who_goes_on_does_so_as_if_nothing_had_happened():
    """With the epochs that were planned, the two end where they would have ended among four."""
    everybody, two = trainer(epochs=12), trainer(epochs=12)
    everybody.run()
    train_and_prune(two, replace(ALWAYS, speedup=2 / 4), PAIR)
    for theirs, ours in zip(everybody.network.parameters(), two.network.parameters(), strict=True):
        scale = theirs.abs().max()
        assert (theirs[[0, 2]] - ours).abs().max() <= 1e-5 * scale


def test_the_two_keep_their_seeds():
    assert train_and_prune(trainer(), ALWAYS, PAIR).seeds == list(PAIR)


def test_nothing_is_decided_by_errors_that_are_no_numbers():
    first = trainer()
    first.run(until=10)
    for row in first.history:
        row["validation_mae"] = math.nan
    assert not pruning._learns_without_noise(first, RULE)


def test_nothing_is_decided_once_members_have_stopped():
    first = trainer()
    first.run(until=10)
    assert pruning._learns_without_noise(first, RULE)
    first._keep_running([0, 1, 2])
    assert not pruning._learns_without_noise(first, RULE)


@pytest.mark.parametrize("epochs", [1, 2, 3])
def test_few_epochs_are_enough(epochs):
    last = train_and_prune(trainer(epochs=epochs), RULE, PAIR)
    assert last.epoch >= epochs
