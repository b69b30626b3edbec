"""The networks of a table, as groups of members that are trained wherever there is room.

How many members a group has depends on the table alone: any number of jobs trains the same groups,
and gives the same networks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import torch

from softbins._core.warnings import warn_user
from softbins.nn.groups import (
    GroupTask,
    HeadTask,
    SharedTable,
    TrainedEnsemble,
    TrainedGroup,
    joined,
    some_members,
    train_group,
)
from softbins.nn.pruning import train_and_prune
from softbins.nn.settings import PruningRule, Settings
from softbins.nn.stack import StackedMLP
from softbins.nn.stopping import Stop
from softbins.tabular.folds import Folds
from softbins.tabular.jobs import number_of_jobs, run_tasks
from softbins.tabular.watch import Watch

MakeNetwork = Callable[[Sequence[int]], StackedMLP]


@dataclass(frozen=True)
class Workshop:
    """Where groups are trained: the table that they share, with how many jobs, and who watches."""

    table: SharedTable
    n_jobs: int | None
    watch: Watch

    def run(
        self, tasks: Sequence[GroupTask], share: float = 1.0, told: bool = True
    ) -> list[TrainedGroup]:
        """Train groups, together in no more than a share of the time that is left.

        Who watches is told of their epochs, unless these are further ones.
        """
        if not tasks:  # where time was over before any member could be pruned
            return []
        in_turn = math.ceil(len(tasks) / number_of_jobs(self.n_jobs))
        seconds = share * self.watch.stop.seconds_left / in_turn
        timed = [replace(task, seconds=seconds) for task in tasks]
        stop = self.watch.stop.within(math.inf)
        return run_tasks(
            train_group,
            self.table,
            timed,
            n_jobs=self.n_jobs,
            progress=self.watch.groups(timed, stop) if told else None,
            stop=stop,
            forks=all(task.device == "cpu" for task in tasks),
        )


def member_groups(members: int, size: int, folds: Folds | None) -> list[list[int]]:
    """Members in groups of about that size, those that leave out the same fold together."""
    order = list(range(members))
    if folds is not None:
        order.sort(key=lambda member: (folds.fold_of_member[member], member))
    count = math.ceil(members / size)
    bounds = [members * number // count for number in range(count + 1)]
    return [order[start:end] for start, end in pairwise(bounds)]


def group_tasks(whole: GroupTask, groups: Sequence[Sequence[int]]) -> list[GroupTask]:
    """A task for each group, from one that has all members."""
    return [_part_of(whole, group) for group in groups]


def _part_of(whole: GroupTask, group: Sequence[int]) -> GroupTask:
    validation, head = whole.validation, whole.head
    most = whole.settings.max_precomputed_numbers * len(group) // len(whole.members)
    return replace(
        whole,
        members=list(group),
        seeds=[whole.seeds[member] for member in group],
        rows=[whole.rows[member] for member in group],
        validation=None if validation is None else [validation[member] for member in group],
        objective=whole.objective.select_members(torch.tensor(group)),
        settings=replace(whole.settings, max_precomputed_numbers=most),
        decays=None if whole.decays is None else whole.decays[list(group)],
        head=None if head is None else _part_of_head(head, len(group) / len(whole.members)),
    )


def _part_of_head(head: HeadTask, share: float) -> HeadTask:
    """As many rows for each member as if all were trained at once."""
    most = round(head.settings.max_units * share)
    return replace(head, settings=replace(head.settings, max_units=most))


def train_members(
    workshop: Workshop,
    tasks: Sequence[GroupTask],
    folds: Folds | None,
    rule: PruningRule | None,
    share: float = 1.0,
) -> tuple[TrainedEnsemble, Folds | None]:
    """All members of the tasks, or two of them where a rule says so, and their folds."""
    pair = [] if folds is None else folds.members_of(0)[:2]
    run = partial(workshop.run, share=share)
    members = sum(len(task.members) for task in tasks)
    if folds is None or rule is None or len(pair) < 2 or members == len(pair):
        return joined(run(tasks)), folds
    # Members that leave out the same fold, so that it judges what will predict.
    ensemble = joined(train_and_prune(tasks, rule, pair, run))
    pruned = ensemble.network.members < members
    return ensemble, folds.of_members(pair) if pruned else folds


def train_further(
    workshop: Workshop,
    ensemble: TrainedEnsemble,
    whole: GroupTask,
    groups: Sequence[Sequence[int]],
    settings: Settings,
) -> StackedMLP:
    """The networks of an ensemble after more epochs, on all rows."""
    numbers = torch.arange(len(workshop.table.y), dtype=whole.rows[0].dtype)
    rows = [numbers] * ensemble.network.members
    again = replace(
        whole,
        members=range(ensemble.network.members),
        seeds=ensemble.network.seeds,
        rows=rows,
        validation=None,
        settings=settings,
        standardize=False,
        head=None,
    )
    tasks = [
        replace(task, make_network=partial(_given, some_members(ensemble.network, task.members)))
        for task in group_tasks(again, groups)
    ]
    return joined(workshop.run(tasks, told=False)).network


def _given(network: StackedMLP, seeds: Sequence[int]) -> StackedMLP:
    return network


def warn_of_cut(ensemble: TrainedEnsemble, epochs: int, stop: Stop) -> None:
    """Say so if the time was too short, or somebody has interrupted it."""
    reached = f"networks learnt for {ensemble.epoch} of up to {epochs} epochs"
    if stop.asked:
        warn_user(f"interrupted: {reached}; the model is what they have reached")
    elif ensemble.is_cut and stop.seconds_left < math.inf:
        warn_user(f"max_seconds: {reached}, in the time that there was for them")
