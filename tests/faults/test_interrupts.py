"""Ctrl-C at any moment, from the first import on: one line and exit code 130."""

import random
import signal
import subprocess
import sys
import time

import pytest

# What the console script runs, with a line that says when `main` has begun: before, Python is alone
# with Ctrl-C.
SCRIPT = """
import sys
from softbins import cli
catch = cli._catch_interrupts
cli._catch_interrupts = lambda: (catch(), print("begun", flush=True))
sys.exit(cli.main())
"""
ROWS = "a,b,y\n" + "".join(f"{i % 7},{i % 5},{i}\n" for i in range(200))
ENDLESS = ["fit", "table.csv", "--target", "y", "-o", "new.model", "--epochs", "1000000"]
LONGEST_DELAY = 6.0  # seconds, in which everything is imported and training has begun


def interrupted_after(delay, folder):
    """The exit code and what was said, of a process that was interrupted after some seconds."""
    command = [sys.executable, "-c", SCRIPT, *ENDLESS]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder
    ) as process:
        assert process.stdout.readline() == "begun\n"
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=60)
    return process.returncode, out, said


def check_delays(delays, folder):
    (folder / "table.csv").write_text(ROWS)
    for delay in delays:
        code, out, said = interrupted_after(delay, folder)
        assert (code, out) == (130, ""), f"after {delay} s: {said}"
        # Before training, a command says what it takes the columns for.
        *before, last = said.splitlines()
        assert last == "softbins: interrupted", f"after {delay} s: {said}"
        assert not before or before[0].startswith("column "), f"after {delay} s: {said}"
        assert "Traceback" not in said
    assert [path.name for path in folder.iterdir()] == ["table.csv"]


def random_delays(seed, count):
    """More early moments than late ones, because much is imported in the first half second."""
    generator = random.Random(seed)
    return [LONGEST_DELAY * generator.random() ** 3 for _ in range(count)]


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_an_interrupt_at_some_moments_is_one_line(tmp_path):
    check_delays([0.0, 0.01, *random_delays(seed=0, count=4)], tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_an_interrupt_at_many_moments_is_one_line(tmp_path):
    check_delays(random_delays(seed=1, count=60), tmp_path)
