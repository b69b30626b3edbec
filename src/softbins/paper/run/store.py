"""One JSON file for each finished run: the file exists if and only if the run is done.

Beside the records stand the weights that other runs start from. What only matters while training
(checkpoints, locks, progress) is in a folder of its own and may be deleted at any time.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from softbins._files import write_whole
from softbins._text import finite
from softbins.paper.run.plan import Run

Record = dict[str, Any]
RECORD_FORMAT = 1


class Store:
    """The records under a folder, in a folder for each dataset."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        # The workers of a cluster may have been started in another folder.
        self.folder = Path(folder).absolute()

    def path(self, run: Run) -> Path:
        """Where the record of a run is or will be."""
        return self.folder / run.dataset / f"{run.identity}.json"

    def weights(self, run: Run) -> Path:
        """Where the weights of a run are or will be."""
        return self._made(self.folder / run.dataset / "weights") / f"{run.identity}.safetensors"

    def work(self, name: str) -> Path:
        """A file that is only needed while something is running."""
        return self._made(self.folder / "running") / name

    def has(self, run: Run) -> bool:
        """Whether the run is finished."""
        return self.path(run).exists()

    def read(self, run: Run) -> Record | None:
        """The record of a run, or None if it is not finished."""
        try:
            text = self.path(run).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        return _parsed(text, self.path(run), run)

    def write(self, run: Run, record: Record) -> None:
        """Keep a finished run. Numbers that are not finite become null."""
        whole = {"format": RECORD_FORMAT, "run": run.to_json()} | finite(record)
        text = json.dumps(whole, indent=1, allow_nan=False) + "\n"
        self._made(self.path(run).parent)
        write_whole(self.path(run), text.encode())

    @contextmanager
    def lock(self, name: str, wait: bool) -> Iterator[bool]:
        """Keep others away from some work; False if they are at it and `wait` is not set.

        The system lets go of the lock when its process ends, however it ends.
        """
        with self.work(f"{name}.lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
                return
            yield True

    def is_locked(self, name: str) -> bool:
        """Whether somebody is at this work."""
        with self.lock(name, wait=False) as free:
            return not free

    def progress(self) -> list[dict[str, Any]]:
        """What workers have last said about what they are doing."""
        found = []
        for path in sorted((self.folder / "running").glob("*.progress")):
            with suppress(OSError, ValueError):  # just finished, or half a file of a full disk
                found.append(json.loads(path.read_text()))
        return found

    def _made(self, folder: Path) -> Path:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = f"cannot make the folder ({error.strerror}); choose another --store"
            raise OSError(error.errno, reason, str(folder)) from error
        return folder


def _parsed(text: str, path: Path, run: Run) -> Record:
    """The record, if it is one of this run."""
    try:
        record: Record = json.loads(text)
        matches = record["format"] == RECORD_FORMAT and record["run"] == run.to_json()
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: not a record of a run; remove it and run again") from error
    if not matches:
        raise ValueError(f"{path}: a record of another run or format; remove it and run again")
    return record
