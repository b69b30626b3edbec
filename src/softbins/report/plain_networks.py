"""The paper's networks, and nothing else, with those of all folds trained as one stack."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softbins import scores
from softbins.nn.objectives import Objective
from softbins.nn.settings import Progress, Settings
from softbins.nn.stack import StackedMLP
from softbins.nn.trainer import MemberData, Trainer
from softbins.report.forecasts import COVERAGE, Forecast
from softbins.report.splits import Split
from softbins.tabular.device import one_thread
from softbins.tabular.scaling import Scaling

Array = NDArray[np.float64]

# The network of the paper's experiments (Section 4).
HIDDEN_SIZES = (64, 64, 64, 64)


@dataclass(frozen=True)
class PlainNetworks:
    """The networks of one method: what they learn from, and how.

    `inputs` (n, features) are those of all rows, `y` (n,) the targets.
    """

    inputs: Tensor
    y: Array
    objective: Objective
    epochs: int
    seed: int

    @classmethod
    def on(cls, x: Array, y: Array, objective: Objective, epochs: int, seed: int) -> PlainNetworks:
        """Networks for features (n, d)."""
        # In float64 first, because float32 would lose small differences of large numbers.
        inputs = Scaling.standard(x)(x)
        return cls(inputs, y, objective, epochs, seed)

    def forecasts(self, splits: Sequence[Split], progress: Progress | None) -> list[Forecast]:
        """What each fold's network predicts for its held-out rows."""
        found: dict[int, Forecast] = {}
        for folds in _folds_of_one_stack(splits, Settings().batch_size):
            start = time.process_time()
            # Several threads would burn ten times as much, waiting for each other.
            with one_thread():
                trainer = self._train([splits[fold] for fold in folds], folds, progress)
            seconds = (time.process_time() - start) / len(folds)
            for member, fold in enumerate(folds):
                history = [row for row in trainer.history if row["member"] == member]
                late = still_improving([row["validation_mae"] for row in history])
                found[fold] = self._forecast(trainer.network, member, splits[fold], seconds, late)
        return [found[fold] for fold in range(len(splits))]

    def _train(
        self, splits: Sequence[Split], folds: Sequence[int], progress: Progress | None
    ) -> Trainer[StackedMLP]:
        """The trainer of a network for each split; the number of its fold is its seed.

        The held-out rows are watched, and decide nothing.
        """
        seeds = [self.seed + fold for fold in folds]
        network = StackedMLP(self.inputs.shape[1], HIDDEN_SIZES, self.objective.outputs, seeds)
        data = MemberData(
            x=self.inputs,
            y=torch.from_numpy(self.y.astype(np.float32)),
            rows=[torch.from_numpy(split.train) for split in splits],
            validation=[torch.from_numpy(split.test) for split in splits],
        )
        trainer = Trainer(network, self.objective, data, Settings(epochs=self.epochs), seeds)
        trainer.run(progress)
        return trainer

    @torch.no_grad()
    def _forecast(
        self, network: StackedMLP, member: int, split: Split, seconds: float, late: bool
    ) -> Forecast:
        """What one member of a stack predicts for the rows of its fold."""
        network.eval()
        inputs = self.inputs[torch.from_numpy(split.test)].expand(network.members, -1, -1)
        outputs = network(inputs)[member]
        mean: Array = self.objective.decode(outputs).double().numpy()
        if not self.objective.has_distribution or not np.isfinite(mean).all():
            return Forecast(mean, seconds, undertrained=late)
        predicted = self.objective.distribution(outputs)
        return Forecast(
            mean=mean,
            seconds=seconds,
            crps=scores.crps(predicted, self.y[split.test]),
            interval=torch.stack(predicted.interval(COVERAGE), -1).double().numpy(),
            undertrained=late,
        )


def still_improving(errors: Sequence[float]) -> bool:
    """Whether the smallest error came in the last tenth of a training that nothing stopped."""
    last = max(1, math.ceil(len(errors) / 10))
    return bool(np.nanargmin([math.inf, *errors]) > len(errors) - last)


def _folds_of_one_stack(splits: Sequence[Split], batch_size: int) -> list[list[int]]:
    """Groups of folds with the same number of batches, which is usually one group of all folds."""
    groups: dict[int, list[int]] = {}
    for fold, split in enumerate(splits):
        groups.setdefault(math.ceil(len(split.train) / batch_size), []).append(fold)
    return list(groups.values())
