"""Fewer members that learn for longer, where that is the better use of the time.

Noise is what many members average out. Where there is none, a network's error falls about as one
over the epochs, and a network errs less than two that have learnt for half as long. A quarter of
the way shows which it is: the error on held-out rows falls fast, and is no larger than on a
member's own rows. Then two members go on, with the time of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from softbins.nn.trainer import Progress, Settings, Trainer

EARLY = 0.25  # of the epochs: what is seen then decides
MOST_GAP = 1.1  # of the error on held-out rows, as a multiple of that on own rows
MOST_LEFT = 0.75  # of the error on held-out rows after half as many epochs
QUICKER = 1.1  # times as fast a member of a smaller stack is


def train(trainer: Trainer, progress: Progress | None = None) -> Trainer:
    """Run a trainer whose members leave out rows, and return who ran in the end.

    That is the trainer itself, or one for two members of the same network.
    """
    trainer.run(progress, until=max(2, round(EARLY * trainer.settings.epochs)))
    if not trainer.finished:
        pair = _pair(trainer)
        if len(pair) < len(trainer.rows) and _still_learns(trainer):
            trainer = _narrowed(trainer, pair)
        trainer.run(progress)
    return trainer


def _pair(trainer: Trainer) -> Sequence[int]:
    """Two members that leave out the same rows, which judge what will predict: or all members."""
    assert trainer.validation is not None
    fold = trainer.validation[0]
    team = [member for member, own in enumerate(trainer.validation) if own is fold]
    return team[:2] if len(team) > 1 else range(len(trainer.rows))


def _still_learns(trainer: Trainer) -> bool:
    """Whether the error on held-out rows falls fast, and is no larger than on own rows."""
    if len(trainer.running) < len(trainer.rows):  # some have stopped
        return False
    now, before = (_held_out(trainer, epoch) for epoch in (trainer.epoch, trainer.epoch // 2))
    own = trainer.evaluate(trainer.rows)["mae"].mean().item()
    # Written so that errors which are not numbers change nothing.
    return now <= MOST_GAP * own and now <= MOST_LEFT * before


def _held_out(trainer: Trainer, epoch: int) -> float:
    errors = [row["validation_mae"] for row in trainer.history if row["epoch"] == epoch]
    return sum(errors) / len(errors)


def _narrowed(trainer: Trainer, pair: Sequence[int]) -> Trainer:
    """A trainer that goes on with the pair, where this one was, in the time of all."""
    state, tensors = trainer.checkpoint()
    settings = _longer(trainer, QUICKER * len(trainer.rows) / len(pair))
    trainer.network.keep_members(torch.tensor(pair))
    assert trainer.validation is not None
    rows, held_out = ([part[m] for m in pair] for part in (trainer.rows, trainer.validation))
    data = (trainer.x, trainer.y, rows, pair, settings, held_out, trainer.weight)
    narrowed = Trainer(trainer.network, trainer.objective, *data, standardise=False)
    narrowed.resume(_state_of(state, pair), _tensors_of(tensors, pair))
    return narrowed


def _longer(trainer: Trainer, times: float) -> Settings:
    settings, done = trainer.settings, trainer.epoch
    patience = None if settings.patience is None else round(times * settings.patience)
    epochs = done + round(times * (settings.epochs - done))
    return replace(settings, epochs=epochs, patience=patience)


def _state_of(state: dict[str, Any], pair: Sequence[int]) -> dict[str, Any]:
    """The part of a checkpoint that is about the pair, whose members are numbered anew."""
    place = {member: i for i, member in enumerate(pair)}
    rows = [row for row in state["history"] if row["member"] in place]
    history = [row | {"member": place[row["member"]]} for row in rows]
    return state | {"history": history, "running": list(place.values())}


def _tensors_of(tensors: dict[str, Tensor], pair: Sequence[int]) -> dict[str, Tensor]:
    generators = {f"generator.{i}": tensors[f"generator.{m}"] for i, m in enumerate(pair)}
    others = {name: value for name, value in tensors.items() if not name.startswith("generator")}
    # Counts of steps have no members.
    return generators | {name: t[list(pair)] if t.ndim else t for name, t in others.items()}
