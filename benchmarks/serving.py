"""How many requests a service holds: `make bench-serving` writes results/serving.json.

A small table is fitted with the defaults, and `softbins serve` serves it on 127.0.0.1 as a process
of its own. Sixteen clients ask for a row at a time, each with a connection of its own and without a
pause, for a minute; the clients share the machine with the service.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pandas as pd

from softbins import HistogramRegressor

RESULT = Path(__file__).parent.parent / "results" / "serving.json"
ROWS, EPOCHS = 500, 20
COMMAND = [sys.executable, "-c", "from softbins.cli import main; main()", "serve"]


def save_model(path: Path) -> dict[str, Any]:
    """Fit the default regressor to a small table and save it; a row to ask for."""
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.normal(size=(ROWS, 4)), columns=["a", "b", "c", "d"])
    frame["kind"] = random.choice(["red", "green", "blue"], ROWS)
    y = frame["a"] + np.sin(2 * frame["b"]) + (frame["kind"] == "red") + random.normal(0, 0.3, ROWS)
    # Few epochs, because they do not change how long a prediction takes.
    HistogramRegressor(max_epochs=EPOCHS, random_state=0).fit(frame, y).save(path)
    row: dict[str, Any] = frame.iloc[0].to_dict()
    return row


@dataclass
class Load:
    """What clients have seen so far."""

    seconds: list[float] = field(default_factory=list)
    errors: int = 0

    def summary(self, duration: float) -> dict[str, Any]:
        """Requests per second, and latencies in milliseconds."""
        cuts = statistics.quantiles(self.seconds, n=100, method="inclusive")
        return {
            "requests": len(self.seconds),
            "errors": self.errors,
            "requests_per_second": len(self.seconds) / duration,
            "median_ms": 1000 * cuts[49],
            "p99_ms": 1000 * cuts[98],
        }


async def client(address: str, request: bytes, end: float, load: Load) -> None:
    """Ask again and again on one connection until the time is over."""
    parts = urlsplit(address)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    while time.monotonic() < end:
        start = time.monotonic()
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].split()[0])
        body = await reader.readexactly(length)
        load.seconds.append(time.monotonic() - start)
        if not head.startswith(b"http/1.1 200") or b'"mean"' not in body:
            load.errors += 1
    writer.close()


async def hold(address: str, row: dict[str, Any], seconds: float, clients: int) -> Load:
    """Let so many clients ask for so long."""
    body = json.dumps({"rows": row}).encode()
    head = f"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    load, end = Load(), time.monotonic() + seconds
    asking = [client(address, head.encode() + body, end, load) for _ in range(clients)]
    for result in await asyncio.gather(*asking, return_exceptions=True):
        load.errors += isinstance(result, BaseException)  # a connection that broke
    return load


def megabytes(process: int) -> float:
    """The memory of a process."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def processor_seconds(process: int) -> float:
    """The processor time that a process has taken."""
    user, system = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def measure(model: Path, row: dict[str, Any], seconds: float, clients: int) -> dict[str, Any]:
    """Start the service, hold the load, and end it."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [*COMMAND, str(model), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[-1]
            asyncio.run(hold(address, row, min(2.0, seconds), clients))  # to warm up
            before, used = megabytes(process.pid), processor_seconds(process.pid)
            start = time.monotonic()
            load = asyncio.run(hold(address, row, seconds, clients))
            found = load.summary(time.monotonic() - start)
            used = processor_seconds(process.pid) - used
            found["processor_ms_per_request"] = 1000 * used / found["requests"]
            memory = {"megabytes_at_start": before, "megabytes_at_end": megabytes(process.pid)}
            start = time.monotonic()
            process.send_signal(signal.SIGTERM)
            code = process.wait(timeout=20)
            ending = {"exit_code": code, "seconds_to_end": time.monotonic() - start}
            return found | memory | ending
        finally:
            process.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--result", type=Path, default=RESULT)
    chosen = parser.parse_args()
    # How many others wanted a core just before, which is what latencies depend on most.
    machine = {"cores": os.cpu_count(), "load_before": os.getloadavg()[0]}
    machine["python"] = platform.python_version()
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "small.model"
        row = save_model(model)
        found = measure(model, row, chosen.seconds, chosen.clients)
    setting = {"seconds": chosen.seconds, "clients": chosen.clients}
    chosen.result.write_text(json.dumps(machine | setting | found, indent=2) + "\n")
    print(chosen.result.read_text(), end="")
    if found["errors"]:
        sys.exit(f"{found['errors']} errors")


if __name__ == "__main__":
    main()
