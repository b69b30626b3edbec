"""Models that a Dask or Ray cluster has trained are the same as those of this machine."""

import os
import signal
import subprocess
import sys
import threading

import joblib
import numpy as np
import pytest

from softbins import HistogramRegressor
from softbins.nn import groups
from softbins.tabular.cluster import clear_errors
from tests.cli.runs import run

SMALL = {"hidden": (8,), "random_state": 0, "members": 8, "max_epochs": 3}


def table(rows=300):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(rows, 3))
    return x, x[:, 0] * x[:, 1] + 0.1 * generator.normal(size=rows)


@pytest.fixture
def client():
    """A client of two workers, each a process of its own."""
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "host": "127.0.0.1"}
    with (
        distributed.LocalCluster(**options, dashboard_address=None, silence_logs=50) as cluster,
        distributed.Client(cluster) as found,
    ):
        yield found


def trained(**options):
    x, y = table()
    model = HistogramRegressor(**SMALL | options).fit(x, y)
    return np.column_stack([model.predict(x), model.predict_interval(x)])


@pytest.mark.slow
def test_dask_gives_the_same_bits_and_gets_the_table_once(client, monkeypatch):
    scattered, scatter = [], client.scatter

    def watched(data, *arguments, **options):
        scattered.append(data)
        return scatter(data, *arguments, **options)

    monkeypatch.setattr(client, "scatter", watched)
    expected = trained()
    with joblib.parallel_config(backend="dask"):
        np.testing.assert_array_equal(trained(), expected)
    tables = [data for data in scattered if isinstance(data, list)]
    # For trees features and targets; for networks also what their gradient needs of the targets.
    assert [len(arrays) for arrays in tables] == [2, 3]


@pytest.mark.slow
def test_a_worker_that_is_killed_loses_nothing(client):
    expected = trained(max_epochs=40)
    victim = next(iter(client.run(os.getpid).values()))
    timer = threading.Timer(1.0, os.kill, (victim, signal.SIGKILL))
    timer.start()
    with joblib.parallel_config(backend="dask"):
        np.testing.assert_array_equal(trained(max_epochs=40), expected)
    timer.join()
    assert victim not in client.run(os.getpid).values()


def forget_softbins():
    sys.modules["softbins"] = None


@pytest.mark.slow
def test_workers_without_softbins_are_told_in_one_line(client):
    client.run(forget_softbins)
    with (
        joblib.parallel_config(backend="dask"),
        pytest.raises(ImportError, match="^cluster: the worker tcp.* has no softbins; install"),
    ):
        trained()


@pytest.mark.slow
def test_the_command_trains_on_a_cluster(client, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x, y = table(60)
    lines = [",".join(map(str, row)) for row in np.column_stack([x, y]).tolist()]
    (tmp_path / "data.csv").write_text("\n".join(["a,b,c,y", *lines]))
    fit = ["fit", "data.csv", "--target", "y", "--hidden", "8", "--epochs", "2"]
    assert run(*fit, "-o", "here").exit_code == 0
    result = run(*fit, "-o", "there", "--cluster", client.scheduler.address)
    assert result.exit_code == 0, result.stderr
    found = [run("predict", name, "data.csv", "-o", "-").stdout for name in ("here", "there")]
    assert found[0] == found[1] != ""


def test_a_cluster_that_is_not_there(tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.csv").write_text("a,y\n" + "\n".join(f"{i},{i}" for i in range(40)))
    where = ["--cluster", "tcp://127.0.0.1:1"]
    result = run("fit", "data.csv", "--target", "y", "-o", "new.model", *where)
    assert result.exit_code == 2
    expected = "softbins: cluster: nobody answers at tcp://127.0.0.1:1; start a scheduler with"
    assert result.stderr.splitlines()[-1].startswith(expected)
    assert not (tmp_path / "new.model").exists()


class KilledWorker(Exception):  # noqa: N818 - the name that Dask has for it
    """Stands for Dask's."""


@pytest.mark.parametrize(
    ("error", "expected", "words"),
    [
        (KilledWorker("task"), ChildProcessError, "^cluster: workers were lost again and again"),
        (ValueError("of the work"), ValueError, "of the work"),
    ],
)
def test_errors_of_clusters_are_one_line_and_others_stay(error, expected, words):
    with pytest.raises(expected, match=words), clear_errors():
        raise error


RAY = """
import joblib, ray
from ray.util.joblib import register_ray
from tests.tabular.test_cluster import np, trained

expected = trained()
ray.init(num_cpus=2, include_dashboard=False, _node_ip_address="127.0.0.1")
register_ray()
with joblib.parallel_config(backend="ray", n_jobs=2):
    np.testing.assert_array_equal(trained(), expected)
ray.shutdown()
print("the same")
"""


@pytest.mark.slow
def test_ray_gives_the_same_bits():
    pytest.importorskip("ray")
    result = subprocess.run(
        [sys.executable, "-c", RAY], capture_output=True, text=True, timeout=300
    )
    assert result.stdout.endswith("the same\n"), result.stderr


def test_a_table_that_cannot_be_written_to_is_no_reason_for_a_warning():
    array = np.arange(3.0)
    array.flags.writeable = False
    assert groups._tensor(array, "cpu").tolist() == [0, 1, 2]
