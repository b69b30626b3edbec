"""The pages of a service: a form to try one row by hand, and a description of the interface.

They request nothing from elsewhere, need no script, and work below any path of a proxy.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

import softbins
from softbins._core.extras import optional_import
from softbins._core.figures import Picture
from softbins._core.text import shown
from softbins.serve.answers import PredictedRow
from softbins.serve.density_picture import density_picture
from softbins.serve.errors import RequestError
from softbins.serve.fields import Field
from softbins.serve.limits import Limits
from softbins.serve.request_schema import DEFAULT_COVERAGE, describe

# Of more categories than this a list is tedious, and suggestions while typing are not.
MAX_CHOICES = 50


@dataclass(frozen=True)
class Pages:
    """Writes the pages for one model."""

    model_name: str
    target: str | None
    fields: list[Field]

    def form(
        self,
        texts: dict[str, str],
        predicted: PredictedRow | None = None,
        error: RequestError | None = None,
    ) -> str:
        """The form with these texts in it, and what came of them."""
        picture = self._picture(predicted)
        numbers = [] if predicted is None else number_lines(predicted.numbers)
        return self._page(
            "form.html",
            inputs=[_Input(field, texts.get(field.name, "")) for field in self.fields],
            numbers=numbers,
            picture=picture,
            error=error,
        )

    def typical_texts(self) -> dict[str, str]:
        """What stands in the form at first: a typical row."""
        return {field.name: _text(field.typical) for field in self.fields}

    def interface(
        self,
        example: dict[str, Any],
        answer: dict[str, Any],
        has_distribution: bool,
        limits: Limits,
    ) -> str:
        """The page that describes the interface, with an example that was really answered."""
        return self._page(
            "interface.html",
            fields=self.fields,
            describe=describe,
            example=json.dumps(example, indent=2, ensure_ascii=False),
            answer=json.dumps(answer, indent=2),
            has_distribution=has_distribution,
            limits=limits,
        )

    def _picture(self, predicted: PredictedRow | None) -> Picture | None:
        if predicted is None or predicted.distribution is None:
            return None
        return density_picture(
            predicted.distribution, predicted.numbers, DEFAULT_COVERAGE, self.target
        )

    def _page(self, template: str, **values: Any) -> str:
        known = {"model": self.model_name, "target": self.target, "version": softbins.__version__}
        text: str = _environment().get_template(template).render(**known, **values)
        return text


@cache
def _environment() -> Any:
    """Jinja's environment, made once because it keeps its templates compiled."""
    jinja2 = optional_import("jinja2", "serve")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("softbins.serve"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["shown"] = shown
    return environment


@dataclass(frozen=True)
class _Input:
    """A field of the form, with the text that stands in it."""

    field: Field
    text: str

    @property
    def kind(self) -> str:
        """How it is drawn: "choice", "suggestions", "text", "number" or "nothing"."""
        if self.field.kind in ("empty", "ignored"):
            return "nothing"
        if self.field.written:
            return "text"
        if self.choices:
            return "choice" if len(self.choices) <= MAX_CHOICES else "suggestions"
        return "number"

    @property
    def choices(self) -> list[str]:
        """The values that there are to choose from."""
        if self.field.kind == "boolean":
            return ["true", "false"]
        return [_text(label) for label in self.field.labels]

    @property
    def hint(self) -> str:
        """The range of a number or a date in training, if it is known."""
        return self.field.range_text


def number_lines(numbers: dict[str, Any]) -> list[tuple[str, list[float | None]]]:
    """What is predicted as lines of a table, without the quantile that is the median."""
    lines = [("mean", [numbers["mean"]])]
    if "interval" in numbers:
        lines += [
            ("median", [numbers["median"]]),
            (f"{DEFAULT_COVERAGE:.0%} interval", numbers["interval"]),
        ]
    quantiles = {float(level): at for level, at in numbers.get("quantiles", {}).items()}
    return lines + [(f"{q:.0%} quantile", [at]) for q, at in quantiles.items() if q != 0.5]


def _text(value: Any) -> str:
    """A value as it stands in the form."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
