"""What the files of a store have to hold: records, reports of progress, checkpoints and weights.

Each check raises a `ValueError` that says what is wrong, and nothing reads a value before.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from softbins._core.json_rules import Fields, ListOf, Number, OneOf, Optional, Rule, Text, Whole
from softbins.paper.run.plan import Run

# Raised when the files change. Files of another format are set aside and made again.
FILE_FORMAT = 2
ERROR_NAMES = ("objective", "mae", "rmse")
BEST_OUTPUT = "test_mae_of_best_output"

# None where a run diverged. Squares of the largest number still are numbers.
_SCORE = Optional(Number(-1e100, 1e100))
_ANY_NUMBER = Optional(Number(-sys.float_info.max, sys.float_info.max))
_SECONDS = Number(0, 1e12)
_HEAD: Mapping[str, Rule] = {"format": Whole()}

PROGRESS = Fields(
    {
        **_HEAD,
        "stack": Text(),
        "runs": Whole(1),
        "title": Text(),
        "epoch": Whole(),
        "epochs": Whole(1),
        "seconds": _SECONDS,
        "mae": _SCORE,
    }
)


def check_record(content: Mapping[str, Any], run: Run) -> None:
    """Raise unless it is the record of this run."""
    _check_format(content)
    _check_runs(content.get("run"), run.to_json())
    record_rule(run).check("record", content)


def record_rule(run: Run) -> Fields:
    """The fields of a run's record: its scores, and the history of all epochs of a curve."""
    required: dict[str, Rule] = {
        **_HEAD,
        "run": OneOf((run.to_json(),)),
        "scores": _score_rule(run),
        "seconds": _SECONDS,
        "made_with": Fields({}, others=Text()),
    }
    if run.curves:
        required["history"] = _history_rule(run.epochs)
    return Fields(required, optional={"epoch": Whole(0, run.epochs), "steps": Whole()})


def check_progress(content: Mapping[str, Any], stack: str) -> None:
    """Raise unless it is a report on the stack of this name."""
    _check_format(content)
    PROGRESS.check("progress", content)
    if content["stack"] != stack:
        raise ValueError("it is about another stack")
    if content["epoch"] > content["epochs"]:
        raise ValueError("progress.epoch: need at most progress.epochs")


def check_checkpoint(header: Mapping[str, Any], runs: Sequence[Run]) -> None:
    """Raise unless it is the header of a checkpoint of these runs."""
    _check_format(header)
    described = [run.to_json() for run in runs]
    _check_runs(header.get("runs"), described)
    members, epochs = Whole(0, len(runs) - 1), runs[0].epochs
    row = Fields({"member": members, "epoch": Whole(1, epochs)}, others=_ANY_NUMBER)
    required = {
        **_HEAD,
        "runs": OneOf((described,)),
        "epoch": Whole(0, epochs),
        "seconds": _SECONDS,
        "history": ListOf(row),
        "running": ListOf(members, 1),
    }
    Fields(required).check("checkpoint", header)
    if sorted(set(header["running"])) != header["running"]:
        raise ValueError("checkpoint.running: need members in rising order")
    _check_history(header)


def _check_history(header: Mapping[str, Any]) -> None:
    """Members go on together: each of those still running has all epochs so far."""
    found: dict[int, list[int]] = {member: [] for member in header["running"]}
    for row in header["history"]:
        found.setdefault(row["member"], []).append(row["epoch"])
    whole = list(range(1, header["epoch"] + 1))
    if any(found[member] != whole for member in header["running"]):
        raise ValueError("checkpoint.history: need a row for each epoch, in their order")


def check_weights(header: Mapping[str, Any], run: Run) -> None:
    """Raise unless it is the header of the weights of this run."""
    _check_format(header)
    _check_runs(header.get("run"), run.to_json())
    Fields({**_HEAD, "run": OneOf((run.to_json(),))}).check("weights", header)


def _score_rule(run: Run) -> Fields:
    parts = ("train", "test", "validation") if run.held_out else ("train", "test")
    required: dict[str, Rule] = {f"{part}_{name}": _SCORE for part in parts for name in ERROR_NAMES}
    if run.method == "l2-many":
        required[BEST_OUTPUT] = _SCORE
    return Fields(required, optional={f"validation_{name}": _SCORE for name in ERROR_NAMES})


def _history_rule(epochs: int) -> Fields:
    names = [f"{part}_{name}" for part in ("train", "test") for name in ERROR_NAMES]
    columns: dict[str, Rule] = {
        name: ListOf(_SCORE, epochs, epochs) for name in (*names, "gradient_norm")
    }
    return Fields({"epoch": OneOf((list(range(1, epochs + 1)),)), **columns})


def _check_format(content: Mapping[str, Any]) -> None:
    found = content.get("format")
    if type(found) is not int or found != FILE_FORMAT:
        raise ValueError(f"it is of another format (need {FILE_FORMAT}, got {str(found)[:20]})")


def _check_runs(found: Any, wanted: Any) -> None:
    # As text, because True is not 1, and 1.0 is not 1.
    if json.dumps(found, sort_keys=True) != json.dumps(wanted, sort_keys=True):
        raise ValueError("it is of another run, or of another version of it")
