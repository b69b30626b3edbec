"""The process that serves: where it listens, and how it ends."""

import os
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from softbins.serve import server
from softbins.serve.app import make_app
from tests.serve.processes import serving, terminate

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


@pytest.mark.parametrize("keep_alive", [True, False], ids=["connections kept", "one each"])
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


def test_serving_in_this_process_until_sigterm(models):
    """The same once more where coverage sees it; a thread asks, and then sends the signal."""
    answers, before = [], signal.getsignal(signal.SIGTERM)
    with server.listen("127.0.0.1", 0) as listener:
        address = server.address_of(listener)

        def ask():
            with httpx2.Client(base_url=address, timeout=20) as client:
                answers.append(client.get("/health").json()["status"])
                os.kill(os.getpid(), signal.SIGTERM)
                late = socket.create_connection(listener.getsockname())
                late.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
                answers.append(b"".join(iter(lambda: late.recv(1000), b"")))
                late.close()

        thread = threading.Thread(target=ask, daemon=True)
        server.run(make_app(models["l2"]), listener, when_ready=thread.start)
        thread.join(20)
    assert answers[0] == "ok"
    assert answers[1].startswith(b"HTTP/1.1 200 OK")
    assert b"connection: close" in answers[1].lower()
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_client_in_the_queue_is_accepted_before_the_end():
    with server.listen("127.0.0.1", 0) as listener:
        listener.setblocking(False)
        with socket.create_connection(listener.getsockname()):
            found = list(server._clients_in_queue(listener))
            assert len(found) == 1
            found[0].close()


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
