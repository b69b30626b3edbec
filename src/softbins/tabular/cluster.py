"""A Dask cluster for the work of a block, and what goes wrong with clusters in one line."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import joblib

from softbins._core.extras import optional_import


@contextmanager
def dask_cluster(address: str, extra: str = "dask") -> Iterator[Any]:
    """Let joblib use the workers of the Dask scheduler at that address; yields dask's module."""
    distributed = optional_import("distributed", extra)
    try:
        client = distributed.Client(address, timeout="5s")
    except (OSError, ValueError) as error:
        reason = f"cluster: nobody answers at {address}; start a scheduler with `dask scheduler`"
        raise OSError(reason) from error
    with client, joblib.parallel_config(backend="dask"):
        yield distributed


def check_workers(client: Any) -> None:
    """Raise unless all workers of a Dask cluster have softbins, without which they would break."""
    found = client.run(importlib.util.find_spec, "softbins")
    without = [address for address, spec in found.items() if spec is None]
    if without:
        advice = "install the same version of it there"
        raise ImportError(f"cluster: the worker {without[0]} has no softbins; {advice}")


@contextmanager
def clear_errors() -> Iterator[None]:
    """Inside, an error of a backend of joblib, and not of the work, is one clear line."""
    try:
        yield
    except Exception as error:
        if type(error).__name__ != "KilledWorker":
            raise
        advice = "they may lack memory"
        text = f"cluster: workers were lost again and again while they trained; {advice}"
        raise ChildProcessError(text) from error
