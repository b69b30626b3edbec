"""Where a fitted estimator comes from: the version, the time, the rows and their columns, scores.

It is written to the header of a model file. Nothing here needs torch.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from numbers import Integral
from typing import Any, Self

import numpy as np

from softbins.tabular.categories import CategoryEncoder
from softbins.tabular.columns import Columns, Encoder, LeftOutEncoder
from softbins.tabular.data import TrainingData
from softbins.tabular.dates import DateEncoder, moment_text
from softbins.tabular.frames import ColumnKind
from softbins.tabular.text_kind import REASONS

FIXED_TIME = "SOURCE_DATE_EPOCH"
# What a file has of each column beside its encoder, which has all the rest.
STORED_OF_COLUMNS = ("missing", "low", "high")
# Kinds of which a file has the smallest and the largest number.
NUMERIC_KINDS = ("number", "duration")


@dataclass(frozen=True)
class ColumnSummary:
    """What training rows had in one column.

    Attributes
    ----------
    name : str or None
        The column's name, None if X had no names.
    kind : str
        What the column was taken for: "number", "boolean", "category", "date", "time",
        "duration", "empty" or, if nothing was learnt from it, "ignored".
    missing : int or None
        Rows without a value, which count as such: of a column of more categories than are
        remembered (1000), the rows of all others as well. None where a file does not say it,
        and for a column that was ignored.
    low, high : float, str or None
        Smallest and largest number, of durations in seconds; for dates as text. None for a column
        of another kind.
    distinct : int or None
        Categories that are remembered, None for a column of another kind.
    remark : str or None
        What was made of a date, or why a column was ignored.
    """

    name: str | None
    kind: ColumnKind
    missing: int | None
    low: float | str | None
    high: float | str | None
    distinct: int | None
    remark: str | None = None


@dataclass(frozen=True)
class Provenance:
    """Where a fitted estimator comes from; `provenance_` of an estimator, also after `load`.

    Attributes
    ----------
    version : str
        The version of softbins that fitted it.
    fitted_at : str
        When the fit began, such as "2026-01-31T12:00:00Z" (ISO 8601, UTC). The environment
        variable SOURCE_DATE_EPOCH, seconds since 1970, sets it: equal seeds give equal files then.
    target : str or None
        The name of the target: that of `y`, if it is a Series whose name is text.
    seed : int or None
        The `random_state`, if it was a number.
    rows : int
        Rows that were learnt from; those of weight 0 are not.
    fingerprint : str
        SHA-256 of the rows in their order, in hexadecimal digits: of the encoded features, the
        targets and the weights as float64, and of how columns were encoded (kinds, medians,
        categories and how many rows had each). It covers no names of columns. Rows that encode
        alike, such as two rare categories of as many rows each that are exchanged everywhere,
        look alike to it.
    columns : tuple of ColumnSummary
        What the rows had in each column.
    folds : str
        Which rows were held out: "random" ones, whole "groups", later ones than others ("time"),
        or as "given"; with the name of the column that says it, where there is one.
    scores : dict
        Errors on rows that were held out, by name; empty if none were. For `HistogramRegressor`
        "mae", "rmse" and "crps", of all held-out rows, each predicted by the networks and trees
        that have not seen it. For `NeuralRegressor` "mae" and "rmse" in the epoch that was kept,
        averaged over the members.

    Examples
    --------
    >>> from softbins import NeuralRegressor
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0.0, 1.0, 2.0, 3.0]
    >>> model = NeuralRegressor("l2", hidden=(8,), max_epochs=2, random_state=7).fit(X, y)
    >>> about = model.provenance_
    >>> about.seed, about.rows, about.columns[0].high
    (7, 4, 3.0)
    """

    version: str
    fitted_at: str
    target: str | None
    seed: int | None
    rows: int
    fingerprint: str
    columns: tuple[ColumnSummary, ...]
    folds: str = "random"
    scores: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of_fit(
        cls,
        data: TrainingData,
        *,
        columns: Columns,
        fitted_at: str,
        target: str | None,
        random_state: Any,
        scores: Mapping[str, float],
    ) -> Self:
        """The provenance of what was fitted to these data, whose target has that name.

        `columns` are those of the data, with what was learnt of them since.
        """
        from softbins import __version__

        return cls(
            version=__version__,
            fitted_at=fitted_at,
            target=target,
            seed=int(random_state) if isinstance(random_state, Integral) else None,
            rows=data.n_rows,
            fingerprint=fingerprint(data),
            columns=_summaries_of_data(data, columns),
            folds=data.order.text,
            # By name, as in a file.
            scores={name: scores[name] for name in sorted(scores) if np.isfinite(scores[name])},
        )

    def to_json(self) -> dict[str, Any]:
        """Everything as plain JSON, for a model file, without what its columns say as well."""
        value = asdict(self)
        value["columns"] = [_stored(column) for column in value["columns"]]
        return value

    @classmethod
    def from_header(cls, header: Mapping[str, Any]) -> Self | None:
        """What the header of a model file says; None for a file of an older version."""
        found = header.get("provenance")
        if found is None:
            return None
        return cls(**(found | {"columns": column_summaries(header)}))


def time_of_fit() -> str:
    """Now, or the time that SOURCE_DATE_EPOCH asks for, in UTC."""
    given = os.environ.get(FIXED_TIME)
    try:
        now = datetime.now(UTC) if given is None else datetime.fromtimestamp(int(given), UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise ValueError(
            f"{FIXED_TIME}: need whole seconds since 1970, got {given!r}; change it or unset it"
        ) from error
    return f"{now.replace(tzinfo=None).isoformat(timespec='seconds')}Z"


def target_name(y: Any) -> str | None:
    """The name of a Series, if it is text that a file can hold."""
    name = getattr(y, "name", None)
    if not isinstance(name, str) or not name:
        return None
    try:
        name.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return None
    return str(name)


def fingerprint(data: TrainingData) -> str:
    """The SHA-256 of the rows; `Provenance` says what it covers."""
    found = data.encoded.digest.copy()
    for part in (data.target, data.weight):
        if part is not None and not data.is_on_disk:  # where the digest has seen all
            found.update(np.ascontiguousarray(part, dtype="<f8").data)
    return str(found.hexdigest())


# Columns


def _stored(column: dict[str, Any]) -> dict[str, Any]:
    """What a file has of a column: not the ends of dates, which their encoder has."""
    ends = {name: column[name] for name in STORED_OF_COLUMNS}
    return ends | {name: None for name, end in ends.items() if isinstance(end, str)}


def _summaries_of_data(data: TrainingData, columns: Columns) -> tuple[ColumnSummary, ...]:
    ends = np.cumsum([len(each.features(0)) for each in data.columns.encoders]).tolist()
    places = pairwise([0, *ends])
    seen = [
        _seen(encoder, data, start, end)
        for encoder, (start, end) in zip(data.columns.encoders, places, strict=True)
    ]
    return _summaries(columns, seen)


def _seen(encoder: Encoder, data: TrainingData, start: int, end: int) -> dict[str, Any]:
    """What a file has of a column, whose features are those from `start` to `end`."""
    if isinstance(encoder, LeftOutEncoder):
        return dict.fromkeys(STORED_OF_COLUMNS)
    if isinstance(encoder, CategoryEncoder):
        # Of rows with a known category, one of these features is 1, whichever rows counted them.
        known = data.encoded.total[start : start + min(encoder.one_hot + 1, len(encoder.labels))]
        return {"missing": data.n_rows - int(known.sum()), "low": None, "high": None}
    missing = int(data.encoded.total[end - 1]) if encoder.gaps else 0
    if encoder.kind not in NUMERIC_KINDS:
        return {"missing": missing, "low": None, "high": None}
    # Where a value is missing stands the median, which is no smaller or larger than the others.
    low, high = (float(ends[start]) for ends in (data.encoded.low, data.encoded.high))
    return {"missing": missing, "low": low, "high": high}


def column_summaries(header: Mapping[str, Any]) -> tuple[ColumnSummary, ...]:
    """What the header of a model file says of the columns, of any version."""
    columns = Columns.from_json(header["columns"])
    unknown = [dict.fromkeys(STORED_OF_COLUMNS)] * len(columns.encoders)
    return _summaries(columns, header.get("provenance", {}).get("columns", unknown))


def _summaries(columns: Columns, seen: list[dict[str, Any]]) -> tuple[ColumnSummary, ...]:
    names: list[Any] = columns.names or [None] * len(columns.encoders)
    return tuple(
        ColumnSummary(
            name=name,
            kind=encoder.kind,
            distinct=len(encoder.labels) if isinstance(encoder, CategoryEncoder) else None,
            **(found | _in_words(encoder)),
        )
        for name, encoder, found in zip(names, columns.encoders, seen, strict=True)
    )


def _in_words(encoder: Encoder) -> dict[str, Any]:
    """What is said of a column in words and not in numbers."""
    if isinstance(encoder, LeftOutEncoder):
        return {"remark": f"left out: {REASONS[encoder.left_out]}"}
    if isinstance(encoder, DateEncoder):
        low, high = (moment_text(end, encoder.zone) for end in (encoder.low, encoder.high))
        made = ", ".join(["elapsed days", *encoder.parts])
        clock = "" if encoder.zone is None else f" ({encoder.zone})"
        return {"low": low, "high": high, "remark": f"as {made}{clock}"}
    if isinstance(encoder, CategoryEncoder):
        slopes = ", and slopes along other columns" if encoder.slope_columns else ""
        remark = f"as frequency, mean target and effect{slopes}"
        return {} if encoder.means is None else {"remark": remark}
    remarks = {"time": "as seconds since midnight", "duration": "in seconds"}
    return {"remark": remarks[encoder.kind]} if encoder.kind in remarks else {}
