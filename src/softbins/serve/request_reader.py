"""The body of a request becomes a checked table: strict JSON, and errors that name the field."""

from __future__ import annotations

import json
import math
import reprlib
from dataclasses import dataclass
from typing import Any, NoReturn
from urllib.parse import parse_qsl

import numpy as np
from pydantic import ValidationError

from softbins._core.extras import optional_import
from softbins._core.text import did_you_mean
from softbins.serve.errors import RequestError
from softbins.serve.fields import Field, Value
from softbins.serve.limits import Limits
from softbins.serve.request_schema import (
    DEFAULT_COVERAGE,
    DEFAULT_QUANTILES,
    field_number,
    request_class,
)

# Longer ones are larger than any number that is taken, and Python is slow to read them.
MAX_DIGITS = 300
BAD_JSON, BAD_CONTENT = 400, 422


@dataclass(frozen=True)
class PredictRequest:
    """Rows as a data frame that the model takes, and what to predict for them."""

    frame: Any
    coverage: float = DEFAULT_COVERAGE
    quantiles: tuple[float, ...] = DEFAULT_QUANTILES


class RequestReader:
    """Reads requests for a model with these fields."""

    def __init__(
        self, fields: list[Field], named: bool, has_distribution: bool, limits: Limits
    ) -> None:
        self.fields, self.named, self.limits = fields, named, limits
        self.schema = request_class(fields, has_distribution, limits)
        self._names = [field.name for field in fields]
        self._options = [name for name in self.schema.model_fields if name != "rows"]

    def read_json(self, body: bytes) -> PredictRequest:
        """Read a body of JSON."""
        return self.read(parse_json(body))

    def read_form(self, body: bytes) -> tuple[dict[str, str], dict[str, Value]]:
        """Read a body that a form sent: the text of each field, and the row that it means."""
        try:
            pairs = parse_qsl(
                body.decode(), keep_blank_values=True, max_num_fields=2 * len(self.fields)
            )
        except ValueError as error:
            raise RequestError(BAD_JSON, f"the form cannot be read: {error}") from error
        texts = dict(pairs)
        kinds = {field.name: field for field in self.fields}
        return texts, {name: _form_value(kinds.get(name), text) for name, text in pairs}

    def read(self, content: Any) -> PredictRequest:
        """Check plain data, and make a table of its rows."""
        try:
            checked: Any = self.schema.model_validate(content)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            raise self._refusal(first) from error
        options = {name: getattr(checked, name) for name in self._options}
        if options:
            options["quantiles"] = tuple(options["quantiles"])
        return PredictRequest(self._frame(checked.rows), **options)

    def _frame(self, rows: list[Any]) -> Any:
        """The rows in columns of the types that the model was trained with."""
        columns = {}
        for index, field in enumerate(self.fields):
            values = [getattr(row, field_number(index)) for row in rows]
            # Without names if training had none, because scikit-learn warns of new ones.
            columns[field.name if self.named else index] = _column(field, values)
        return optional_import("pandas", "serve").DataFrame(columns)

    # Errors

    def _refusal(self, error: Any) -> RequestError:
        """What pydantic found, as a sentence that names the row and the field."""
        match error["loc"]:
            case ():
                need = 'need an object such as {"rows": [{...}]}'
                return RequestError(BAD_CONTENT, f"{need}, got {shown(error['input'])}")
            case ("rows", int(row), *rest):
                return self._row_refusal(error, row, str(rest[0]) if rest else None)
            case (option, *_):
                return self._option_refusal(error, str(option))
        raise AssertionError(error["loc"])

    def _row_refusal(self, error: Any, row: int, name: str | None) -> RequestError:
        if name is None:
            need = f"need an object with the columns as keys, got {shown(error['input'])}"
            return RequestError(BAD_CONTENT, need, row=row)
        if error["type"] == "extra_forbidden":
            problem = f"the model has no such column{did_you_mean(name, self._names)}"
        else:
            needed = next(field.needed for field in self.fields if field.name == name)
            if error["type"] in ("less_than_equal", "greater_than_equal", "finite_number"):
                needed = "a number of at most 1e38 in size"
            problem = f"need {needed}, got {shown(error['input'])}"
        return RequestError(BAD_CONTENT, problem, row=row, field=name)

    def _option_refusal(self, error: Any, name: str) -> RequestError:
        limits, kind = self.limits, error["type"]
        if kind == "extra_forbidden":
            problem = f"is not known; there are {', '.join(['rows', *self._options])}"
        elif kind == "missing":
            problem = 'is missing; need an object such as {"rows": [{...}]}'
        elif kind in ("too_short", "too_long"):
            least, most = (1, limits.rows) if name == "rows" else (0, limits.quantiles)
            problem = f"need {least} to {most}, got {len(error['input'])}"
        elif name == "rows":
            problem = f"need one row or a list of rows, got {shown(error['input'])}"
        else:
            many = "a list of numbers" if name == "quantiles" else "a number"
            problem = f"need {many} between 0 and 1, got {shown(error['input'])}"
        return RequestError(BAD_CONTENT, problem, field=name)


def shown(value: Any) -> str:
    """A value of a request as an error shows it: as JSON, and never long."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return reprlib.repr(value)


# JSON


def parse_json(body: bytes) -> Any:
    """Read JSON as it is defined: in UTF-8, without NaN, and no key twice in an object."""
    try:
        return json.loads(
            body.decode("utf-8-sig"),
            object_pairs_hook=_object,
            parse_constant=_refuse_constant,
            parse_int=_whole,
        )
    except RecursionError:
        raise RequestError(BAD_JSON, "the body is nested too deeply") from None
    except ValueError as error:
        raise RequestError(BAD_JSON, f"the body is not JSON: {error}") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise RequestError(BAD_JSON, "stands twice in an object", field=name)
        found[name] = value
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise RequestError(BAD_JSON, f"{name} is not JSON; send null where no value is known")


def _whole(digits: str) -> float:
    return int(digits) if len(digits) <= MAX_DIGITS else float(digits)


# Columns


def _column(field: Field, values: list[Value]) -> Any:
    if field.kind in ("number", "duration"):
        return np.array([math.nan if value is None else value for value in values], dtype=float)
    if field.kind in ("empty", "ignored"):
        return np.full(len(values), math.nan)
    return optional_import("pandas", "serve").Series(values, dtype=object)


def _form_value(field: Field | None, text: str) -> Value:
    """The value that the text of a form means, or the text itself if it means none."""
    if text == "" or field is None:
        return None if text == "" else text
    if field.kind == "boolean":
        return {"true": True, "false": False}.get(text, text)
    return text if field.is_text else _number(text)


def _number(text: str) -> Value:
    try:
        return float(text)
    except ValueError:
        return text
