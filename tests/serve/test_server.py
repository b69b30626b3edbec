"""The process that serves: where it listens, and how it ends."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from softbins.serve import server
from softbins.serve.app import make_app
from tests.serve.processes import serving, terminate

ROOT = Path(__file__).parents[2]
BODY = {"rows": {"x0": 0.5}}


@pytest.fixture(scope="module")
def model_file(tmp_path_factory, models):
    path = tmp_path_factory.mktemp("served") / "small.model"
    models["nameless"].save(path)
    return path


class Sender:
    """A client that asks again and again until it finds nobody listening.

    What was not accepted is a connection refused; anything else that fails is a lost request.
    """

    def __init__(self, address, keep_alive, expected):
        self.address, self.keep_alive, self.expected = address, keep_alive, expected
        self.answered, self.lost = 0, []

    def run(self):
        connections = httpx2.Limits(max_keepalive_connections=None if self.keep_alive else 0)
        with httpx2.Client(base_url=self.address, limits=connections, timeout=20) as client:
            while not self.lost:
                try:
                    found = client.post("/predict", json=BODY)
                except httpx2.ConnectError:
                    return
                except httpx2.HTTPError as error:
                    self.lost.append(repr(error))
                else:
                    self.answered += 1
                    if (found.status_code, found.json()) != (200, self.expected):
                        self.lost.append(found.text)


@pytest.mark.parametrize("keep_alive", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_sigterm_loses_no_request(model_file, keep_alive):
    with serving(model_file) as (process, address), ThreadPoolExecutor(8) as pool:
        expected = httpx2.post(f"{address}/predict", json=BODY, timeout=20).json()
        senders = [Sender(address, keep_alive, expected) for _ in range(8)]
        running = [pool.submit(sender.run) for sender in senders]
        time.sleep(1.5)
        start = time.monotonic()
        terminate(process)
        code = process.wait(timeout=20)
        seconds = time.monotonic() - start
        for job in running:
            job.result(timeout=20)
        assert [sender.lost for sender in senders] == [[]] * 8
        assert all(sender.answered for sender in senders)
        assert code == 0
        assert seconds < 5
        assert process.stderr.read() == ""


@pytest.mark.slow
def test_a_client_that_sends_nothing_does_not_hold_up_the_end(model_file):
    with serving(model_file) as (process, address):
        host, _, port = address.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port))) as idle:
            idle.sendall(b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
            time.sleep(0.3)
            start = time.monotonic()
            terminate(process)
            assert process.wait(timeout=20) == 0
            assert time.monotonic() - start < 5


def test_serving_in_this_process_until_sigterm(models, monkeypatch):
    """The same once more where coverage sees it; a thread asks, and then sends the signal."""
    monkeypatch.setattr(server, "SECONDS_FOR_ARRIVALS", 2.0)
    answers, before = [], signal.getsignal(signal.SIGTERM)

    def ask(address):
        with httpx2.Client(base_url=address, timeout=20) as client:
            answers.append(client.get("/health"))
            os.kill(os.getpid(), signal.SIGTERM)
            while answers[-1].headers.get("connection") != "close":
                answers.append(client.get("/health"))

    with server.listen("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=ask, args=[server.address_of(listener)], daemon=True)
        server.run(make_app(models["l2"]), listener, when_ready=thread.start)
        thread.join(20)
    assert {answer.json()["status"] for answer in answers} == {"ok"}
    assert answers[-1].headers["connection"] == "close"
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_client_that_nobody_has_accepted_yet_is_answered(models, monkeypatch):
    """It connects while the loop is busy, and the end comes before the loop looks again."""
    with server.listen("127.0.0.1", 0) as listener, socket.socket() as client:

        async def connect_and_end(_server):
            client.connect(listener.getsockname())
            client.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")

        monkeypatch.setattr(server._Server, "main_loop", connect_and_end)
        server.run(make_app(models["l2"]), listener, when_ready=lambda: None)
        answer = b"".join(iter(lambda: client.recv(1000), b""))
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert b"connection: close" in answer.lower()
    assert answer.endswith(b"}")


def test_addresses_are_those_of_browsers():
    with server.listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        assert server.address_of(listener) == f"http://127.0.0.1:{port}"
        with pytest.raises(OSError, match=f"cannot listen at 127.0.0.1:{port}: Address already"):
            server.listen("127.0.0.1", port)
    with pytest.raises(OSError, match="cannot listen at nowhere.invalid:80: .*; choose another"):
        server.listen("nowhere.invalid", 80)


@pytest.mark.skipif(not socket.has_ipv6, reason="the machine has no IPv6")
def test_an_address_of_ipv6_stands_in_brackets():
    try:
        listener = server.listen("::1", 0)
    except OSError:
        pytest.skip("the machine has no IPv6")
    with listener:
        assert server.address_of(listener).startswith("http://[::1]:")


@pytest.mark.slow
def test_a_load_of_sixteen_clients_is_held_without_an_error(tmp_path):
    """The benchmark itself, for ten seconds instead of a minute."""
    result, script = tmp_path / "serving.json", ROOT / "benchmarks" / "serving.py"
    command = [sys.executable, script, "--seconds", "10", "--result", result]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(result.read_text())
    assert (found["errors"], found["exit_code"], found["clients"]) == (0, 0, 16)
    assert found["requests"] > 16
    assert found["seconds_to_end"] < 5
    assert found["megabytes_at_end"] < found["megabytes_at_start"] + 50
