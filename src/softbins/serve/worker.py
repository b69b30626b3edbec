"""The one thread that predicts, and the queue before it.

Predictions are work for a processor: in the thread that talks to clients they would hold up all
others, and side by side in several threads they would take longer, because Python runs one at a
time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from softbins.serve.errors import RequestError
from softbins.serve.limits import Limits

Result = TypeVar("Result")


class Worker:
    """Does one piece of work at a time, and refuses more when much is waiting."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="softbins-predict")
        self._waiting = 0

    async def run(self, rows: int, work: Callable[[], Result]) -> Result:
        """Do work of so many rows in turn, and wait for what it returns.

        Raises a `RequestError` with status 503 if too much is waiting already. It is called from
        the thread of the event loop only, which is why the count needs no lock.
        """
        size = rows + self._limits.rows_per_request
        if self._waiting and self._waiting + size > self._limits.waiting_rows:
            raise RequestError(503, "too many requests are waiting; try again in a second")
        self._waiting += size
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self._waiting -= size
