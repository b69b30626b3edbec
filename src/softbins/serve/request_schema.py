"""What a request and its answer look like, for one model: the schema, and the check.

A pydantic class is made from the model's columns. It checks requests, and OpenAPI shows it.
"""

from __future__ import annotations

from typing import Annotated, Any

import pydantic
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, FailFast, create_model

from softbins.serve.fields import Field
from softbins.serve.limits import Limits
from softbins.tabular.frames import MAX_ABSOLUTE_VALUE

DEFAULT_COVERAGE = 0.9
DEFAULT_QUANTILES = (0.1, 0.5, 0.9)
MAX_LABELS_SHOWN = 20
WHAT = {"date": "A date", "time": "A time of day", "duration": "A duration in seconds"}

Number = Annotated[
    float, pydantic.Field(ge=-MAX_ABSOLUTE_VALUE, le=MAX_ABSOLUTE_VALUE, allow_inf_nan=False)
]
Level = Annotated[float, pydantic.Field(gt=0, lt=1)]
STRICT = ConfigDict(extra="forbid", strict=True)


class MeanPrediction(BaseModel):
    """What is predicted for a row by a model that predicts numbers only."""

    mean: float | None = pydantic.Field(description="The predicted mean.")


class Prediction(MeanPrediction):
    """What is predicted for a row; null where a number is not finite."""

    median: float | None = pydantic.Field(description="The predicted median.")
    interval: tuple[float | None, float | None] = pydantic.Field(
        description="Low and high end of the interval for the coverage that was asked for."
    )
    quantiles: dict[str, float | None] = pydantic.Field(
        description="The quantiles by their levels, such as 0.1."
    )


class MeanAnswer(BaseModel):
    """Means, one for each row, in the order of the rows."""

    predictions: list[MeanPrediction]


class Answer(BaseModel):
    """Predictions, one for each row, in the order of the rows."""

    predictions: list[Prediction]


def answer_class(has_distribution: bool) -> type[BaseModel]:
    """What an answer is, for a model that predicts distributions or one that does not."""
    return Answer if has_distribution else MeanAnswer


def request_class(fields: list[Field], has_distribution: bool, limits: Limits) -> type[BaseModel]:
    """What a request is: rows with the fields of the model, and what to predict for them."""
    row = _row_class(fields)
    rows = Annotated[
        list[row],  # type: ignore[valid-type]
        FailFast(),
        pydantic.Field(min_length=1, max_length=limits.rows),
        BeforeValidator(_as_list, json_schema_input_type=row | list[row]),  # type: ignore[valid-type]
    ]
    parts: dict[str, Any] = {"rows": (rows, _described("One row, or a list of rows."))}
    if has_distribution:
        parts |= _distribution_options(limits)
    example: Any = {"rows": [example_row(fields)]}
    config = STRICT | ConfigDict(json_schema_extra={"examples": [example]})
    return create_model("PredictRequest", __config__=config, **parts)


def example_row(fields: list[Field]) -> dict[str, Any]:
    """A typical row."""
    return {field.name: field.typical for field in fields}


def field_number(index: int) -> str:
    """The attribute of a row for the column of that index, whose name may be any text."""
    return f"field_{index}"


def _row_class(fields: list[Field]) -> type[BaseModel]:
    parts: dict[str, Any] = {
        field_number(index): (_type(field), _field_info(field))
        for index, field in enumerate(fields)
    }
    text = "A row by the names of the columns. A key that is left out, or null, is a gap."
    return create_model("Row", __config__=STRICT, __doc__=text, **parts)


def _distribution_options(limits: Limits) -> dict[str, Any]:
    levels = Annotated[list[Level], pydantic.Field(max_length=limits.quantiles)]
    return {
        "coverage": (
            Level,
            _described("The share of targets that intervals are made for.", DEFAULT_COVERAGE),
        ),
        "quantiles": (levels, _described("Levels of quantiles.", list(DEFAULT_QUANTILES))),
    }


def _described(text: str, default: Any = ...) -> Any:
    return pydantic.Field(default, description=text)


def _type(field: Field) -> Any:
    if field.kind in ("empty", "ignored"):
        return Any
    if field.kind == "boolean":
        return bool | None
    if field.written:
        return Annotated[str, AfterValidator(field.check_written)] | None
    return str | None if field.is_text else Number | None


def _field_info(field: Field) -> Any:
    about: Any = {"title": field.name, "description": describe(field), "examples": [field.typical]}
    return pydantic.Field(None, alias=field.name, **about)


def describe(field: Field) -> str:
    """What is known of a column, in a sentence."""
    if field.kind == "empty":
        return "Training had no value here: any value counts as missing."
    if field.kind == "ignored":
        return "A name or free text, of which nothing was learnt: any value does."
    if field.kind == "boolean":
        return "True or false."
    if field.labels:
        shown = ", ".join(str(label) for label in field.labels[:MAX_LABELS_SHOWN])
        more = len(field.labels) - MAX_LABELS_SHOWN
        others = f" and {more} more" if more > 0 else ""
        return f"A category: {shown}{others}. Any other counts as missing."
    what = WHAT.get(field.kind, "A number")
    if field.written:
        what = f"{what} as text, {'with a zone, ' * field.has_zone}such as {field.typical}"
    return f"{what}; {field.range_text}." if field.range_text else f"{what}."


def _as_list(rows: Any) -> Any:
    return [rows] if isinstance(rows, dict) else rows
