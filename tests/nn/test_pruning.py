"""Where there is no noise, two members go on with the time of all."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch

from softbins.nn.groups import GroupTask, SharedTable, checkpoint_of, joined, train_group
from softbins.nn.objectives import make_objective
from softbins.nn.pruning import PruningRule, learns_without_noise, train_and_prune
from softbins.nn.settings import Settings
from softbins.nn.stack import StackedMLP

RULE = PruningRule(decide_after=0.25, max_gap=1.1, max_remaining=0.75, speedup=1.1)
ALWAYS = PruningRule(decide_after=0.25, max_gap=math.inf, max_remaining=math.inf, speedup=1.1)
PAIR = (0, 2)
# All members as one stack, or in two of them, of which the pair may be one.
GROUPS = {"one": [[0, 1, 2, 3]], "pairs": [[0, 2], [1, 3]], "across": [[0, 1], [2, 3]]}

ROWS = 800
EPOCHS = 40
EARLY = round(RULE.decide_after * EPOCHS)
FOLD, OTHER_FOLD, REST = torch.arange(ROWS).split([100, 100, 600])
FOLDS = (FOLD, OTHER_FOLD, FOLD, OTHER_FOLD)


def network(outputs, seeds):
    return StackedMLP(2, (32, 32), outputs, seeds)


def problem(groups="one", noise=0.0, epochs=EPOCHS, patience=20):
    """Four members, of which the first and the third leave out the same rows: tasks, and run."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(ROWS, 2, generator=generator)
    y = (x[:, 0] + x[:, 1]) / 4 + 0.25 + noise * torch.randn(ROWS, generator=generator)
    objective = make_objective("hl-gaussian", 0.0, 1.0, bins=20)
    settings = Settings(
        epochs=epochs,
        batch_size=100,
        learning_rate=1e-2,
        schedule="cosine",
        patience=patience,
        monitor="rmse",
    )
    rows = [torch.tensor(sorted({*range(ROWS)} - {*fold.tolist()})) for fold in FOLDS]
    tasks = [
        GroupTask(
            members=group,
            seeds=group,
            rows=[rows[member] for member in group],
            validation=[FOLDS[member] for member in group],
            objective=objective,
            settings=settings,
            make_network=partial(network, objective.outputs),
        )
        for group in GROUPS[groups]
    ]
    table = SharedTable.of(x.numpy(), y.clamp(0, 1), None, objective, settings)
    told = []

    def run(tasks):
        told.append(tasks)
        return [train_group(*table, task) for task in tasks]

    return tasks, run, told


@pytest.mark.parametrize("groups", GROUPS)
def test_without_noise_two_members_go_on_in_the_time_of_all(groups):
    tasks, run, told = problem(groups)
    last = joined(train_and_prune(tasks, RULE, PAIR, run))
    times = RULE.speedup * 4 / 2
    assert last.network.members == 2
    assert last.network.seeds == list(PAIR)
    assert last.epoch > EPOCHS
    _, of_pair = told
    for task in of_pair:
        assert task.settings.epochs == EARLY + round(times * (EPOCHS - EARLY))
        assert task.settings.patience == round(times * 20)
        assert all(torch.equal(fold, FOLD) for fold in task.validation)
        assert all(torch.equal(rows, torch.cat([OTHER_FOLD, REST])) for rows in task.rows)


@pytest.mark.parametrize("groups", GROUPS)
def test_the_history_is_that_of_the_two_from_their_first_epoch_on(groups):
    tasks, run, _ = problem(groups)
    first = joined(run([replace(task, until=EARLY) for task in tasks]))
    last = joined(train_and_prune(tasks, RULE, PAIR, run))
    for place, member in enumerate(PAIR):
        mine = [row for row in last.history if row["member"] == place]
        assert [row["epoch"] for row in mine] == list(range(1, len(mine) + 1))
        before = [row | {"member": place} for row in first.history if row["member"] == member]
        assert mine[:EARLY] == before
    assert {row["member"] for row in last.history} == {0, 1}


def test_the_decision_is_that_of_all_groups_together():
    decisions = set()
    for noise in (0.0, 0.1):
        for groups in GROUPS:
            tasks, run, _ = problem(groups, noise)
            waiting = run([replace(task, until=EARLY) for task in tasks])
            decisions.add((noise, learns_without_noise(waiting, RULE)))
    assert decisions == {(0.0, True), (0.1, False)}


@pytest.mark.parametrize("groups", GROUPS)
def test_noise_keeps_all_members_as_if_nobody_had_asked(groups):
    tasks, run, _ = problem(groups, noise=0.1, epochs=8)
    kept, expected = joined(train_and_prune(tasks, RULE, PAIR, run)), joined(run(tasks))
    assert kept.history == expected.history
    pairs = zip(kept.network.parameters(), expected.network.parameters(), strict=True)
    assert all(torch.equal(ours, theirs) for ours, theirs in pairs)


@pytest.mark.parametrize("groups", GROUPS)
def test_who_goes_on_does_so_as_if_nothing_had_happened(groups):
    """With the epochs that were planned, the two end where they would have ended among four."""
    tasks, run, _ = problem(groups, epochs=12)
    everybody = joined(run(tasks)).network
    two = joined(train_and_prune(tasks, replace(ALWAYS, speedup=2 / 4), PAIR, run)).network
    for theirs, ours in zip(everybody.parameters(), two.parameters(), strict=True):
        assert (theirs[list(PAIR)] - ours).abs().max() <= 1e-5 * theirs.abs().max()


def test_nothing_is_decided_by_errors_that_are_no_numbers():
    tasks, run, _ = problem()
    (waiting,) = run([replace(task, until=EARLY) for task in tasks])
    for row in waiting.history:
        row["validation_mae"] = math.nan
    assert not learns_without_noise([waiting], RULE)


def test_nothing_is_decided_once_members_have_stopped():
    tasks, run, _ = problem()
    (waiting,) = run([replace(task, until=EARLY) for task in tasks])
    assert learns_without_noise([waiting], RULE)
    assert not learns_without_noise([replace(waiting, own_mae=None)], RULE)


def test_a_checkpoint_of_some_members_has_their_own_random_numbers():
    tasks, run, _ = problem("across")
    waiting = run([replace(task, until=2) for task in tasks])
    _, tensors = checkpoint_of(waiting, [3, 0])
    for place, (group, own) in enumerate([(1, 1), (0, 0)]):
        theirs = waiting[group].checkpoint[1][f"generator.{own}"]
        assert torch.equal(tensors[f"generator.{place}"], theirs)


@pytest.mark.parametrize("epochs", [1, 2, 3])
def test_few_epochs_are_enough(epochs):
    tasks, run, _ = problem(epochs=epochs)
    assert joined(train_and_prune(tasks, RULE, PAIR, run)).epoch >= epochs
