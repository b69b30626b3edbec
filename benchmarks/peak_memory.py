"""The peak of a process's memory while something runs, above what it held before (Linux)."""

from __future__ import annotations

from pathlib import Path


class PeakMemory:
    """Watches from when it is made: `megabytes()` is the peak since then, above the start."""

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
        self.start = status("VmRSS")

    def megabytes(self) -> int:
        """Rounded, and nothing that was freed meanwhile is subtracted."""
        return round(status("VmHWM") - self.start)


def status(what: str) -> float:
    """A line of this process's status, such as VmRSS (now) or VmHWM (the peak so far), in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1.024e-3 * next(int(line.split()[1]) for line in lines if line.startswith(what))
