"""The training of one stack of runs, from its lock to its records: what a worker does.

While it trains, a worker writes its progress, for those who watch, and checkpoints, from which it
goes on should it be interrupted. At the end it writes the records, and the weights that other runs
start from.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LinearRegression
from torch import Tensor

import softbins
from softbins.nn.objectives import L2Many, Objective, make_objective
from softbins.nn.settings import Part, Settings
from softbins.nn.stack import StackedMLP
from softbins.nn.trainer import MemberData, Trainer
from softbins.paper.data.datasets import Dataset, load_dataset
from softbins.paper.data.splits import RowIndex, Split, split_rows
from softbins.paper.run.file_rules import BEST_OUTPUT, ERROR_NAMES
from softbins.paper.run.healing import OnSetAside, heal_stack, set_aside
from softbins.paper.run.plan import Run
from softbins.paper.run.stacks import describe_run, is_finished, lends_layers, stack_name
from softbins.paper.run.store import Record, Store, make_folder
from softbins.paper.run.tensor_files import (
    read_checkpoint,
    read_weights,
    resume,
    write_checkpoint,
    write_weights,
)

CHECKPOINT_SECONDS = 20.0
PROGRESS_SECONDS = 2.0
# The progress shows the error on so many test rows where no validation error is known.
N_PROGRESS_TEST_ROWS = 1000
# Rows are evaluated in chunks of this many, which bounds the memory.
EVALUATION_CHUNK = 4096


def train_stack(
    runs: Sequence[Run],
    store: Store,
    data_folder: Path | None = None,
    wait: bool = True,
    on_set_aside: OnSetAside = lambda line: None,
) -> bool:
    """Train a stack of runs and write their records, unless they are finished.

    If another process is training the stack, wait for it, or return False if `wait` is not set.
    Damaged files are set aside and named to `on_set_aside`.
    """
    torch.set_num_threads(1)
    name = stack_name(runs)
    with store.lock(name, wait) as is_mine:
        if not is_mine:
            return False
        heal_stack(runs, store, on_set_aside)
        if not is_finished(runs, store):
            dataset = load_dataset(runs[0].dataset, data_folder)
            if runs[0].method == "linear":
                _fit_linear(runs, store, dataset)
            else:
                StackTraining(runs, store, dataset).run(on_set_aside)
        _remove_running_files(store, name)
    return True


def _remove_running_files(store: Store, name: str) -> None:
    for kind in ("checkpoint", "progress"):
        store.running_path(f"{name}.{kind}").unlink(missing_ok=True)


def _training_index(run: Run, split: Split) -> RowIndex:
    return split.train if run.held_out else split.train_and_validation


# Linear regression


def _fit_linear(runs: Sequence[Run], store: Store, dataset: Dataset) -> None:
    for run in runs:
        start = time.perf_counter()
        split = split_rows(dataset, run.split, run.seed, run.rows)
        train = _training_index(run, split)
        model = LinearRegression().fit(dataset.X[train], dataset.y[train])
        scores: dict[str, float] = {}
        parts = {"train": train, "validation": split.validation, "test": split.test}
        for part, index in parts.items():
            error = model.predict(dataset.X[index]) - dataset.y[index]
            scores |= {f"{part}_{name}": value for name, value in _error_means(error).items()}
        seconds = time.perf_counter() - start
        store.write(run, {"scores": scores, "seconds": seconds, "made_with": _made_with()})


def _error_means(error: NDArray[np.float64]) -> dict[str, float]:
    """The objective, which is the mean squared error of the raw targets, the MAE and the RMSE."""
    mse = float(np.square(error).mean())
    values = (mse, float(np.abs(error).mean()), mse**0.5)
    return dict(zip(ERROR_NAMES, values, strict=True))


# Networks


class StackTraining:
    """The training of one stack of networks, whose runs differ in their seed only."""

    def __init__(self, runs: Sequence[Run], store: Store, dataset: Dataset) -> None:
        self.runs, self.store, self.name = list(runs), store, stack_name(runs)
        # Stands for all runs, in what they have in common.
        self.first_run = runs[0]
        self.splits = [split_rows(dataset, r.split, r.seed, r.rows) for r in runs]
        self.objective = _make_objective(self.first_run, dataset)
        self.trainer = self._make_trainer(dataset)
        self.last_report = self.last_checkpoint = time.monotonic()

    def run(self, on_set_aside: OnSetAside = lambda line: None) -> None:
        """Train from the last checkpoint, if there is one, to the end, and write the records."""
        self._resume(on_set_aside)
        self.trainer.run(self._after_epoch)
        self._write_checkpoint()
        self._write_results()

    def _resume(self, on_set_aside: OnSetAside) -> None:
        """Go on from the last checkpoint; one that does not fit is set aside and counts as none."""
        path = self.store.running_path(f"{self.name}.checkpoint")
        try:
            found = read_checkpoint(path, self.runs)
            if found is not None:
                resume(self.trainer, *found)
        except ValueError as error:
            set_aside(self.store, path, str(error), on_set_aside)

    # Preparation

    def _make_trainer(self, dataset: Dataset) -> Trainer[StackedMLP]:
        run = self.first_run
        settings = Settings(
            epochs=run.epochs,
            patience=run.patience,
            monitor="mae",
            evaluate=_evaluated_parts(run),
            gradient_norm=run.curves,
        )
        data = MemberData(
            x=_centered_inputs(dataset),
            y=torch.from_numpy(dataset.y.astype(np.float32)),
            rows=[torch.from_numpy(_training_index(run, split)) for split in self.splits],
            # The validation rows say when to stop. Curves show the test rows instead.
            validation=self._index_tensors("test" if run.curves else "validation"),
        )
        network, seeds = self._make_network(dataset.X.shape[1]), [r.seed for r in self.runs]
        return Trainer(network, self.objective, data, settings, seeds)

    def _make_network(self, n_features: int) -> StackedMLP:
        """New networks, with the hidden layers that Table 2 prescribes."""
        run, seeds = self.first_run, [r.seed for r in self.runs]
        network = StackedMLP(n_features, run.hidden, self.objective.outputs, seeds, run.dropout)
        sources = [r.layer_source for r in self.runs if r.layer_source is not None]
        if sources:
            network.copy_hidden(_load_networks(sources, self.store, like=network))
        if run.representation in ("fixed", "random"):
            network.freeze_hidden()
        return network

    def _index_tensors(self, part: str) -> list[Tensor]:
        return [torch.from_numpy(getattr(split, part)) for split in self.splits]

    # While it trains

    def _after_epoch(
        self, epoch: int, _epochs: int, seconds: float, summary: dict[str, float]
    ) -> None:
        now = time.monotonic()
        if now - self.last_report >= PROGRESS_SECONDS:
            self.last_report = now
            mae = summary.get("validation_mae") or self._estimate_test_mae()
            self._write_progress(epoch, seconds, mae)
        if now - self.last_checkpoint >= CHECKPOINT_SECONDS:
            self._write_checkpoint()
            self.last_checkpoint = time.monotonic()

    def _estimate_test_mae(self) -> float:
        index = [index[:N_PROGRESS_TEST_ROWS] for index in self._index_tensors("test")]
        return float(self.trainer.evaluate(index)["mae"].mean())

    def _write_progress(self, epoch: int, seconds: float, mae: float) -> None:
        report = {
            "stack": self.name,
            "runs": len(self.runs),
            "title": describe_run(self.first_run),
            "epoch": epoch,
            "epochs": self.first_run.epochs,
            "seconds": seconds,
            "mae": mae,
        }
        self.store.write_progress(report)

    def _write_checkpoint(self) -> None:
        path = self.store.running_path(f"{self.name}.checkpoint")
        write_checkpoint(path, self.runs, self.trainer)

    # At the end

    def _write_results(self) -> None:
        """Write the weights and records that are missing."""
        scores = self._evaluate()
        for member, run in enumerate(self.runs):
            path = self.store.weights_path(run)
            if lends_layers(run) and not path.exists():
                make_folder(path.parent)
                state = self.trainer.network.state_dict()
                write_weights(path, run, {name: value[member] for name, value in state.items()})
            if not self.store.has(run):
                self.store.write(run, self._make_record(member, scores))

    def _evaluate(self) -> dict[str, list[float]]:
        """All scores by name, each with one value for every member."""
        parts = {"train": self.trainer.rows, "test": self._index_tensors("test")}
        if self.first_run.held_out:
            parts["validation"] = self._index_tensors("validation")
        scores: dict[str, list[float]] = {}
        for part, index in parts.items():
            for name, values in self.trainer.evaluate(index).items():
                scores[f"{part}_{name}"] = values.tolist()
        if isinstance(self.objective, L2Many):
            best = _best_output_mae(self.trainer, self.objective, parts["test"])
            scores[BEST_OUTPUT] = best
        return scores

    def _make_record(self, member: int, scores: Mapping[str, list[float]]) -> Record:
        trainer, run = self.trainer, self.first_run
        record: Record = {
            "scores": {name: values[member] for name, values in scores.items()},
            "epoch": int(trainer.best_epoch[member]) if run.patience else trainer.epoch,
            "steps": trainer.epoch * trainer.steps,
            "seconds": trainer.seconds / len(self.runs),
            "made_with": _made_with(),
        }
        if run.curves:
            epochs = [epoch for epoch in trainer.history if epoch["member"] == member]
            record["history"] = _history_columns(epochs)
        return record


def _make_objective(run: Run, dataset: Dataset) -> Objective:
    parameters: dict[str, Any] = dict(run.parameters)
    return make_objective(run.method, dataset.low, dataset.high, **parameters)


def _evaluated_parts(run: Run) -> tuple[Part, ...]:
    """The rows that are evaluated after every epoch."""
    if run.curves:
        return ("train", "validation")
    return ("validation",) if run.patience is not None else ()


def _centered_inputs(dataset: Dataset) -> Tensor:
    """The features as float32, after their mean is taken off.

    A mean that is large beside the spread would cost digits of the spread.
    """
    centered = dataset.X - dataset.X.mean(0, dtype=np.float64)
    return torch.from_numpy(centered.astype(np.float32))


def _load_networks(sources: Sequence[Run], store: Store, like: StackedMLP) -> StackedMLP:
    """Load networks with the features and hidden layers of another stack, as one stack."""
    members = [_load_weights(source, store) for source in sources]
    n_outputs = members[0][f"weights.{len(like.hidden)}"].shape[-1]
    stack = StackedMLP(like.features, like.hidden, n_outputs, range(len(members)))
    names = members[0]
    stack.load_state_dict({name: torch.stack([m[name] for m in members]) for name in names})
    return stack


def _load_weights(source: Run, store: Store) -> dict[str, Tensor]:
    path = store.weights_path(source)
    weights = read_weights(path, source)
    if weights is None:
        raise ValueError(f"{path}: was removed while it was needed; repeat the command")
    return weights


@torch.no_grad()
def _best_output_mae(
    trainer: Trainer[StackedMLP], many: L2Many, index: Sequence[Tensor]
) -> list[float]:
    """The smallest mean absolute error of any single output, for each member.

    The paper chooses the best of the 100 outputs on the test rows (a footnote of Section 4).
    """
    trainer.network.eval()
    best = []
    for member, rows_of_member in enumerate(index):
        sums = torch.zeros(many.count, dtype=torch.float64)
        for chunk in rows_of_member.split(EVALUATION_CHUNK):
            inputs = trainer.x[chunk].expand(trainer.network.members, -1, -1)
            predictions = many.decode_each(trainer.network(inputs)[member])
            sums += (predictions - trainer.y[chunk].unsqueeze(-1)).abs().double().sum(0)
        best.append(float(sums.min()) / len(rows_of_member))
    return best


def _history_columns(epochs: Sequence[Mapping[str, float | int]]) -> dict[str, list[float]]:
    """The history of one run as a list of values for each name.

    What the trainer calls validation rows are the test rows here. Six digits are more than a curve
    can show.
    """
    names = {name: name.replace("validation", "test") for name in epochs[0] if name != "member"}
    return {new: [float(f"{epoch[old]:.6g}") for epoch in epochs] for old, new in names.items()}


# What the runs were made with


def _made_with() -> dict[str, str]:
    return {
        "softbins": softbins.__version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "machine": f"{_processor_name()}, {os.cpu_count()} cores",
    }


def _processor_name() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()
