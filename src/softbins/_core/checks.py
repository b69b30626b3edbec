"""Checks of what users give: numbers, columns of numbers, weights, levels and intervals.

They return what they have checked, in float64, or raise a `ValueError` that names the argument,
the first bad value with its index, and the way out. Nothing here needs torch, which takes seconds
to import; `_tensor_checks` looks at the values of tensors.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SMALLEST_POSITIVE = 5e-324
LEAVE_OUT_OR_FILL_IN = "leave those rows out or fill them in"
DATES_NOT_TAKEN = (
    "dates, times and durations are not taken; {}turn them into numbers first, such as year, month "
    "and weekday, or seconds since a fixed day"
)
DATE_TYPES = (
    datetime.date,
    datetime.time,
    datetime.timedelta,
    np.datetime64,
    np.timedelta64,
)


def require_number(name: str, value: Any, rule: str = "positive") -> float:
    """Return a finite number that is "positive", "at least 0" or "in [0, 1)", or raise."""
    fits: dict[str, Callable[[float], bool]] = {
        "positive": lambda number: number > 0,
        "at least 0": lambda number: number >= 0,
        "in [0, 1)": lambda number: 0 <= number < 1,
    }
    known = isinstance(value, Real) and not isinstance(value, bool)
    if not (known and math.isfinite(value) and fits[rule](value)):
        raise ValueError(f"{name}: must be a number, {rule}, got {value!r}")
    return float(value)


def require_whole_number(name: str, value: Any, least: int) -> int:
    """Return a whole number of at least `least`, or raise `ValueError`."""
    known = isinstance(value, Real) and not isinstance(value, bool)
    if not (known and float(value).is_integer() and value >= least):
        raise ValueError(f"{name}: need a whole number of at least {least}, got {value!r}")
    return int(value)


def shape_complaint(logits: Sequence[int], y: Sequence[int], count: int) -> str:
    """What is wrong with the shapes of logits and targets that do not match on `count` bins."""
    shape = tuple(logits)
    if not shape or shape[-1] != count:
        return f"logits: last dimension must be the number of bins, {count}, got shape {shape}"
    wanted = f"need {shape[:-1]}"
    return f"y: shape {tuple(y)} does not match logits of shape {shape}; {wanted}"


# Columns


def numeric_column(
    name: str,
    values: Any,
    length: int | None = None,
    *,
    allow_nan: bool = False,
    hint: str = LEAVE_OUT_OR_FILL_IN,
) -> Array:
    """Return one finite number for each row as a new float64 array, or raise `ValueError`.

    `values` may be a list, a NumPy array, a tensor, or a column of a data frame. Text is refused
    even where it could be read as numbers, and None counts as NaN. Unless `length` is None there
    must be as many rows. `allow_nan` lets NaN pass, but not infinity. `hint` ends the complaint
    about values that are not finite, with the way out.
    """
    result = numeric_array(name, values, allow_nan=allow_nan, hint=hint)
    if result.ndim != 1:
        raise ValueError(f"{name}: need one number for each row, got shape {result.shape}")
    if len(result) == 0:
        raise ValueError(f"{name}: need at least one row, got none")
    if length is not None and len(result) != length:
        raise ValueError(f"{name}: need one number for each of {length} rows, got {len(result)}")
    return result


def numeric_array(
    name: str, values: Any, *, allow_nan: bool = False, hint: str = LEAVE_OUT_OR_FILL_IN
) -> Array:
    """Return finite numbers of any shape as a new float64 array; see `numeric_column`."""
    result = as_floats(name, values)
    bad = np.isinf(result) if allow_nan else ~np.isfinite(result)
    if bad.any():
        fault = "infinite" if allow_nan else "NaN or infinite"
        raise ValueError(bad_values_message(name, result, bad, fault, hint))
    return result


def as_floats(name: str, values: Any) -> Array:
    """Return numbers of any shape, finite or not, as a new float64 array; see `numeric_column`."""
    if hasattr(values, "detach"):  # a tensor, which NumPy takes only from the CPU and detached
        values = values.detach().cpu().double().numpy()
    try:
        found = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name}: need an array of numbers ({error})") from error
    refuse_dates(name, found)
    if found.dtype.kind in "biuf":
        # A copy, because torch does not take read-only arrays.
        return found.astype(np.float64)
    result = np.empty(found.size)
    # As objects, because NumPy makes text of the numbers beside a text.
    for i, value in enumerate(np.asarray(values, dtype=object).reshape(-1).tolist()):
        try:
            result[i] = _as_float(value)
        except (TypeError, ValueError, OverflowError) as error:
            place = f" at index {_index(i, found.shape)}" if found.ndim else ""
            raise ValueError(
                f"{name}: need an array of numbers but got {value!r}{place}; convert it to a "
                "number or leave it out"
            ) from error
    return result.reshape(found.shape)


def refuse_dates(name: str, values: NDArray[Any], other_way: str = "") -> None:
    """Raise `ValueError` if an array holds dates, times or durations, also among other objects.

    NumPy would take them for numbers, of nanoseconds or days as it happens. `other_way` is said
    before the way out that there always is.
    """
    # By name, because pandas, whose type it is, may not be installed.
    found = set(map(type, values.reshape(-1).tolist())) if values.dtype == object else set()
    if values.dtype.kind in "mM" or any(
        issubclass(kind, DATE_TYPES) or kind.__name__ == "Period" for kind in found
    ):
        raise ValueError(f"{name}: {DATES_NOT_TAKEN.format(other_way)}")


def _as_float(value: Any) -> float:
    if isinstance(value, (str, bytes)):
        raise TypeError("text is not read as a number")
    return math.nan if value is None else float(value)


def bad_values_message(
    name: str, values: NDArray[Any], bad: NDArray[np.bool_], fault: str, hint: str = ""
) -> str:
    """How many values of an array are bad, and where and what the first of them is."""
    first = int(np.flatnonzero(bad)[0])
    place = f", the first at index {_index(first, values.shape)}" if values.ndim else ""
    value = values.reshape(-1)[first]
    found = f"{name}: {int(bad.sum())} of {values.size} values are {fault}{place} ({value:g})"
    return f"{found}; {hint}" if hint else found


def _index(place: int, shape: tuple[int, ...]) -> int | tuple[int, ...]:
    """The index of an element, given its place in the flattened array."""
    if len(shape) == 1:
        return place
    return tuple(int(i) for i in np.unravel_index(place, shape))


# Weights, probabilities and intervals


def weight_column(name: str, values: Any, length: int) -> Array:
    """Return one weight for each row, none negative and some of them positive, or raise.

    The weights are divided by the power of two above the largest of them: their ratios stay as
    they are to the last bit, and no sum of them overflows.
    """
    weights = numeric_column(name, values, length, hint="give every row a weight")
    if (weights < 0).any():
        hint = "weights must not be negative; 0 leaves a row out"
        raise ValueError(bad_values_message(name, weights, weights < 0, "negative", hint))
    if not weights.any():
        raise ValueError(
            f"{name}: all weights are zero, which leaves no rows; give some row a weight above 0"
        )
    scaled: Array = np.ldexp(weights, -np.frexp(weights.max())[1])
    return scaled


def checked_levels(name: str, levels: Any) -> Array:
    """Return one or more probabilities strictly between 0 and 1 as a column, or raise."""
    result = np.atleast_1d(numeric_array(name, levels, hint="give numbers between 0 and 1"))
    if result.ndim != 1 or len(result) == 0:
        raise ValueError(f"{name}: need a number or a list of them, got shape {result.shape}")
    wrong = np.flatnonzero((result <= 0) | (result >= 1))
    if len(wrong):
        value = result[wrong[0]].item()
        raise ValueError(f"{name}: must lie strictly between 0 and 1, got {value}")
    return result


def checked_level(name: str, level: Any) -> float:
    """Return a probability strictly between 0 and 1, or raise."""
    if np.ndim(level):
        raise ValueError(f"{name}: need one number, got {level!r}")
    return float(checked_levels(name, level)[0])


def require_ordered(name: str, low: Array, high: Array) -> None:
    """Raise unless no interval's low end is above its high end."""
    crossed = np.flatnonzero(low > high)
    if len(crossed):
        i = int(crossed[0])
        raise ValueError(
            f"{name}: need low <= high, got low={low[i]:g} and high={high[i]:g} at index {i} "
            f"({len(crossed)} of {len(low)} rows); are they swapped?"
        )


def json_entry(data: Any, name: str) -> Any:
    """Return an entry of what a method `to_json` has given, or raise."""
    if not isinstance(data, dict) or name not in data:
        raise ValueError(f"data: need a dict with {name!r}, as to_json gives, got {data!r}")
    return data[name]
