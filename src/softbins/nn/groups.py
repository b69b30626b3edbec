"""Groups of members: what one core, or one machine of a cluster, trains at a time.

Members of an ensemble know nothing of each other. Groups of them are trained as stacks of their
own, wherever there is room, and put together afterwards. A task says all that a group needs but
the table, which all tasks share.

    tasks = [GroupTask(members=[0, 2], ...), GroupTask(members=[1, 3], ...)]
    trained = joined([train_group(*table, task) for task in tasks])
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softbins._core.memory import release_freed_memory
from softbins.nn.adam import Adam
from softbins.nn.devices import on_device
from softbins.nn.head import Head, fit_head
from softbins.nn.objectives import HistogramObjective, Objective
from softbins.nn.settings import HeadSettings, Progress, Settings
from softbins.nn.stack import Stack, StackedMLP
from softbins.nn.stopping import Stop
from softbins.nn.trainer import HistoryRow, MemberData, Trainer, precomputed_targets

Array = NDArray[Any]
Checkpoint = tuple[dict[str, Any], dict[str, Tensor]]

SHARE_OF_NETWORKS = 0.85  # of the time of a group that also trains a head


class SharedTable(NamedTuple):
    """What all groups learn from, as arrays that any process can map into its memory.

    Features (n, inputs), targets (n,), weights (n,) and what the objective's gradient needs of
    the targets (n, outputs), if it can be computed once for all.
    """

    x: Array
    y: Array
    weight: Array | None
    targets: Array | None

    @classmethod
    def of(
        cls, x: Array, y: Tensor, weight: Array | None, objective: Objective, settings: Settings
    ) -> SharedTable:
        """The table of these features and targets; weights get the precision of the targets."""
        targets = precomputed_targets(objective, y, settings.max_precomputed_numbers)
        numbers = None if weight is None else torch.from_numpy(weight).to(y).numpy()
        return cls(x, y.numpy(), numbers, None if targets is None else targets.numpy())

    def member_data(
        self,
        rows: Sequence[Tensor],
        validation: Sequence[Tensor] | None = None,
        device: str = "cpu",
    ) -> MemberData:
        """The table as tensors, on the processor without a copy, with the rows of each member."""
        x, y, weight, targets = (_tensor(array, device) for array in self)
        assert x is not None
        assert y is not None
        return MemberData(x, y, rows, validation, weight, targets)


@dataclass(frozen=True)
class HeadTask:
    """A further output layer, to be trained on a group's last hidden units."""

    objective: HistogramObjective
    settings: HeadSettings


@dataclass(frozen=True)
class GroupTask:
    """Members of an ensemble that are trained as one stack, and how.

    `make_network` makes the stack from the seeds. Where `validation` is given, `rows` and it have
    the indices of each member's rows. `seconds` is the time that the group may take.
    """

    members: Sequence[int]
    """Their numbers in the ensemble."""
    seeds: Sequence[int]
    rows: Sequence[Tensor]
    validation: Sequence[Tensor] | None
    objective: Objective
    settings: Settings
    make_network: Callable[[Sequence[int]], StackedMLP]
    device: str = "cpu"
    seconds: float | None = None
    standardize: bool = True
    decays: Tensor | None = None
    """Each member's own weight decay, where members differ in it."""
    until: int | None = None
    """The epoch after which the group waits; another task may go on from its checkpoint."""
    start: Checkpoint | None = None
    head: HeadTask | None = None


@dataclass(frozen=True)
class TrainedGroup:
    """What has become of a group.

    The checkpoint, and the members' errors on their own rows, are those of a group that waits.
    """

    members: Sequence[int]
    network: StackedMLP
    head: Head | None
    history: list[HistoryRow]
    epoch: int
    best_epoch: Tensor
    best_score: Tensor
    is_cut: bool
    """Whether it had to stop before its last epoch."""
    checkpoint: Checkpoint | None = None
    own_mae: Tensor | None = None


def train_group(
    x: Array,
    y: Array,
    weight: Array | None,
    targets: Array | None,
    task: GroupTask,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> TrainedGroup:
    """Train a group on the arrays of a `SharedTable`."""
    stop = Stop() if stop is None else stop
    stop = stop if task.seconds is None else stop.within(task.seconds)
    trainer = group_trainer(SharedTable(x, y, weight, targets), task, stop)
    trainer.run(progress, until=task.until)
    if not trainer.finished:
        own = trainer.evaluate(task.rows) if len(trainer.running) == len(task.rows) else None
        return trained_group(trainer, task, None, None if own is None else own["mae"])
    return trained_group(trainer, task, _head(trainer, task, stop))


def group_trainer(table: SharedTable, task: GroupTask, stop: Stop) -> Trainer[StackedMLP]:
    """The trainer of a group, at its first epoch or where the task says."""
    share = 1.0 if task.head is None else SHARE_OF_NETWORKS
    trainer = Trainer(
        task.make_network(task.seeds).to(task.device),
        on_device(task.objective, task.device),
        table.member_data(task.rows, task.validation, task.device),
        task.settings,
        task.seeds,
        standardize=task.standardize,
        stop=stop.within(share * stop.seconds_left),
    )
    if task.decays is not None:
        trainer.optimizer.after_step = member_decay(trainer, task.decays)
    if task.start is not None:
        trainer.resume(*task.start)
    return trainer


def member_decay(trainer: Trainer[Any], decays: Tensor) -> Callable[[Adam], None]:
    """AdamW's weight decay after a step, with each member's own strength (members,)."""

    @torch.no_grad()
    def decay(optimizer: Adam) -> None:
        factor = 1 - optimizer.rate * decays[trainer.running]
        for parameter in trainer.parameters:
            parameter.mul_(factor.view(-1, *(1,) * (parameter.ndim - 1)))

    return decay


def trained_group(
    trainer: Trainer[StackedMLP],
    task: GroupTask,
    head: Head | None = None,
    own_mae: Tensor | None = None,
) -> TrainedGroup:
    """What a trainer has reached."""
    number = dict(enumerate(task.members))
    return TrainedGroup(
        members=task.members,
        network=trainer.network.cpu(),
        head=None if head is None else Head(*(part.cpu() for part in head)),
        history=[row | {"member": number[int(row["member"])]} for row in trainer.history],
        epoch=trainer.epoch,
        best_epoch=trainer.best_epoch,
        best_score=trainer.best_score,
        is_cut=trainer.is_cut,
        checkpoint=None if trainer.finished else trainer.checkpoint(),
        own_mae=own_mae,
    )


def _head(trainer: Trainer[StackedMLP], task: GroupTask, stop: Stop) -> Head | None:
    if task.head is None:
        return None
    objective, settings = on_device(task.head.objective, task.device), task.head.settings
    network: Any = trainer.network
    data, end = trainer.data, stop.whoever_asks()
    release_freed_memory(data.x.nbytes)
    return fit_head(network, objective, data, task.seeds, task.settings, settings, end)


def _tensor(array: Array | None, device: str) -> Tensor | None:
    """An array as a tensor that shares its memory, where the device is the processor."""
    if array is None:
        return None
    if array.flags.writeable:
        return torch.from_numpy(array).to(device)
    with warnings.catch_warnings():
        # Memory of another process may be read only, and nothing is written to a table.
        warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)
        return torch.from_numpy(np.asarray(array)).to(device)


# The whole ensemble


@dataclass(frozen=True)
class TrainedEnsemble:
    """All members together, in the order of their numbers."""

    network: StackedMLP
    head: Head | None
    history: list[HistoryRow]
    epoch: int
    best_epoch: Tensor
    best_score: Tensor
    is_cut: bool


def joined(groups: Sequence[TrainedGroup]) -> TrainedEnsemble:
    """Groups as one ensemble."""
    numbers = [member for group in groups for member in group.members]
    order = sorted(range(len(numbers)), key=numbers.__getitem__)

    def together(parts: Sequence[Tensor]) -> Tensor:
        return torch.cat(list(parts))[order]

    heads = [group.head for group in groups if group.head is not None]
    history = [row for group in groups for row in group.history]
    return TrainedEnsemble(
        network=_joined_networks([group.network for group in groups], order),
        head=Head(*map(together, zip(*heads, strict=True))) if heads else None,
        history=sorted(history, key=lambda row: (row["epoch"], row["member"])),
        epoch=max(group.epoch for group in groups),
        best_epoch=together([group.best_epoch for group in groups]),
        best_score=together([group.best_score for group in groups]),
        is_cut=any(group.is_cut for group in groups),
    )


@torch.no_grad()
def _joined_networks(networks: Sequence[StackedMLP], order: Sequence[int]) -> StackedMLP:
    whole = copy.deepcopy(networks[0])
    parts = zip(*(_tensors(network) for network in networks), strict=True)
    for tensor, values in zip(_tensors(whole), parts, strict=True):
        tensor.data, tensor.grad = torch.cat([value.data for value in values])[order], None
    whole.members = len(order)
    seeds = [seed for network in networks for seed in network.seeds]
    whole.seeds = [seeds[place] for place in order]
    return whole


def _tensors(network: Stack) -> list[Tensor]:
    return [*network.parameters(), *network.buffers()]


def some_members(network: StackedMLP, members: Sequence[int]) -> StackedMLP:
    """A copy of a network with some of its members only."""
    part = copy.deepcopy(network)
    part.keep_members(torch.tensor(members))
    part.seeds = [network.seeds[member] for member in members]
    return part


def checkpoint_of(groups: Sequence[TrainedGroup], members: Sequence[int]) -> Checkpoint:
    """From the checkpoints of groups that wait, that of some of their members, numbered anew."""
    places = {m: (group, i) for group in groups for i, m in enumerate(group.members)}
    found = [(*_checkpoint(places[m][0]), places[m][1]) for m in members]
    state, first, _ = found[0]
    shared = [name for name in first if not name.startswith("generator")]
    tensors = {
        # Counts of steps have no members.
        name: torch.stack([t[name][i] for _, t, i in found]) if first[name].ndim else first[name]
        for name in shared
    }
    tensors |= {f"generator.{new}": t[f"generator.{i}"] for new, (_, t, i) in enumerate(found)}
    history = [
        row | {"member": new}
        for new, (one, _, i) in enumerate(found)
        for row in one["history"]
        if row["member"] == i
    ]
    return state | {"history": history, "running": list(range(len(members)))}, tensors


def _checkpoint(group: TrainedGroup) -> Checkpoint:
    assert group.checkpoint is not None
    return group.checkpoint
