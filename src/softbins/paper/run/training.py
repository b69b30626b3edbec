"""Train one stack of runs and keep their records: what a worker does.

A stack is made of all runs that differ in their seed only, whether or not some are finished,
because a member's last digits depend on what it is stacked with: so a resumed stack gives the same
records as one that was never interrupted.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LinearRegression
from torch import Tensor

import softbins
from softbins import _model_file as storage
from softbins.nn.objectives import L2Many, Objective, make_objective
from softbins.nn.stack import StackedMLP
from softbins.nn.trainer import Settings, Trainer
from softbins.paper.data.datasets import Dataset, load_dataset, original_name
from softbins.paper.data.splits import Split, split_rows
from softbins.paper.run.plan import REPRESENTATION_METHODS, TRAINING_SETTINGS, Run
from softbins.paper.run.store import Record, Store

CHECKPOINT_SECONDS = 20.0
PROGRESS_SECONDS = 2.0
PROGRESS_TEST_ROWS = 1000  # test rows that the display's error comes from where no other is at hand
ERROR_NAMES = ("objective", "mae", "rmse")


def train_stack(
    runs: Sequence[Run], store: Store, data: Path | None = None, wait: bool = True
) -> bool:
    """Train the runs and write their records; False if somebody else is at it."""
    torch.set_num_threads(1)
    with store.lock(stack_name(runs), wait) as mine:
        if not mine:
            return False
        if not is_finished(runs, store):
            if runs[0].method == "linear":
                _linear(runs, store, load_dataset(runs[0].dataset, data))
            else:
                StackTraining(runs, store, load_dataset(runs[0].dataset, data)).run()
        _forget(store, stack_name(runs))
    return True


def is_finished(runs: Sequence[Run], store: Store) -> bool:
    """Whether the records, and the weights that others need, are all there."""
    return all(
        store.has(run) and (not lends_layers(run) or store.weights(run).exists()) for run in runs
    )


def lends_layers(run: Run) -> bool:
    """Whether other runs start from this one's hidden layers (Table 2)."""
    usual = run.representation == "default" and not run.curves and not run.parameters
    return usual and run.split == "random" and run.method in REPRESENTATION_METHODS


def stack_name(runs: Sequence[Run]) -> str:
    """A name for the work: that of the first run, and how many there are."""
    return f"{runs[0].identity}-{len(runs)}"


def _forget(store: Store, name: str) -> None:
    for kind in ("checkpoint", "progress"):
        store.work(f"{name}.{kind}").unlink(missing_ok=True)


def _linear(runs: Sequence[Run], store: Store, dataset: Dataset) -> None:
    """Ordinary least squares on the raw targets; its objective is the mean squared error."""
    for run in runs:
        start, rows = time.perf_counter(), split_rows(dataset, run.split, run.seed, run.rows)
        train = _training_rows(run, rows)
        model = LinearRegression().fit(dataset.X[train], dataset.y[train])
        scores: dict[str, float] = {}
        for part, chosen in (
            ("train", train),
            ("validation", rows.validation),
            ("test", rows.test),
        ):
            error = model.predict(dataset.X[chosen]) - dataset.y[chosen]
            mse = float(np.square(error).mean())
            values = (mse, float(np.abs(error).mean()), mse**0.5)
            scores |= {f"{part}_{name}": v for name, v in zip(ERROR_NAMES, values, strict=True)}
        seconds = time.perf_counter() - start
        store.write(run, {"scores": scores, "seconds": seconds, "made_with": _made_with()})


def _training_rows(run: Run, rows: Split) -> Any:
    return rows.train if run.held_out else rows.training


class StackTraining:
    """The training of one stack."""

    def __init__(self, runs: Sequence[Run], store: Store, dataset: Dataset) -> None:
        self.runs, self.store, self.name = list(runs), store, stack_name(runs)
        self.run_ = runs[0]  # what they have in common
        self.splits = [split_rows(dataset, r.split, r.seed, r.rows) for r in runs]
        self.objective = objective(self.run_, dataset)
        self.trainer = self._trainer(dataset)
        self.reported = self.saved = time.monotonic()

    def _trainer(self, dataset: Dataset) -> Trainer:
        run = self.run_
        settings = Settings(
            epochs=run.epochs,
            patience=run.patience,
            monitor="mae",
            evaluate=_evaluated(run),
            gradient_norm=run.curves,
        )
        return Trainer(
            self._network(dataset.X.shape[1]),
            self.objective,
            _inputs(dataset),
            torch.from_numpy(dataset.y.astype(np.float32)),
            [torch.from_numpy(_training_rows(run, rows)) for rows in self.splits],
            [r.seed for r in self.runs],
            settings,
            # The validation rows say when to stop; curves show the test rows.
            self._rows("test" if run.curves else "validation"),
        )

    def _network(self, features: int) -> StackedMLP:
        """New networks, with their hidden layers as Table 2 has them."""
        run, seeds = self.run_, [r.seed for r in self.runs]
        network = StackedMLP(features, run.hidden, self.objective.outputs, seeds, run.dropout)
        sources = [source for source in (r.source() for r in self.runs) if source is not None]
        if sources:
            network.copy_hidden(_lent(network, [self.store.weights(s) for s in sources]))
        if run.representation in ("fixed", "random"):
            network.freeze_hidden()
        return network

    def _rows(self, part: str) -> list[Tensor]:
        return [torch.from_numpy(getattr(rows, part)) for rows in self.splits]

    def run(self) -> None:
        """Train from the last checkpoint to the end, and write the records."""
        checkpoint = self.store.work(f"{self.name}.checkpoint")
        # A damaged checkpoint is none: a later one takes its place.
        with suppress(FileNotFoundError, storage.ModelFileError):
            self.trainer.resume(*storage.read(checkpoint))
        self.trainer.run(self._progress)
        self._checkpoint()
        self._keep()

    def _progress(
        self, epoch: int, _epochs: int, seconds: float, summary: dict[str, float]
    ) -> None:
        now = time.monotonic()
        if now - self.reported >= PROGRESS_SECONDS:
            self.reported = now
            self._report(epoch, seconds, summary.get("validation_mae") or self._glance())
        if now - self.saved >= CHECKPOINT_SECONDS:
            self._checkpoint()
            self.saved = time.monotonic()

    def _glance(self) -> float:
        rows = [rows[:PROGRESS_TEST_ROWS] for rows in self._rows("test")]
        return float(self.trainer.evaluate(rows)["mae"].mean())

    def _report(self, epoch: int, seconds: float, mae: float) -> None:
        run = self.run_
        said = {
            "stack": self.name,
            "runs": len(self.runs),
            "title": describe_run(run),
            "epoch": epoch,
            "epochs": run.epochs,
            "seconds": seconds,
            "mae": mae,
        }
        path = self.store.work(f"{self.name}.progress")
        temporary = path.with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps(said))
        temporary.replace(path)

    def _checkpoint(self) -> None:
        state, tensors = self.trainer.checkpoint()
        storage.write(self.store.work(f"{self.name}.checkpoint"), state, tensors)

    # Records

    def _keep(self) -> None:
        records = self._records()
        for member, (run, record) in enumerate(zip(self.runs, records, strict=True)):
            if lends_layers(run) and not self.store.weights(run).exists():
                state = self.trainer.network.state_dict()
                weights = {name: value[member] for name, value in state.items()}
                storage.write(self.store.weights(run), {"run": run.to_json()}, weights)
            if not self.store.has(run):
                self.store.write(run, record)

    def _records(self) -> list[Record]:
        parts = {"train": self.trainer.rows, "test": self._rows("test")}
        if self.run_.held_out:
            parts["validation"] = self._rows("validation")
        scores: dict[str, list[float]] = {}
        for part, rows in parts.items():
            for name, values in self.trainer.evaluate(rows).items():
                scores[f"{part}_{name}"] = values.tolist()
        scores |= self._best_outputs(parts["test"])
        return [self._record(member, scores) for member in range(len(self.runs))]

    def _best_outputs(self, rows: list[Tensor]) -> dict[str, list[float]]:
        """The footnote's best of the 100 outputs, chosen on the test rows."""
        if not isinstance(self.objective, L2Many):
            return {}
        return {"test_mae_of_best_output": best_output_mae(self.trainer, self.objective, rows)}

    def _record(self, member: int, scores: dict[str, list[float]]) -> Record:
        trainer, history = self.trainer, None
        rows = [row for row in trainer.history if row["member"] == member]
        if self.run_.curves:
            history = _columns(rows)
        stopped = int(trainer.best_epoch[member]) if self.run_.patience else trainer.epoch
        record = {
            "scores": {name: values[member] for name, values in scores.items()},
            "epoch": stopped,
            "steps": trainer.epoch * trainer.steps,
            "seconds": trainer.seconds / len(self.runs),
            "made_with": _made_with(),
        }
        return record if history is None else record | {"history": history}


def objective(run: Run, dataset: Dataset) -> Objective:
    """What the outputs of a run mean."""
    parameters: dict[str, Any] = dict(run.parameters)
    return make_objective(run.method, dataset.low, dataset.high, **parameters)


def describe_run(run: Run) -> str:
    """A run in a few words, without its seed."""
    words = [run.dataset, run.method, *(f"{name}={value:g}" for name, value in run.parameters)]
    words += (
        []
        if run.hidden == TRAINING_SETTINGS[original_name(run.dataset)].hidden
        else [_shape(run.hidden)]
    )
    words += [] if run.representation == "default" else [f"({run.representation})"]
    words += [] if run.split == "random" else [f"({run.split} split)"]
    return " ".join(word for word in [*words, "(curves)" if run.curves else ""] if word)


def _shape(hidden: Sequence[int]) -> str:
    return f"({len(hidden)} x {hidden[0]})" if hidden else ""


@torch.no_grad()
def best_output_mae(trainer: Trainer, many: L2Many, rows: Sequence[Tensor]) -> list[float]:
    """The smallest mean absolute error that any single output has, for each member."""
    trainer.network.eval()
    best = []
    for member, chosen in enumerate(rows):
        sums = torch.zeros(many.count, dtype=torch.float64)
        for part in chosen.split(4096):
            inputs = trainer.x[part].expand(trainer.network.members, -1, -1)
            each = many.decode_each(trainer.network(inputs)[member])
            sums += (each - trainer.y[part].unsqueeze(-1)).abs().double().sum(0)
        best.append(float(sums.min()) / len(chosen))
    return best


def _evaluated(run: Run) -> Any:
    if run.curves:
        return ("train", "validation")
    return ("validation",) if run.patience is not None else ()


def _inputs(dataset: Dataset) -> Tensor:
    """Without their mean, which may be large beside their spread, before they become float32."""
    return torch.from_numpy((dataset.X - dataset.X.mean(0, dtype=np.float64)).astype(np.float32))


def _lent(network: StackedMLP, paths: Sequence[Path]) -> StackedMLP:
    """The networks that lend their hidden layers, as one stack."""
    members = [storage.read(path)[1] for path in paths]
    outputs = members[0][f"weights.{len(network.hidden)}"].shape[-1]
    source = StackedMLP(network.features, network.hidden, outputs, range(len(paths)))
    names = members[0]
    source.load_state_dict({name: torch.stack([m[name] for m in members]) for name in names})
    return source


def _columns(rows: Sequence[dict[str, float | int]]) -> dict[str, list[float]]:
    """A history by name; six digits are more than a curve shows."""
    names = {name: name.replace("validation", "test") for name in rows[0] if name != "member"}
    return {new: [float(f"{row[name]:.6g}") for row in rows] for name, new in names.items()}


def _made_with() -> dict[str, str]:
    return {
        "softbins": softbins.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": f"{_processor()}, {os.cpu_count()} cores",
    }


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()
