"""How much memory is left, with the limits that a process and a container have."""

import resource
import subprocess
import sys

import pytest

from softbins._core.memory import (
    LARGE_TABLE,
    _of_container,
    available_memory,
    gigabytes,
)


def test_what_is_left_is_something_but_not_more_than_the_machine_has():
    assert 0 < available_memory() < 2**50


@pytest.mark.parametrize("limit", ["RLIMIT_AS", "RLIMIT_DATA"])
def test_a_limit_of_the_process_counts(limit):
    code = "import resource\nfrom softbins._core.memory import available_memory\n"
    code += f"resource.setrlimit(resource.{limit}, (400_000_000,) * 2)\nprint(available_memory())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0 < float(done.stdout) < 400_000_000
    assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("line", "files"),
    [
        ("0::/a/b", {"a/memory.max": "1000", "a/memory.current": "400", "a/b/memory.max": "max"}),
        (
            "4:memory:/a",
            {"memory/a/memory.limit_in_bytes": "1000", "memory/a/memory.usage_in_bytes": "400"},
        ),
    ],
)
def test_the_limit_of_a_container_counts_without_its_file_caches(tmp_path, line, files):
    (tmp_path / "cgroup").write_text(f"1:cpu:/a\n{line}\n")
    for name, text in files.items():
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        (path.parent / "memory.stat").write_text("anon 300\ninactive_file 100\n")
    assert _of_container(str(tmp_path / "cgroup"), str(tmp_path / "root")) == [700.0]


def test_without_containers_nothing_limits(tmp_path):
    assert _of_container(str(tmp_path / "none"), str(tmp_path)) == []


def test_sizes_as_text():
    assert gigabytes(1.5e9) == "1.5 GB"
    assert gigabytes(12_345e9) == "12345 GB"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems give memory back by themselves")
def test_freed_memory_goes_back_to_the_system():
    """Small arrays come from one heap, whose end an array that is still used holds in place."""
    code = f"""
from pathlib import Path
from softbins._core.memory import release_freed_memory

def megabytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6

freed, kept = [], []
for _ in range(2000):
    freed.append(bytearray(100_000))
    kept.append(bytearray(1_000))
freed.clear()
before = megabytes()
release_freed_memory({LARGE_TABLE})
assert megabytes() > before - 10, "a table that is not large is not worth the time"
release_freed_memory({LARGE_TABLE + 1})
assert megabytes() < before - 150, (before, megabytes())
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
