"""How much memory is left: of the machine, of the container, and of what the process may take.

And how memory that was freed is given back.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

GIGABYTE = 1e9
LARGE_TABLE = 2**26  # bytes of features beyond which memory is given back


def available_memory() -> float:
    """Bytes that this process can still take before it is killed or the machine swaps.

    Infinity where the system does not tell.
    """
    return min([math.inf, *_of_machine(), *_of_process(), *_of_container()])


def release_freed_memory(table_bytes: int) -> None:
    """Give memory that was freed back to the system, if a table of that size makes it worth it.

    The C library of Linux, and PyArrow everywhere, keep what was freed for later arrays, which
    seldom fit in its place: a fit to 1.6 million rows took 450 MB more for that.
    """
    if table_bytes <= LARGE_TABLE:
        return
    if "pyarrow" in sys.modules:
        sys.modules["pyarrow"].default_memory_pool().release_unused()
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another C library than GNU's
            ctypes.CDLL("libc.so.6").malloc_trim(0)


def gigabytes(size: float) -> str:
    """A number of bytes as text, such as "1.5 GB"."""
    return f"{size / GIGABYTE:.2g} GB" if size < 100 * GIGABYTE else f"{size / GIGABYTE:.0f} GB"


def _of_machine() -> Iterator[float]:
    with suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
        yield 1024.0 * int(found[0])
        return
    with suppress(OSError, ValueError, AttributeError):  # other systems tell only what is built in
        yield float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def _of_process() -> Iterator[float]:
    """What limits of the process (`ulimit -v` and `ulimit -d`) leave to it."""
    with suppress(ImportError, OSError, ValueError, IndexError):
        import resource

        pages = [int(word) for word in Path("/proc/self/statm").read_text().split()]
        for limit, used in ((resource.RLIMIT_AS, pages[0]), (resource.RLIMIT_DATA, pages[5])):
            most = resource.getrlimit(limit)[0]
            if most != resource.RLIM_INFINITY:
                yield float(most - used * resource.getpagesize())


def _of_container(cgroups: str = "/proc/self/cgroup", root: str = "/sys/fs/cgroup") -> list[float]:
    """What the control groups of the process leave to it; files in memory caches do not count."""
    found: list[float] = []
    with suppress(OSError):
        for line in Path(cgroups).read_text().splitlines():
            _, kinds, group = line.split(":", 2)
            if kinds in ("", "memory"):
                own = Path(root, kinds, group.lstrip("/"))
                folders = [own, *own.parents]
                for folder in folders[: folders.index(Path(root, kinds)) + 1]:
                    found += _of_group(folder)
    return found


def _of_group(folder: Path) -> list[float]:
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        with suppress(OSError, ValueError):
            most = int((folder / limit).read_text())  # "max" if there is no limit
            stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
            return [float(most - int((folder / used).read_text()) + int(stat["inactive_file"]))]
    return []
