"""Columns whose values are not what they were in training, as far as a model remembers them.

Of numbers a model keeps where their middle was and how far they spread, of categories which there
were, of dates the first and the last. That is enough to see a column in another unit, a new name
for an old category, or rows of another time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softbins._core.text import number_text
from softbins.report.sampling_error import share_range
from softbins.tabular.dates import DateEncoder, moment_text
from softbins.tabular.frames import is_missing, read_columns
from softbins.tabular.validation import prediction_data

Array = NDArray[np.float64]

# Distances between the quartiles of training that a median has to move to be mentioned.
MOVED_FAR = 1.0
MIN_UNKNOWN_SHARE = 0.05
# How many such distances new categories or dates in all rows count for.
WEIGHT_OF_UNKNOWN = 10
MAX_MENTIONED = 3
MIN_ROWS = 20


def moved_columns(model: Any, X: Any) -> list[str]:
    """Up to three columns that have changed most, in words."""
    features = prediction_data(model, X, model.columns_)
    if len(features) < MIN_ROWS:
        return []
    found = [
        *_moved_numbers(model, features),
        *_unknown_categories(model, X, features),
        *_other_times(model, X),
    ]
    found.sort(key=lambda item: -item[0])
    return [text for _, text in found[:MAX_MENTIONED]]


def column_label(model: Any, column: int) -> str:
    """A column as its user knows it: by its name, or else by its number."""
    names = model.columns_.names
    return f"column {column}" if names is None else str(names[column])


def _moved_numbers(model: Any, features: Array) -> list[tuple[float, str]]:
    """How far the medians of numbers have moved, and that in words."""
    if not np.isfinite(model.scaling_.limit):
        return []  # only a robust scaling knows medians
    found = []
    for place, feature in enumerate(model.columns_.encoded_features):
        if feature.content == "value" and model.columns_.kinds[feature.column] == "number":
            before, values = float(model.scaling_.center[place]), features[:, place]
            now = float(np.median(values))
            move = abs(now - before) / float(model.scaling_.scale[place])
            if move >= MOVED_FAR and _beyond_chance(values, before):
                numbers = f"median {number_text(before)}, now {number_text(now)}"
                found.append((move, f"{column_label(model, feature.column)} ({numbers})"))
    return found


def _beyond_chance(values: Array, median: float) -> bool:
    """Whether more than half of the values lie on one side of what was the median.

    Of yes and no, and of other numbers that few values are taken of, chance alone moves the median.
    """
    above, below = int((values > median).sum()), int((values < median).sum())
    return share_range(max(above, below), len(values)).low > 0.5


def _unknown_categories(model: Any, X: Any, features: Array) -> list[tuple[float, str]]:
    """How many rows have a category that training did not have, and that in words."""
    found = []
    for column, values in enumerate(read_columns(X)):
        if model.columns_.kinds[column] == "category":
            own = [f.column == column for f in model.columns_.encoded_features]
            given = [not is_missing(value) for value in values.values.tolist()]
            unknown = float(((features[:, own] == 0).all(1) & given).mean())
            if unknown >= MIN_UNKNOWN_SHARE:
                text = f"{column_label(model, column)} ({unknown:.0%} of rows in new categories)"
                found.append((WEIGHT_OF_UNKNOWN * unknown, text))
    return found


def _other_times(model: Any, X: Any) -> list[tuple[float, str]]:
    """How many rows have a date after the last or before the first of training, in words."""
    found = []
    for column, values in enumerate(read_columns(X)):
        encoder, label = model.columns_.encoders[column], column_label(model, column)
        if isinstance(encoder, DateEncoder):
            moments = encoder.moments(values, label)
            for side, beyond, end, which in (
                ("after", moments > encoder.high, encoder.high, "last"),
                ("before", moments < encoder.low, encoder.low, "first"),
            ):
                share, date = float(beyond.mean()), moment_text(end, encoder.zone)
                if share >= MIN_UNKNOWN_SHARE:
                    text = f"{label} ({share:.0%} of rows {side} {date}, the {which} of training)"
                    found.append((WEIGHT_OF_UNKNOWN * share, text))
    return found
