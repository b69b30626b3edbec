"""The columns of a model as fields of a request and of a form."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from softbins.tabular.categories import CategoryEncoder
from softbins.tabular.columns import Encoder, LeftOutEncoder
from softbins.tabular.date_text import TIME_FORMAT, DateTextError, parse
from softbins.tabular.dates import DateEncoder, clock_text, iso_text
from softbins.tabular.encoded_feature import Label
from softbins.tabular.frames import ColumnKind

Value = bool | float | str | None


@dataclass(frozen=True)
class Field:
    """A column of a model, under the key that it has in a row.

    `typical` is the median, or the most frequent category, of the training rows; `labels` are the
    known categories, most frequent first. The range is known if the model remembers it. Dates and
    times are text, `written` as in training, and `has_zone` says whether dates name a zone.
    """

    name: str
    kind: ColumnKind
    typical: Value
    labels: tuple[Label, ...] = ()
    low: float | str | None = None
    high: float | str | None = None
    written: str = ""
    has_zone: bool = False

    @property
    def is_text(self) -> bool:
        """Whether a value is text: the name of a category, a date or a time."""
        return bool(self.written) or (bool(self.labels) and isinstance(self.labels[0], str))

    @property
    def range_text(self) -> str:
        """The range of values in training, empty if it is not known."""
        if self.low is None or self.high is None:
            return ""
        low, high = (end if isinstance(end, str) else f"{end:g}" for end in (self.low, self.high))
        return f"{low} to {high} in training"

    @property
    def needed(self) -> str:
        """What a value has to be, in words."""
        if self.kind in ("empty", "ignored"):
            return "anything"
        if self.kind == "boolean":
            return "true, false or null"
        if self.written:
            zone = " with a zone" if self.has_zone else ""
            return f"a {self.kind}{zone} such as {self.typical} or null"
        return "text or null" if self.is_text else "a number or null"

    def check_written(self, text: str) -> str:
        """The text if it is a date or a time as in training, or `ValueError`."""
        if (parse(text, self.written).offset is None) == self.has_zone:
            raise DateTextError(text, "has a zone where training had none, or none")
        return text


def model_fields(model: Any) -> list[Field]:
    """One field for each column, in the order of the columns.

    Columns without names are called x0, x1 and so on.
    """
    encoders = model.columns_.encoders
    names = model.columns_.names or [f"x{index}" for index in range(len(encoders))]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"model: has two columns {twice[0]!r}; fit it with names that differ")
    known = getattr(getattr(model, "provenance_", None), "columns", None)
    ranges = [(None, None)] * len(names) if known is None else [(c.low, c.high) for c in known]
    return [
        _field(name, encoder, *ends)
        for name, encoder, ends in zip(names, encoders, ranges, strict=True)
    ]


def target_name(model: Any) -> str | None:
    """The name of what is predicted, if the model remembers it."""
    return getattr(getattr(model, "provenance_", None), "target", None)


def _field(name: str, encoder: Encoder, low: Any, high: Any) -> Field:
    if isinstance(encoder, CategoryEncoder):
        return Field(name, encoder.kind, _plain(encoder.labels[0]), tuple(encoder.labels))
    if encoder.kind == "empty" or isinstance(encoder, LeftOutEncoder):
        return Field(name, encoder.kind, None)
    if isinstance(encoder, DateEncoder):
        typical, has_zone = iso_text(encoder.fill, encoder.zone), encoder.zone is not None
        return Field(name, "date", typical, (), low, high, encoder.written, has_zone)
    if encoder.kind == "time":
        return Field(name, "time", clock_text(encoder.fill), (), low, high, TIME_FORMAT)
    if encoder.kind == "boolean":
        return Field(name, encoder.kind, encoder.fill > 0.5)
    return Field(name, encoder.kind, _plain(encoder.fill), (), low, high)


def _plain(value: Label) -> Label:
    """3 for 3.0, as people write it."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
