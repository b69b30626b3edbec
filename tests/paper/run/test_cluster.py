"""The same runs on a Dask cluster of two worker processes on this machine."""

import os
import signal
import threading
import time

import pytest

from softbins.paper.run.plan import Scale, curve_runs, method_runs
from softbins.paper.run.store import Store
from softbins.paper.run.workers import run_all
from tests.paper.run.running import contents, wait_for

distributed = pytest.importorskip(
    "distributed", reason='needs Dask: pip install "softbins[cluster]"'
)
# Dask's own clean-up of workers that were killed is not quiet.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]
SCALE = Scale("tiny", epoch_share=0.06, n_seeds=2, max_rows=1500, full_grids=False)


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address=None,
        silence_logs=50,
    ) as made:
        yield made


def test_a_cluster_gives_the_same_records(cluster, tmp_path):
    runs = [run for method in ("l2", "hl-gaussian") for run in method_runs("bike", method, SCALE)]
    alone, together = Store(tmp_path / "alone"), Store(tmp_path / "together")
    run_all(runs, alone)
    ended = []
    run_all(runs, together, cluster=cluster.scheduler_address, on_finished=ended.append)
    assert contents(together) == contents(alone)
    assert len(contents(alone)) == 4
    assert len(ended) == 2


@pytest.mark.slow
def test_a_worker_that_is_killed_loses_nothing(cluster, tmp_path):
    scale = Scale("long", epoch_share=0.3, n_seeds=2, max_rows=1500, full_grids=False)
    runs = curve_runs("bike", "hl-gaussian", scale)
    alone, together = Store(tmp_path / "alone"), Store(tmp_path / "together")
    run_all(runs, alone)
    thread = threading.Thread(
        target=run_all, args=(runs, together), kwargs={"cluster": cluster.scheduler_address}
    )
    thread.start()
    wait_for(lambda: together.read_progress())
    with distributed.Client(cluster.scheduler_address) as client:
        busy = [address for address, tasks in client.processing().items() if tasks]
        pids = client.run(os.getpid)
    assert busy, "nothing was running any more"
    os.kill(pids[busy[0]], signal.SIGKILL)
    thread.join(240)
    assert not thread.is_alive()
    assert contents(together) == contents(alone)
    assert len(contents(alone)) == 2


def test_an_address_where_nobody_answers_is_a_clear_error(tmp_path):
    start = time.monotonic()
    runs = method_runs("bike", "l2", SCALE)
    with pytest.raises(OSError, match=r"cluster: nobody answers at tcp://127.0.0.1:1"):
        run_all(runs, Store(tmp_path), cluster="tcp://127.0.0.1:1")
    assert time.monotonic() - start < 60
