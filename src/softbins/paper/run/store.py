"""The store of finished runs: one JSON file for each, which exists only if the run is finished.

A record is written under another name and then renamed, so that it is there as a whole or not at
all, and carries a digest, so that later damage is noticed. A damaged record counts as none: who
reads goes on without it, and `healing` sets it aside before its run is made again. Beside the
records stand the weights that other runs start from. Files that only matter while something is
training (checkpoints, locks, progress) are in the folder `running` and may be deleted at any time.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from softbins._core.files import write_whole
from softbins._core.text import finite
from softbins.paper.run.file_rules import FILE_FORMAT, check_progress, check_record
from softbins.paper.run.plan import Run
from softbins.paper.run.sealed_json import read_sealed, seal

Record = dict[str, Any]
PROGRESS_SUFFIX = ".progress"


class Store:
    """The records in a folder, with a folder for each dataset inside."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        # The path is absolute because workers of a cluster may have been started elsewhere.
        self.folder = Path(folder).absolute()
        self.running_folder = self.folder / "running"

    def record_path(self, run: Run) -> Path:
        """Where the record of a run is, or will be."""
        return self.folder / run.dataset / f"{run.identity}.json"

    def weights_path(self, run: Run) -> Path:
        """Where the weights of a run are, or will be."""
        return self.folder / run.dataset / "weights" / f"{run.identity}.safetensors"

    def running_path(self, name: str) -> Path:
        """Where a file is that is only needed while something is training; makes the folder."""
        return make_folder(self.running_folder) / name

    # Records

    def has(self, run: Run) -> bool:
        """Whether a run is finished and its record whole."""
        return self.read(run) is not None

    def read(self, run: Run) -> Record | None:
        """Read the record of a run; None if the run is not finished or its record is damaged."""
        return self._read_record(run)[0]

    def record_fault(self, run: Run) -> str:
        """What is wrong with the record of a run; empty if it is whole or not there."""
        return self._read_record(run)[1]

    def damaged_records(self, runs: Iterable[Run]) -> list[str]:
        """A line for each of the runs whose record is damaged, with its path and the reason."""
        faults = ((run, self.record_fault(run)) for run in dict.fromkeys(runs))
        return [f"{self.record_path(run)}: {fault}" for run, fault in faults if fault]

    def write(self, run: Run, record: Record) -> None:
        """Write the record of a finished run. Numbers that are not finite become null."""
        whole = {"format": FILE_FORMAT, "run": run.to_json()} | finite(record)
        check_record(whole, run)
        path = self.record_path(run)
        make_folder(path.parent)
        write_whole(path, seal(whole))

    def _read_record(self, run: Run) -> tuple[Record | None, str]:
        return read_sealed(self.record_path(run), lambda record: check_record(record, run))

    # Locks

    @contextmanager
    def lock(self, name: str, wait: bool) -> Iterator[bool]:
        """Hold the lock of that name; False if another process holds it and `wait` is not set.

        The system releases the lock when its process ends, however it ends.
        """
        path = self.running_path(f"{name}.lock")
        # Without waiting for a reader, should somebody have put a pipe there.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o666)
        try:
            yield _is_locked_by_us(descriptor, wait)
        finally:
            os.close(descriptor)

    def is_locked(self, name: str) -> bool:
        """Whether some process holds the lock of that name. Changes nothing in the store."""
        try:
            descriptor = os.open(self.running_folder / f"{name}.lock", os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            return False
        try:
            return not _is_locked_by_us(descriptor, wait=False)
        finally:
            os.close(descriptor)

    # Progress

    def write_progress(self, report: dict[str, Any]) -> None:
        """Write a worker's report on the stack that it is training."""
        content = {"format": FILE_FORMAT} | finite(report)
        check_progress(content, report["stack"])
        write_whole(self.running_path(report["stack"] + PROGRESS_SUFFIX), seal(content))

    def read_progress(self) -> list[dict[str, Any]]:
        """Read the last reports of all workers on the stacks that they are training."""
        paths = sorted(self.running_folder.glob(f"*{PROGRESS_SUFFIX}"))
        names = (path.name.removesuffix(PROGRESS_SUFFIX) for path in paths)
        reports = (self._read_report(name)[0] for name in names)
        return [report for report in reports if report is not None]

    def progress_fault(self, stack: str) -> str:
        """What is wrong with the report on a stack; empty if it is whole or not there."""
        return self._read_report(stack)[1]

    def _read_report(self, stack: str) -> tuple[dict[str, Any] | None, str]:
        path = self.running_folder / (stack + PROGRESS_SUFFIX)
        return read_sealed(path, lambda report: check_progress(report, stack))

    # Damage

    def set_aside(self, path: Path) -> Path | None:
        """Rename a damaged file to NAME.damaged, or NAME.damaged-2 and so on; returns the new path.

        None if it is no longer there, because another process was quicker.
        """
        for number in count(1):
            place = path.with_name(f"{path.name}.damaged" + (f"-{number}" if number > 1 else ""))
            if not os.path.lexists(place):
                break
        try:
            path.rename(place)
        except FileNotFoundError:
            return None
        except OSError as error:
            reason = f"cannot set the damaged file aside ({error.strerror}); move it yourself"
            raise OSError(error.errno, reason, str(path)) from error
        return place


def make_folder(folder: Path) -> Path:
    """Make a folder, with those that it is in, and return it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"cannot make the folder ({error.strerror}); choose another --store"
        raise OSError(error.errno, reason, str(folder)) from error
    return folder


def _is_locked_by_us(descriptor: int, wait: bool) -> bool:
    """Take the lock of an open file; False if another process has it and `wait` is not set."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True
