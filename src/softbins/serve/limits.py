"""How much a service takes: of one request, and of all that wait."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What a service refuses to exceed, so that no request can hold it up for long.

    The numbers are chosen for `HistogramRegressor` with its defaults: what may wait is worked off
    within the seconds that a service has to end in.
    """

    body_bytes: int = 1_000_000
    """Size of a request's body."""
    body_seconds: float = 10.0
    """Time for a body to arrive."""
    rows: int = 1000
    """Rows of a request."""
    quantiles: int = 100
    """Levels of quantiles of a request."""
    waiting_rows: int = 8192
    """Rows of all requests that wait, each of which counts `rows_per_request` more than it has."""
    rows_per_request: int = 64
    """How many rows take as long as what is done once for a request."""
