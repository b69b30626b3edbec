"""Fewer members that learn for longer, where that is the better use of the time.

Many members average noise out. Where there is no noise, the error of a network falls about as one
over its epochs, so that one network errs less than two that have learnt for half as long. After a
quarter of the epochs it shows which case it is: without noise the error on held-out rows falls
fast, and is no larger than on a member's own rows. Then two members go on, in the time of all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from softbins.nn.groups import GroupTask, TrainedGroup, checkpoint_of
from softbins.nn.settings import PruningRule, Settings

Run = Callable[[Sequence[GroupTask]], list[TrainedGroup]]


def train_and_prune(
    tasks: Sequence[GroupTask], rule: PruningRule, pair: Sequence[int], run: Run
) -> list[TrainedGroup]:
    """Train groups whose members have validation rows, and return those that went to the end.

    These are all of them or, if the rule decides for it, groups with the two members of `pair`,
    numbered anew. Members of the pair should be judged by the same rows.
    """
    early = max(2, round(rule.decide_after * tasks[0].settings.epochs))
    groups = run([replace(task, until=early) for task in tasks])
    waiting = [group for group in groups if group.checkpoint is not None]
    if len(waiting) == len(groups) and learns_without_noise(groups, rule):
        return run(_tasks_of_pair(tasks, groups, rule, pair))
    again = [
        replace(task, start=group.checkpoint)
        for task, group in zip(tasks, groups, strict=True)
        if group.checkpoint is not None
    ]
    finished = [group for group in groups if group.checkpoint is None]
    return finished + run(again)


def learns_without_noise(groups: Sequence[TrainedGroup], rule: PruningRule) -> bool:
    """Whether the error on held-out rows falls fast, and is no larger than on own rows."""
    own = [group.own_mae for group in groups if group.own_mae is not None]
    if len(own) < len(groups):  # some members have stopped
        return False
    epoch = groups[0].epoch
    now, before = (_held_out_mae(groups, each) for each in (epoch, epoch // 2))
    # Errors that are not numbers fail both comparisons, so that nothing is pruned.
    gap = now <= rule.max_gap * torch.cat(own).mean().item()
    return gap and now <= rule.max_remaining * before


def _held_out_mae(groups: Sequence[TrainedGroup], epoch: int) -> float:
    rows = [row for group in groups for row in group.history if row["epoch"] == epoch]
    return sum(row["validation_mae"] for row in rows) / len(rows)


def _tasks_of_pair(
    tasks: Sequence[GroupTask],
    groups: Sequence[TrainedGroup],
    rule: PruningRule,
    pair: Sequence[int],
) -> list[GroupTask]:
    """Tasks that go on with the pair in the time of all members: for each its own if some were."""
    factor = rule.speedup * sum(len(task.members) for task in tasks) / len(pair)
    settings = _prolonged(tasks[0].settings, groups[0].epoch, factor)
    new = [list(range(len(pair)))] if len(tasks) == 1 else [[place] for place in range(len(pair))]
    return [_task_of(tasks, groups, [pair[i] for i in part], part, settings) for part in new]


def _task_of(
    tasks: Sequence[GroupTask],
    groups: Sequence[TrainedGroup],
    members: Sequence[int],
    numbers: Sequence[int],
    settings: Settings,
) -> GroupTask:
    """A task for some members of all tasks, which get new numbers."""
    places = {member: (task, i) for task in tasks for i, member in enumerate(task.members)}
    found = [places[member] for member in members]
    return replace(
        tasks[0],
        members=numbers,
        seeds=[task.seeds[i] for task, i in found],
        rows=[task.rows[i] for task, i in found],
        validation=[task.validation[i] for task, i in found if task.validation is not None],
        settings=settings,
        start=checkpoint_of(groups, members),
    )


def _prolonged(settings: Settings, done: int, factor: float) -> Settings:
    patience = None if settings.patience is None else round(factor * settings.patience)
    epochs = done + round(factor * (settings.epochs - done))
    return replace(settings, epochs=epochs, patience=patience)
