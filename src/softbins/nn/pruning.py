"""Fewer members that learn for longer, where that is the better use of the time.

Many members average noise out. Where there is no noise, the error of a network falls about as one
over its epochs, so that one network errs less than two that have learnt for half as long. After a
quarter of the epochs it shows which case it is: without noise the error on held-out rows falls
fast, and is no larger than on a member's own rows. Then two members go on, in the time of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from softbins.nn.settings import Progress, PruningRule, Settings
from softbins.nn.trainer import MemberData, Network, Trainer


def train_and_prune(
    trainer: Trainer[Network],
    rule: PruningRule,
    pair: Sequence[int],
    progress: Progress | None = None,
) -> Trainer[Network]:
    """Run a trainer whose members have validation rows, and return the one that ran to the end.

    That is the trainer itself, or a new one for the two members of `pair`, which are left of the
    network if the rule decides for it. Members of the pair should be judged by the same rows.
    """
    trainer.run(progress, until=max(2, round(rule.decide_after * trainer.settings.epochs)))
    if not trainer.finished:
        if len(pair) < len(trainer.rows) and _learns_without_noise(trainer, rule):
            trainer = _pruned(trainer, rule, pair)
        trainer.run(progress)
    return trainer


def _learns_without_noise(trainer: Trainer[Any], rule: PruningRule) -> bool:
    """Whether the error on held-out rows falls fast, and is no larger than on own rows."""
    if len(trainer.running) < len(trainer.rows):  # some members have stopped
        return False
    now, before = (_held_out_mae(trainer, epoch) for epoch in (trainer.epoch, trainer.epoch // 2))
    own = trainer.evaluate(trainer.rows)["mae"].mean().item()
    # Errors that are not numbers fail both comparisons, so that nothing is pruned.
    return now <= rule.max_gap * own and now <= rule.max_remaining * before


def _held_out_mae(trainer: Trainer[Any], epoch: int) -> float:
    errors = [row["validation_mae"] for row in trainer.history if row["epoch"] == epoch]
    return sum(errors) / len(errors)


def _pruned(trainer: Trainer[Network], rule: PruningRule, pair: Sequence[int]) -> Trainer[Network]:
    """A trainer that goes on with the pair, where this one was, in the time of all members."""
    assert trainer.validation is not None
    state, tensors = trainer.checkpoint()
    trainer.network.keep_members(torch.tensor(pair))
    data = MemberData(
        x=trainer.x,
        y=trainer.y,
        rows=[trainer.rows[member] for member in pair],
        validation=[trainer.validation[member] for member in pair],
        weight=trainer.weight,
    )
    settings = _prolonged(trainer, rule.speedup * len(trainer.rows) / len(pair))
    seeds = [trainer.seeds[member] for member in pair]
    pruned = Trainer(trainer.network, trainer.objective, data, settings, seeds, standardize=False)
    pruned.resume(_state_of(state, pair), _tensors_of(tensors, pair))
    return pruned


def _prolonged(trainer: Trainer[Any], factor: float) -> Settings:
    settings, done = trainer.settings, trainer.epoch
    patience = None if settings.patience is None else round(factor * settings.patience)
    epochs = done + round(factor * (settings.epochs - done))
    return replace(settings, epochs=epochs, patience=patience)


def _state_of(state: dict[str, Any], pair: Sequence[int]) -> dict[str, Any]:
    """The part of a checkpoint that is about the pair, whose members are numbered anew."""
    number = {member: new for new, member in enumerate(pair)}
    rows = [row for row in state["history"] if row["member"] in number]
    history = [row | {"member": number[row["member"]]} for row in rows]
    return state | {"history": history, "running": list(number.values())}


def _tensors_of(tensors: dict[str, Tensor], pair: Sequence[int]) -> dict[str, Tensor]:
    generators = {f"generator.{i}": tensors[f"generator.{m}"] for i, m in enumerate(pair)}
    others = {name: value for name, value in tensors.items() if not name.startswith("generator")}
    # Counts of steps have no members.
    return generators | {name: t[list(pair)] if t.ndim else t for name, t in others.items()}
