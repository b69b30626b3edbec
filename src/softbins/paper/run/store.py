"""The store of finished runs: one JSON file for each, which exists only if the run is finished.

A record is written under another name and then renamed, so that it is there as a whole or not at
all. Beside the records stand the weights that other runs start from. Files that only matter while
something is training (checkpoints, locks, progress) are in the folder `running` and may be deleted
at any time.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from softbins._core.files import write_whole
from softbins._core.text import finite
from softbins.paper.run.plan import Run

Record = dict[str, Any]
RECORD_FORMAT = 1


class Store:
    """The records in a folder, with a folder for each dataset inside."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        # The path is absolute because workers of a cluster may have been started elsewhere.
        self.folder = Path(folder).absolute()

    def record_path(self, run: Run) -> Path:
        """Where the record of a run is, or will be."""
        return self.folder / run.dataset / f"{run.identity}.json"

    def weights_path(self, run: Run) -> Path:
        """Where the weights of a run are, or will be; makes the folder."""
        folder = _make_folder(self.folder / run.dataset / "weights")
        return folder / f"{run.identity}.safetensors"

    def running_path(self, name: str) -> Path:
        """Where a file is that is only needed while something is training; makes the folder."""
        return _make_folder(self.folder / "running") / name

    def has(self, run: Run) -> bool:
        """Whether a run is finished."""
        return self.record_path(run).exists()

    def read(self, run: Run) -> Record | None:
        """Read the record of a run; None if the run is not finished."""
        path = self.record_path(run)
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        return _parse_record(text, path, run)

    def write(self, run: Run, record: Record) -> None:
        """Write the record of a finished run. Numbers that are not finite become null."""
        whole = {"format": RECORD_FORMAT, "run": run.to_json()} | finite(record)
        text = json.dumps(whole, indent=1, allow_nan=False) + "\n"
        path = self.record_path(run)
        _make_folder(path.parent)
        write_whole(path, text.encode())

    @contextmanager
    def lock(self, name: str, wait: bool) -> Iterator[bool]:
        """Hold the lock of that name; False if another process holds it and `wait` is not set.

        The system releases the lock when its process ends, however it ends.
        """
        with self.running_path(f"{name}.lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
                return
            yield True

    def is_locked(self, name: str) -> bool:
        """Whether some process holds the lock of that name."""
        with self.lock(name, wait=False) as is_free:
            return not is_free

    def read_progress(self) -> list[dict[str, Any]]:
        """Read the last reports of all workers on the stacks that they are training."""
        reports = []
        for path in sorted((self.folder / "running").glob("*.progress")):
            # A stack may finish at this moment, and a full disk may leave half a file.
            with suppress(OSError, ValueError):
                reports.append(json.loads(path.read_text()))
        return reports


def _make_folder(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"cannot make the folder ({error.strerror}); choose another --store"
        raise OSError(error.errno, reason, str(folder)) from error
    return folder


def _parse_record(text: str, path: Path, run: Run) -> Record:
    """The record, if it belongs to this run and this format."""
    try:
        record: Record = json.loads(text)
        matches = record["format"] == RECORD_FORMAT and record["run"] == run.to_json()
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: not a record of a run; remove it and run again") from error
    if not matches:
        raise ValueError(f"{path}: a record of another run or format; remove it and run again")
    return record
