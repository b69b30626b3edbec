"""softbins on the same terms: a mean, a median and quantiles at the peers' levels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from data import Split
from peers import LEVELS, Forecast


def default(split: Split, seed: int) -> Forecast:
    """HistogramRegressor at its defaults."""
    return _forecast(split, seed)


def fast(split: Split, seed: int) -> Forecast:
    """HistogramRegressor in a hurry."""
    return _forecast(split, seed, preset="fast")


def _forecast(split: Split, seed: int, **chosen: Any) -> Forecast:
    from softbins import HistogramRegressor

    model = HistogramRegressor(random_state=seed, **chosen).fit(split.x, split.y)
    quantiles = model.predict_quantiles(split.x_test, LEVELS.tolist())
    return Forecast(model.predict(split.x_test), quantiles, model.predict_interval(split.x_test))


METHODS: dict[str, Callable[[Split, int], Forecast]] = {"softbins": default, "softbins fast": fast}
