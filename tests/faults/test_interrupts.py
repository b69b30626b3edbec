"""Ctrl-C at any moment, from the first import on: one line and exit code 130.

Once networks are trained, the first Ctrl-C makes a model of what they have reached.
"""

import random
import signal
import subprocess
import sys
import time

import pytest

from softbins.nn.stopping import Stop
from softbins.tabular.interrupts import interruptible

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
        assert "Traceback" not in said
        # Before training, a command says what it takes the columns for.
        assert not said.startswith("softbins: warning"), f"after {delay} s: {said}"
        names = sorted(path.name for path in folder.iterdir())
        if code == 0:
            assert "softbins: warning: interrupted: networks learnt for " in said
            assert names == ["new.model", "table.csv"]
            (folder / "new.model").unlink()
        else:
            assert (code, out) == (130, ""), f"after {delay} s: {said}"
            assert said.splitlines()[-1] == "softbins: interrupted", f"after {delay} s: {said}"
            assert names == ["table.csv"]


def random_delays(seed, count):
    """More early moments than late ones, because much is imported in the first half second."""
    generator = random.Random(seed)
    return [LONGEST_DELAY * generator.random() ** 3 for _ in range(count)]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_an_interrupt_at_some_moments_is_one_line(tmp_path):
    check_delays([0.0, 0.01, *random_delays(seed=0, count=4)], tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_an_interrupt_at_many_moments_is_one_line(tmp_path):
    check_delays(random_delays(seed=1, count=60), tmp_path)


@pytest.mark.usefixtures("as_in_a_terminal")
def test_a_second_interrupt_ends_it():
    stop = Stop()
    with interruptible(stop, "keep"):
        signal.raise_signal(signal.SIGINT)
        assert stop.asked
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


@pytest.mark.usefixtures("as_in_a_terminal")
def test_elsewhere_an_interrupt_is_what_it_was():
    before = signal.getsignal(signal.SIGINT)
    stop = Stop()
    with interruptible(stop, "keep"):
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(KeyboardInterrupt), interruptible(stop, "raise"):
        signal.raise_signal(signal.SIGINT)
    assert not stop.asked
    with pytest.raises(ValueError, match="^on_interrupt: expected 'raise' or 'keep', got 'ask'"):
        interruptible(stop, "ask").__enter__()
