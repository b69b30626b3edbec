"""Networks beyond the memory or the time are refused before anything is taken, in one line."""

import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from softbins import HistogramRegressor, NeuralRegressor
from softbins.nn.stack import StackedMLP
from softbins.tabular import memory
from softbins.tabular.memory import NetworkSize
from tests.cli.runs import run
from tests.forked import in_a_fork

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(40, 3))
Y = X[:, 0] + GENERATOR.normal(size=40)
ESTIMATORS = {
    "histogram": lambda **how: HistogramRegressor(random_state=0, trees=False, **how).fit,
    "tune": lambda **how: HistogramRegressor(random_state=0, trees=False, **how).tune,
    "l2": lambda **how: NeuralRegressor("l2", random_state=0, **how).fit,
    "hl-gaussian": lambda **how: NeuralRegressor(random_state=0, **how).fit,
    "mdn": lambda **how: NeuralRegressor("mdn", random_state=0, **how).fit,
}


def too_large(seed):
    """Sizes of layers that need terabytes, in few wide layers or in many."""
    generator = np.random.default_rng(seed)
    widest = int(10 ** generator.uniform(9, 12))
    layers = [int(10 ** generator.uniform(0, 3)) for _ in range(generator.integers(0, 3))]
    layers.insert(generator.integers(len(layers) + 1), widest)
    return tuple(layers)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_what_exceeds_the_memory_is_refused(name):
    for seed in range(20):
        hidden = too_large(seed)
        units = ", ".join(map(str, hidden))
        message = rf"^hidden: .*\({units}\) units .* need about \d+ GB of memory.*use fewer hidden"
        with pytest.raises(ValueError, match=message):
            ESTIMATORS[name](hidden=hidden)(X, Y)


@pytest.mark.parametrize("name", ["histogram", "hl-gaussian"])
def test_bins_that_exceed_the_memory_are_refused(name):
    with pytest.raises(ValueError, match="10000000.* outputs would need about .* of memory"):
        ESTIMATORS[name](hidden=(8,), bins=10**11)(X, Y)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_step_beyond_the_time_is_refused(name, monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: np.inf)
    with pytest.raises(ValueError, match="^hidden: .* seconds for a step, but max_seconds is 5; "):
        ESTIMATORS[name](hidden=(10**6, 10**6), max_seconds=5)(X, Y)


def test_a_container_is_as_small_as_it_is(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 1e6)
    with pytest.raises(ValueError, match=r"about .* of memory to train, but 0\.001 GB are left"):
        NeuralRegressor("l2", (10_000,)).fit(X, Y)


@pytest.mark.parametrize("seed", range(5))
def test_the_number_of_parameters_is_that_of_the_network(seed):
    generator = np.random.default_rng(seed)
    members, inputs, outputs = generator.integers(1, 6, 3).tolist()
    hidden = (16 * generator.integers(1, 5, generator.integers(1, 4))).tolist()
    network = StackedMLP(inputs, hidden, outputs, range(members))
    size = NetworkSize(members, inputs, hidden, outputs, rows=10, batch_size=5)
    assert size.parameters == sum(p.numel() for p in network.parameters())


# Two processes that have imported everything, and have had nothing else in memory.
MEMORY = """
import os, re, numpy as np
from pathlib import Path
from softbins import NeuralRegressor
from softbins.tabular import memory
x = np.random.default_rng(0).normal(size=(300, 4))
def peak(objective, hidden):
    NeuralRegressor(objective, hidden, max_epochs=1, random_state=0).fit(x, x[:, 0])
    # Not getrusage, which begins with the peak of the process that started this one.
    status = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1])
for objective in ("l2", "hl-gaussian"):
    if os.fork() == 0:
        first, last = peak(objective, (8,)), peak(objective, (60_000,))
        memory.available_memory = lambda: 0
        try:
            NeuralRegressor(objective, (60_000,)).fit(x, x[:, 0])
        except ValueError as error:
            print(str(error).partition("about ")[2].split()[0], (last - first) / 1e9, flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the peak from /proc")
def test_training_takes_no_more_memory_than_was_estimated():
    """In processes of their own, whose memory beyond that of a tiny network is measured."""
    command = [sys.executable, "-c", MEMORY]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    for line in lines:
        estimated, taken = map(float, line.split())
        assert 0.3 * estimated < taken < estimated


def test_the_command_says_it_in_one_line(folder):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    where = ["fit", "data.csv", "--target", "y", "-o", "new.model", "--max-seconds", "5"]
    for more in (["--hidden", "10000000"], ["--hidden", "9000000000", "--objective", "l2"]):
        result = run(*where, *more)
        assert (result.exit_code, result.stdout) == (2, "")
        # Below what each column was taken for.
        assert result.stderr.splitlines()[-1].startswith("softbins: hidden: ")
        assert result.stderr.count("softbins: ") == 1
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def refused_where_little_is_left():
    """What is said of a large network where the process may take one more gigabyte."""
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + 10**9,) * 2)
    try:
        NeuralRegressor("l2", (10_000_000,)).fit(X, Y)
    except ValueError as error:
        return str(error)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads its size from /proc")
def test_a_limit_of_the_process_is_kept():
    assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY
    said = in_a_fork(refused_where_little_is_left)
    assert said.startswith("hidden: a network with 3 inputs, layers of (10000000) units")
