"""The page about MLflow is a test: its block logs and loads a model, and MLflow serves it.

MLflow has an environment of its own, which `make test-slow` makes.
"""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from softbins import HistogramRegressor
from softbins.report.evaluation import predictions

ROOT = Path(__file__).parent.parent
PYTHON = ROOT / ".venv-mlflow" / "bin" / "python"
PAGE = ROOT / "docs" / "mlflow.md"
ROWS = [{"size": 95.0, "town": "A"}, {"size": None, "town": "B"}]
SHOW = """
import json
found = prices.predict(pd.DataFrame(json.loads({rows!r})))
print(json.dumps([info.model_uri, found.to_dict("records")]))
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON.exists(), reason="MLflow's environment is not made"),
]


def block(language):
    return re.search(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)[1]


def environment():
    """As in a shell in which MLflow's environment is active, and quiet."""
    path = f"{PYTHON.parent}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {
        "PATH": path,
        "PYTHONWARNINGS": "ignore",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }


@pytest.fixture
def expected(tmp_path):
    """A model in the folder, and what it predicts for the rows."""
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"size": random.normal(100, 20, 60), "town": ["A", "B", "C"] * 20})
    model = HistogramRegressor((8,), members=2, max_epochs=4, trees=False, random_state=0)
    model.fit(frame, 2 * frame["size"]).save(tmp_path / "houses.model")
    found = pd.DataFrame(predictions(model, pd.DataFrame(ROWS), interval=0.9))
    return found.to_dict("records")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def invoked(port, server, log):
    """What MLflow's server answers, as soon as it is up."""
    body = json.dumps({"dataframe_records": ROWS}).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/invocations", body, {"Content-Type": "application/json"}
    )
    end = time.monotonic() + 180
    while time.monotonic() < end and server.poll() is None:
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                return json.load(response)["predictions"]
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.5)
    raise AssertionError(f"MLflow's server did not answer: {log.read_text()}")


def test_the_block_logs_and_loads_and_the_command_serves(tmp_path, expected):
    code = block("python")
    assert sum(bool(line.strip()) for line in code.splitlines()) <= 10
    script = code + SHOW.format(rows=json.dumps(ROWS))
    done = subprocess.run(
        [PYTHON, "-c", script], cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    address, loaded = json.loads(done.stdout.splitlines()[-1])
    assert loaded == expected

    port, log = free_port(), tmp_path / "log"
    command = block("sh").splitlines()[0].replace("$MODEL_URI", address).replace('"', "")
    words = command.replace("5001", str(port)).split()
    how = {"cwd": tmp_path, "env": environment(), "start_new_session": True}
    with (
        log.open("w") as out,
        subprocess.Popen(
            [PYTHON.parent / words[0], *words[1:]], stdout=out, stderr=subprocess.STDOUT, **how
        ) as server,
    ):
        try:
            assert invoked(port, server, log) == expected
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGTERM)
