"""The process that serves: an address, and an end on SIGTERM that loses no request."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

BACKLOG = 2048
# After SIGTERM: for requests that are on their way, and for those that are being answered. The
# process ends within 5 seconds.
SECONDS_FOR_ARRIVALS = 0.5
SECONDS_FOR_ANSWERS = 3.0


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens at an address, with any free port for 0."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        # Without the address in brackets, which Python adds.
        reason = (error.strerror or str(error)).partition(" (")[0]
        raise OSError(f"cannot listen at {host}:{port}: {reason}; choose another") from error


def address_of(listener: socket.socket) -> str:
    """Where a browser finds a socket that listens."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run(app: Any, listener: socket.socket, when_ready: Callable[[], object]) -> None:
    """Serve an application until SIGTERM, which ends it well, or Ctrl-C, which is raised."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=SECONDS_FOR_ANSWERS,  # type: ignore[arg-type]
    )
    # What is loaded by now stays to the end: to look through all of torch for garbage would take
    # most of the time that the process needs to end.
    gc.freeze()
    _Server(config, when_ready).run([listener])


class _Server(uvicorn.Server):
    """Uvicorn's server, with an end that waits for what clients have sent already."""

    def __init__(self, config: uvicorn.Config, when_ready: Callable[[], object]) -> None:
        super().__init__(config)
        self._when_ready = when_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._when_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no new connections, answer what still comes on those there are, then close them.

        Closed at once, an idle connection could lose a request that its client has just sent.
        """
        close = (b"connection", b"close")
        self.server_state.default_headers = [*self.server_state.default_headers, close]
        late = [client for listener in sockets or [] for client in _clients_in_queue(listener)]
        for server in self.servers:
            server.close()
        for client in late:
            await asyncio.get_running_loop().connect_accepted_socket(self._protocol, client)
        if not self.force_exit:
            await asyncio.sleep(SECONDS_FOR_ARRIVALS)
        await super().shutdown(sockets)

    def _protocol(self) -> asyncio.Protocol:
        make: Any = self.config.http_protocol_class
        protocol: asyncio.Protocol = make(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return protocol

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn does, but SIGTERM is not raised again at the end: it has been obeyed."""
        before = signal.signal(signal.SIGTERM, _ignore)
        try:
            with super().capture_signals():
                yield
        finally:
            signal.signal(signal.SIGTERM, before)


def _ignore(_number: int, _frame: object) -> None:
    """Do nothing for a signal."""


def _clients_in_queue(listener: socket.socket) -> Iterator[socket.socket]:
    """Clients that the system has connected and nobody has accepted yet."""
    while True:
        try:
            yield listener.accept()[0]
        except OSError:  # there is none
            return
