"""The curves of `plots.training`: errors after each epoch, and the best epochs among them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from softbins._core.checks import Array, as_floats
from softbins._core.extras import optional_import
from softbins._core.figures import ACTUAL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# What is known after an epoch of a member, by name.
Epoch = Mapping[str, Any]

# If a history has several errors, the first of these that it has is shown.
PREFERRED_ERRORS = ("mae", "rmse")


def checked_history(model_or_history: Any) -> list[Epoch]:
    """The epochs of a history, or of a fitted estimator's; there must be some."""
    history = getattr(model_or_history, "history_", model_or_history)
    if not isinstance(history, Sequence) or not all(isinstance(e, Mapping) for e in history):
        kind = type(model_or_history).__name__
        raise ValueError(f"model_or_history: need a fitted estimator or its history_, got {kind}")
    if not history:
        raise ValueError("model_or_history: no epochs, which a constant target does not need")
    return list(history)


def shown_error(history: Sequence[Epoch]) -> str:
    """The name of the error to show, of those that are finite after some epoch."""
    found = {
        name.partition("_")[2]
        for epoch in history
        for name, value in epoch.items()
        if name.startswith(("train_", "validation_")) and np.isfinite(as_floats(name, value))
    }
    if not found:
        raise ValueError(
            f"model_or_history: no finite train_ or validation_ error in {len(history)} epochs, "
            f"which have {', '.join(history[0]) or 'nothing'}"
        )
    return next((name for name in PREFERRED_ERRORS if name in found), min(found))


def split_members(history: Sequence[Epoch]) -> list[list[Epoch]]:
    """The epochs of each member, in the order in which the members appear."""
    members: dict[Any, list[Epoch]] = {}
    for epoch in history:
        members.setdefault(epoch.get("member", 0), []).append(epoch)
    return list(members.values())


def finite_or_nan(name: str, values: Iterable[Any]) -> Array:
    """Numbers as an array, with NaN for what is missing or not finite."""
    result = as_floats(name, list(values))
    return np.where(np.isfinite(result), result, np.nan)


def _curve(epochs: Sequence[Epoch], name: str) -> Array:
    return finite_or_nan(name, (epoch.get(name) for epoch in epochs))


def _numbers(epochs: Sequence[Epoch]) -> Array:
    """The numbers of the epochs, which count from 1 if they have none."""
    numbered = enumerate(epochs, start=1)
    return finite_or_nan("epoch", (epoch.get("epoch", count) for count, epoch in numbered))


def draw_curves(
    axes: Axes, members: Sequence[Sequence[Epoch]], name: str, color: str, style: str
) -> None:
    """A line for each member that has this error; the legend names only the first of them."""
    label: str | None = name.partition("_")[0]
    for epochs in members:
        values = _curve(epochs, name)
        if not np.isnan(values).all():
            # A line through a single point would not be seen.
            dot = "." if len(epochs) == 1 else ""
            x = _numbers(epochs)
            axes.plot(x, values, dot + style, color=color, linewidth=1.2, label=label)
            label = None


def mark_best_epochs(
    axes: Axes, members: Sequence[Sequence[Epoch]], monitored: str, shown: str
) -> None:
    """A dot on each member's curve `shown`, at the epoch where `monitored` is least."""
    places = []
    for epochs in members:
        values = _curve(epochs, monitored)
        if not np.isnan(values).all():
            best = int(np.nanargmin(values))
            places.append((_numbers(epochs)[best], _curve(epochs, shown)[best]))
    if places:
        label = f"best epoch: {places[0][0]:g}" if len(members) == 1 else "best epochs"
        axes.plot(*zip(*places, strict=True), "o", color=ACTUAL, markersize=6, label=label)


def scale_heights(axes: Axes) -> None:
    """A logarithmic axis with plain numbers, if the errors fall by more than a factor of three."""
    heights = np.concatenate([line.get_ydata() for line in axes.get_lines()])
    if np.nanmin(heights) > 0 and np.nanmax(heights) > 3 * np.nanmin(heights):
        ticker = optional_import("matplotlib.ticker", "plots")
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 3.0, 5.0)))
        axes.yaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
        axes.yaxis.set_minor_locator(ticker.NullLocator())
