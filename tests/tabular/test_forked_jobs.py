"""Tasks in forked processes: what they see, tell and hear, and what is left if they fail."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import warnings

import joblib
import numpy as np
import pytest
import torch

from softbins.nn.stopping import Stop
from softbins.tabular.jobs import may_fork, run_tasks

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux")
PATIENCE = 30.0


def run(function, tasks, **more):
    return run_tasks(function, (), tasks, n_jobs=2, **more)


def wait_until(is_true):
    """Whether it became true while somebody was patient."""
    end = time.perf_counter() + PATIENCE
    while not is_true() and time.perf_counter() < end:
        time.sleep(0.01)
    return is_true()


def test_results_come_in_the_order_of_the_tasks():
    def square(task, progress, stop):
        time.sleep(0.05 if task == 0 else 0.0)
        return os.getpid(), torch.full((3,), float(task)) ** 2

    processes, squares = zip(*run(square, range(5)), strict=True)
    assert [each[0].item() for each in squares] == [0, 1, 4, 9, 16]
    assert os.getpid() not in processes
    assert len(set(processes)) <= 2


def test_no_table_is_copied_or_pickled():
    class Table(np.ndarray):
        def __reduce__(self):
            raise AssertionError("a forked process sees it anyway")

    table = np.arange(10.0).view(Table)
    found = run_tasks(lambda x, task, *_: float(x[task]), (table,), range(3), n_jobs=2)
    assert found == [0.0, 1.0, 2.0]


def test_progress_is_told_where_one_waits():
    calls = []

    def show(*call):
        assert threading.current_thread() is threading.main_thread()
        calls.append((os.getpid(), *call))

    def tell(task, progress, stop):
        for epoch in range(1, 51):
            progress(epoch, 50, 0.1 * epoch, {"task": task})

    run(tell, range(2), progress=[show, show])
    for task in range(2):
        told = [call for call in calls if call[-1] == {"task": task}]
        assert [call[:3] for call in told] == [(os.getpid(), epoch, 50) for epoch in range(1, 51)]


def fail_or_wait(task, progress, stop):
    if task == "fail":
        raise ZeroDivisionError("a bug")
    if task == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if task == "ask":
        stop.ask()
    return wait_until(lambda: stop.asked)


def test_a_failure_is_raised_and_the_others_stop():
    stop = Stop()
    with pytest.raises(ZeroDivisionError, match="a bug"):
        run(fail_or_wait, ["wait", "fail", "wait"], stop=stop)
    assert stop.asked
    assert not multiprocessing.active_children()


def test_a_killed_process_is_a_clear_error():
    with pytest.raises(
        ChildProcessError, match=r"^n_jobs: one of the processes was killed, .*jobs$"
    ):
        run(fail_or_wait, ["wait", "die"])
    assert not multiprocessing.active_children()


def test_a_stop_is_heard_by_all():
    stop = Stop()
    assert run(fail_or_wait, ["wait", "ask"], stop=stop) == [True, True]
    assert stop.asked


def test_who_waits_can_ask_for_the_stop():
    stop = Stop()

    def wait(task, progress, stop):
        progress(1, 2, 0.0, {})
        return wait_until(lambda: stop.asked)

    assert run(wait, range(2), stop=stop, progress=[lambda *_: stop.ask()] * 2) == [True, True]


def test_time_is_up_for_tasks_that_had_to_wait_as_well():
    stop = Stop(max_seconds=0.2)
    assert run(lambda task, progress, stop: wait_until(lambda: stop.reached), range(4), stop=stop)
    assert stop.reached


def test_an_error_while_it_is_told_ends_everything():
    def tell(task, progress, stop):
        while not stop.asked:
            progress(1, 2, 0.0, {"long": [0.0] * 200})

    def fail(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tell, range(2), progress=[fail, fail])
    assert not multiprocessing.active_children()


THREADS = DeprecationWarning("This process (pid=1) is multi-threaded, use of fork() may lead to")
JAX = RuntimeWarning("os.fork() was called. os.fork() is incompatible with multithreaded code")


@pytest.mark.parametrize("warning", [THREADS, JAX])
def test_what_python_and_jax_say_of_forks_is_not_repeated(warning, monkeypatch):
    fork = os.fork

    def warn_and_fork():
        warnings.warn(warning, stacklevel=2)
        return fork()

    monkeypatch.setattr(os, "fork", warn_and_fork)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(run(process, range(2))) == 2


def process(task, progress, stop):
    return os.getpid()


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_single_task_or_job_stays_here(jobs):
    assert run_tasks(process, (), range(3 - jobs), n_jobs=jobs) == [os.getpid()] * (3 - jobs)


def test_threads_can_be_asked_for():
    assert may_fork()
    with joblib.parallel_config(backend="threading"):
        assert not may_fork()
        assert run(process, range(2)) == [os.getpid()] * 2
    assert run(process, range(2), forks=False) == [os.getpid()] * 2


def test_only_the_main_thread_forks():
    found = []
    thread = threading.Thread(target=lambda: found.extend(run(process, range(2))))
    thread.start()
    thread.join()
    assert found == [os.getpid()] * 2


def test_a_worker_of_multiprocessing_does_not_fork():
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(may_fork) is False


LONELY = """
import os, time
from softbins.tabular.jobs import run_tasks

def wait(task, progress, stop):
    os.write(1, f"{os.getpid()}\\n".encode())  # at once, beside the other one
    time.sleep(60)

run_tasks(wait, (), range(2), n_jobs=2)
"""


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_nobody_survives_a_killed_parent():
    with subprocess.Popen([sys.executable, "-c", LONELY], stdout=subprocess.PIPE) as parent:
        children = [int(parent.stdout.readline()) for _ in range(2)]
        assert all(map(is_running, children))
        parent.kill()
        assert wait_until(lambda: not any(map(is_running, children)))
