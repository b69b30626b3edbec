"""The one training loop: a stack of members, mini-batches, early stopping, checkpoints.

It knows no losses and no datasets, only an `Objective` and tensors. Members may differ in seed,
in training rows, and in the parameters of the objective.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from softbins.nn.adam import Adam
from softbins.nn.batches import (
    EVALUATION_CHUNK,
    epoch_batches,
    evaluation_chunks,
    steps_of_epoch,
)
from softbins.nn.muon import Muon
from softbins.nn.objectives import Objective
from softbins.nn.random import member_generator
from softbins.nn.settings import Progress, Settings
from softbins.nn.stack import Stack
from softbins.nn.standardize import moments
from softbins.nn.stopping import Stop

HistoryRow = dict[str, float | int]
Value = TypeVar("Value")
Network = TypeVar("Network", bound=Stack)


@dataclass(frozen=True)
class MemberData:
    """A table as tensors, and which of its rows each member of a stack sees.

    `x` (n, features) and `y` (n,) are all rows, `weight` (n,) says how much each of them counts.
    `rows[v]` are the indices of member v's training rows, `validation[v]` those of the rows that
    judge it. Members need the same number of batches in an epoch. `targets` (n, outputs) are all
    targets as the objective's gradient takes them, if somebody has computed them before.
    """

    x: Tensor
    y: Tensor
    rows: Sequence[Tensor]
    validation: Sequence[Tensor] | None = None
    weight: Tensor | None = None
    targets: Tensor | None = None


class Trainer(Generic[Network]):
    """Trains a stack on each member's rows of the data.

    `seeds` has one number for each member, which decides in what order it sees its rows. The
    inputs are standardized with the mean and deviation of each member's rows, unless the network
    has learnt its standardization before (`standardize=False`). `run` trains to the end, or until
    `stop` is reached, and may be called again after `resume`.
    """

    def __init__(
        self,
        network: Network,
        objective: Objective,
        data: MemberData,
        settings: Settings,
        seeds: Sequence[int],
        *,
        standardize: bool = True,
        stop: Stop | None = None,
    ) -> None:
        self.network, self.objective, self.settings = network, objective, settings
        self.stop = Stop() if stop is None else stop
        self.data, self.seeds = data, list(seeds)
        self.x, self.y, self.weight = data.x, data.y, data.weight
        self.rows, self.validation = data.rows, data.validation
        self._check()
        self.generators = [member_generator(seed, "training") for seed in seeds]
        self.steps = steps_of_epoch(
            max(map(len, self.rows)), settings.batch_size, settings.max_rows_per_epoch
        )
        self.parameters = [p for p in network.parameters() if p.requires_grad]
        self.precomputed = data.targets
        if self.precomputed is None:
            most = settings.max_precomputed_numbers
            self.precomputed = precomputed_targets(objective, self.y, most)
        self.optimizer = self._optimizer()
        # Members that have stopped leave the stack; all are back in it when the training ends.
        self.running = list(range(network.members))
        self.objective_of_running = objective
        self.whole = [(t, t.data) for t in (*network.parameters(), *network.buffers())]
        self.epoch, self.seconds, self._cut_an_epoch = 0, 0.0, False
        self.history: list[HistoryRow] = []
        self.best = [p.detach().clone() for p in self.parameters]
        self.best_score = torch.full((network.members,), math.inf, dtype=torch.float64)
        # At the end of the last cycle but one, and of the last one.
        self.cycle_errors = self.best_score.expand(2, -1).clone()
        self.best_epoch = torch.zeros(network.members, dtype=torch.int64)
        if standardize:
            network.standardize(*moments(self.x, self.rows, self.weight))

    def _optimizer(self) -> Adam:
        settings = self.settings
        adam = {
            "beta_2": settings.beta_2,
            "epsilon": settings.adam_epsilon,
            "weight_decay": settings.weight_decay,
        }
        if settings.muon is None:
            return Adam(self.parameters, settings.learning_rate, **adam)
        matrices = self.network.hidden_weights()
        return Muon(self.parameters, matrices, settings.learning_rate, settings.muon, **adam)

    def _check(self) -> None:
        members, batch = self.network.members, self.settings.batch_size
        if not (len(self.rows) == len(self.seeds) == members):
            raise ValueError(
                f"rows, seeds: need one for each of {members} members, "
                f"got {len(self.rows)} and {len(self.seeds)}"
            )
        steps = {math.ceil(len(rows) / batch) for rows in self.rows}
        if len(steps) > 1 or 0 in steps:
            raise ValueError(
                f"rows: members of a stack need the same number of batches, got {sorted(steps)}; "
                "train the others in a stack of their own"
            )
        if self.settings.patience is not None and self.validation is None:
            raise ValueError("patience: early stopping needs validation rows, got none")

    # The loop

    def run(self, progress: Progress | None = None, until: int | None = None) -> None:
        """Train until the last epoch, the stop, or until every member has stopped.

        With `until`, no further than the end of that epoch: another call goes on from there.
        """
        before, start = self.seconds, time.perf_counter()
        last = self.settings.epochs if until is None else until
        while not self.finished and self.epoch < last:
            self._train_epoch()
            self.epoch += 1
            self.seconds = before + time.perf_counter() - start
            summary = self._record()
            self._keep_running(self._active().nonzero().flatten().tolist())
            if progress is not None:
                progress(self.epoch, self.settings.epochs, self.seconds, summary)
        if self.finished:
            self._restore()

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to train."""
        cut = self.epoch > 0 and self.stop.reached
        return self.epoch >= self.settings.epochs or cut or not self._active().any()

    @property
    def is_cut(self) -> bool:
        """Whether the stop has ended it, before the last epoch was over or all had stopped."""
        between = 0 < self.epoch < self.settings.epochs and bool(self._active().any())
        return self._cut_an_epoch or (between and self.stop.reached)

    def _active(self) -> Tensor:
        """The members that have not run out of patience, or that the last cycle has helped."""
        settings = self.settings
        if settings.patience is None:
            return torch.ones_like(self.best_epoch, dtype=torch.bool)
        if settings.cycles is None:
            return self.epoch - self.best_epoch < settings.patience
        before, after = self.cycle_errors.unbind()
        has_failed: Tensor = after > (1 - settings.cycles.min_gain) * before
        return ~has_failed

    def _cycle(self, epoch: int) -> tuple[int, int]:
        """Where the fall of the learning rate begins and ends that an epoch from 0 on is in."""
        epochs, cycles = self.settings.epochs, self.settings.cycles
        return (0, epochs) if cycles is None else cycles.bounds(epoch, epochs)

    @torch.no_grad()
    def _keep_running(self, running: list[int]) -> None:
        """Cut the stack down to some of its members; the last to stop stay to the end."""
        if not running or running == self.running:
            return
        index = torch.tensor([self.running.index(member) for member in running])
        self.network.keep_members(index)
        for state in self.optimizer.state.values():
            for name, moment in state.items():
                if moment.ndim:
                    state[name] = moment[index.to(moment.device)]
        self.running = running
        self.objective_of_running = self.objective.select_members(torch.tensor(running))

    def _train_epoch(self) -> None:
        self.network.train()
        for step, (index, weight) in enumerate(self._batches()):
            if self.stop.reached and (step > 0 or self.epoch > 0):
                self._cut_an_epoch = True
                return
            self._set_learning_rate(self.epoch * self.steps + step)
            self._step(index, weight)

    def _step(self, index: Tensor, weight: Tensor | None) -> None:
        objective, generators = self.objective_of_running, self._of_running(self.generators)
        self.optimizer.zero_grad()
        if self.precomputed is None:
            x, y = self._batch(index)
            noisy = self._noisy(y)  # drawn before the network's dropout
            objective.batch_loss(self.network(x, generators), noisy, weight).backward()
        else:
            flat = index.reshape(-1)
            x = self.x.index_select(0, flat).view(*index.shape, -1)
            outputs, pull = self.network.step(x, generators)
            targets = self.precomputed.index_select(0, flat).view_as(outputs)
            pull(objective.gradient(outputs, targets, weight))
        if objective.clipping is not None:
            self._clip(objective.clipping)
        self.optimizer.step()

    def _of_running(self, values: Sequence[Value]) -> list[Value]:
        return [values[member] for member in self.running]

    def _batch(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs (V, rows, features) and targets (V, rows); index_select is the fast way."""
        flat = index.reshape(-1)
        x = self.x.index_select(0, flat).view(*index.shape, -1)
        return x, self.y.index_select(0, flat).view(index.shape)

    def _batches(self) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Row numbers (V, batch) of every step, and weights where rows do not count the same.

        Members with fewer rows fill their last batch with rows of weight 0.
        """
        chosen, generators = self._of_running(self.rows), self._of_running(self.generators)
        batch, shuffled = self.settings.batch_size, self.settings.shuffled_rows
        most = self.settings.max_rows_per_epoch
        for number, index in enumerate(epoch_batches(chosen, generators, batch, shuffled, most)):
            yield index.to(self.x.device), self._weights(index, number * batch)

    def _weights(self, index: Tensor, start: int) -> Tensor | None:
        chosen = self._of_running(self.rows)
        if self.weight is None and start + index.shape[1] <= min(map(len, chosen)):
            return None
        sizes = torch.tensor([len(rows) - start for rows in chosen]).clamp(max=index.shape[1])
        real = torch.arange(index.shape[1]) < sizes.unsqueeze(-1)
        weights = (real / sizes.unsqueeze(-1)).to(self.y)
        if self.weight is not None:
            means = torch.stack([self.weight[rows].mean() for rows in chosen])
            weights = weights * self.weight[index] / means.unsqueeze(-1)
        return weights

    def _noisy(self, y: Tensor) -> Tensor:
        noise = self.objective_of_running.target_noise
        if isinstance(noise, float) and noise == 0:
            return y
        draws = [torch.randn(y.shape[1], generator=g) for g in self._of_running(self.generators)]
        return y + noise * torch.stack(draws).to(y)

    def _clip(self, threshold: float | Tensor) -> None:
        """Scale each member's gradient to at most the threshold, as one vector over all layers."""
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        # In float64, so that the norm's last digit does not depend on the rest of the stack.
        squares = [g.flatten(1).double().square().sum(1) for g in gradients]
        norm = torch.stack(squares).sum(0).sqrt()
        limit = threshold.view(-1) if isinstance(threshold, Tensor) else threshold
        factor = (limit / (norm + 1e-12)).clamp(max=1.0)
        for gradient in gradients:
            gradient.mul_(factor.to(gradient).view(-1, *(1,) * (gradient.ndim - 1)))

    def _set_learning_rate(self, step: int) -> None:
        """Set the learning rate of a step: with the schedule "cosine" it falls to nothing.

        Where time is limited, it does so within the time, however few the steps.
        The first steps are smaller: where nothing is known of the gradients yet, large ones may
        spoil a network for good.
        """
        settings = self.settings
        if settings.schedule == "cosine":
            start, end = (self.steps * epoch for epoch in self._cycle(step // self.steps))
            place = max(min(1, (step - start) / (end - start)), self.stop.share_gone)
            falling = (1 + math.cos(math.pi * place)) / 2
            first = self.steps * self._cycle(0)[1]
            rising = min(1, (step + 1) / (settings.warm_up * first))
            self.optimizer.rate = settings.learning_rate * falling * rising

    # Judging

    def _record(self) -> dict[str, float]:
        """Add this epoch to the history, keep the best weights, and return a short summary."""
        results: dict[str, Tensor] = {}
        for part in self.settings.evaluate:
            rows = self.rows if part == "train" else self.validation
            if rows is not None:
                scores = self.evaluate(self._of_running(rows))
                results |= {f"{part}_{name}": value for name, value in scores.items()}
        if self.settings.gradient_norm:
            results["gradient_norm"] = self.gradient_norm()
        for place, member in enumerate(self.running):
            values = {name: value[place].item() for name, value in results.items()}
            self.history.append({"member": member, "epoch": self.epoch} | values)
        if self.settings.patience is not None:
            self._keep_best(results)
        return {name: value.mean().item() for name, value in results.items()}

    @torch.no_grad()
    def _keep_best(self, results: dict[str, Tensor]) -> None:
        if "validation_mae" in results:
            scores = {name.removeprefix("validation_"): value for name, value in results.items()}
        else:
            assert self.validation is not None
            scores = self.evaluate(self._of_running(self.validation))
        score, running = scores[self.settings.monitor], torch.tensor(self.running)
        better = score < self.best_score[running]
        self.best_score[running[better]] = score[better]
        self.best_epoch[running[better]] = self.epoch
        for kept, parameter in zip(self.best, self.parameters, strict=True):
            kept[running[better]] = parameter[better]
        if self.epoch == self._cycle(self.epoch - 1)[1]:
            self.cycle_errors[0] = self.cycle_errors[1]
            self.cycle_errors[1, running] = scores["mae"]

    @torch.no_grad()
    def _restore(self) -> None:
        """All members again, each with its best weights."""
        if self.settings.patience is None:
            return
        for tensor, whole in self.whole:
            tensor.data = whole
        for kept, parameter in zip(self.best, self.parameters, strict=True):
            parameter.copy_(kept)
        self.running = list(range(len(self.rows)))
        self.network.members, self.objective_of_running = len(self.rows), self.objective

    @torch.no_grad()
    def evaluate(self, rows: Sequence[Tensor]) -> dict[str, Tensor]:
        """Weighted mean objective, MAE and RMSE of each member on its rows, without dropout."""
        self.network.eval()
        objective = self.objective_of_running
        sums = torch.zeros(4, self.network.members, dtype=torch.float64)
        for index, real in evaluation_chunks(rows):
            index, real = index.to(self.x.device), real.to(self.x.device)
            x, y = self._batch(index)
            outputs = self.network(x)
            # Targets are float64 where float32 would blur them, and means as well.
            error = (objective.decode(outputs.to(y)) - y).double()
            losses = objective.losses(outputs, y).double()
            weight = torch.ones_like(error) if self.weight is None else self.weight[index].double()
            parts = torch.stack([losses, error.abs(), error.square(), torch.ones_like(error)])
            sums += torch.where(real, parts * weight, 0.0).sum(-1).cpu()
        loss, mae, mse = sums[:3] / sums[3]
        return {"objective": loss, "mae": mae, "rmse": mse.sqrt()}

    def gradient_norm(self) -> Tensor:
        """Norm of the gradient of the mean training loss in the last layer's parameters."""
        self.network.eval()
        last = self.network.last_layer()
        total = [torch.zeros_like(p) for p in last]
        chosen = self._of_running(self.rows)
        sizes = torch.tensor([len(rows) for rows in chosen]).unsqueeze(-1)
        for index, real in evaluation_chunks(chosen):
            x, y = self._batch(index.to(self.x.device))
            loss = self.objective_of_running.batch_loss(self.network(x), y, (real / sizes).to(y))
            for sum_, part in zip(total, torch.autograd.grad(loss, last), strict=True):
                sum_ += part
        return torch.stack([t.flatten(1).square().sum(1) for t in total]).sum(0).sqrt()

    # Checkpoints

    def checkpoint(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Everything that `resume` needs, as plain data and tensors."""
        tensors = {f"parameter.{i}": p.detach().clone() for i, p in enumerate(self.parameters)}
        tensors |= {f"best.{i}": p.clone() for i, p in enumerate(self.best)}
        for i, parameter in enumerate(self.parameters):
            for name, value in self.optimizer.state[parameter].items():
                tensors[f"adam.{i}.{name}"] = value.clone()
        for i, generator in enumerate(self.generators):
            tensors[f"generator.{i}"] = generator.get_state()
        tensors |= {"best_score": self.best_score.clone(), "best_epoch": self.best_epoch.clone()}
        if self.settings.cycles is not None:
            tensors["cycle_errors"] = self.cycle_errors.T.clone()
        state = {"epoch": self.epoch, "seconds": self.seconds, "history": list(self.history)}
        return state | {"running": list(self.running)}, tensors

    @torch.no_grad()
    def resume(self, state: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Go on where `checkpoint` was taken, by a trainer made with the same arguments."""
        self._keep_running(state["running"])
        for i, parameter in enumerate(self.parameters):
            parameter.copy_(tensors[f"parameter.{i}"])
            self.best[i].copy_(tensors[f"best.{i}"])
            for name, value in self.optimizer.state[parameter].items():
                value.copy_(tensors[f"adam.{i}.{name}"])
        for i, generator in enumerate(self.generators):
            generator.set_state(tensors[f"generator.{i}"])
        self.best_score.copy_(tensors["best_score"])
        self.best_epoch.copy_(tensors["best_epoch"])
        if self.settings.cycles is not None:
            self.cycle_errors = tensors["cycle_errors"].T.clone()
        self.epoch, self.seconds = state["epoch"], state["seconds"]
        self.history = list(state["history"])


def precomputed_targets(objective: Objective, y: Tensor, most: int) -> Tensor | None:
    """Each target as its gradient takes it, unless these would be more than `most` numbers."""
    if len(y) * objective.outputs > most:
        return None
    first = objective.precompute_targets(y[:1])
    if first is None:
        return None
    # Written to their place, because a list of parts that is joined takes twice the memory.
    found = first.new_empty(len(y), *first.shape[1:])
    for start in range(0, len(y), EVALUATION_CHUNK):
        part = objective.precompute_targets(y[start : start + EVALUATION_CHUNK])
        assert part is not None
        found[start : start + EVALUATION_CHUNK] = part
    return found
