"""Worker processes: what they return and raise, and what is said when one is killed."""

import os
import signal
from dataclasses import dataclass

import pytest

from softbins.paper.run.pool import Pool


@dataclass(frozen=True)
class Power:
    """A job that returns a square, and its process."""

    base: int

    def __call__(self):
        if self.base < 0:
            raise ValueError(f"base: need a number above 0, got {self.base}")
        return self.base**2, os.getpid()


@dataclass(frozen=True)
class Death:
    """A job during which its process is killed, or ends by itself without a signal."""

    number: int | None

    def __call__(self):
        if self.number is None:
            os._exit(3)
        os.kill(os.getpid(), self.number)

    def __str__(self):
        return "bike l2"


def test_jobs_are_shared_by_processes_that_serve_again_until_one_raises():
    with Pool(2) as pool:
        first, second = list(pool.run(list(map(Power, range(5))))), list(pool.run([Power(9)]))
        assert sorted(value for value, _ in first) == [0, 1, 4, 9, 16]
        processes = {process for _, process in first}
        assert second[0][0] == 81
        assert second[0][1] in processes
        assert os.getpid() not in processes
        with pytest.raises(ValueError, match="need a number above 0, got -1") as caught:
            list(pool.run([Power(-1)]))
        assert "in __call__" in caught.value.__notes__[0], "where it was raised"
    assert not any(os.path.exists(f"/proc/{process}") for process in processes)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (signal.SIGKILL, "was killed (signal 9); if memory was short, use fewer --workers; "),
        (signal.SIGTERM, "was killed (signal 15); repeat the command"),
        (None, "ended with exit code 3; repeat the command"),
    ],
    ids=["kill", "term", "exit"],
)
def test_a_worker_that_is_killed_is_reported_as_that(number, words):
    with Pool(1) as pool, pytest.raises(ChildProcessError) as caught:
        list(pool.run([Death(number)]))
    assert str(caught.value).startswith(f"the worker that trained bike l2 {words}")
    assert str(caught.value).endswith("repeat the command to go on from the last checkpoint")


def test_a_worker_that_is_killed_while_it_has_nothing_to_do_is_noticed():
    with Pool(1) as pool:
        ((_, process),) = pool.run([Power(2)])
        os.kill(process, signal.SIGKILL)
        with pytest.raises(ChildProcessError, match="signal 9"):
            list(pool.run([Power(3)]))
