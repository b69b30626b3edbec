"""Rules for plain data that was read from a file: what each value has to be.

    person = Fields({"name": Text(), "age": Optional(Whole(0, 150))})
    person.check("person", {"name": "Ada", "age": -1})
    # ValueError: person.age: need None or a whole number from 0 to 150, got -1

Nothing is computed from a value before its type and its size are known: JSON has numbers of
thousands of digits, and Python's own parser takes NaN.
"""

from __future__ import annotations

import re
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# The largest whole number up to which float64 has all of them.
MAX_WHOLE = 2**53


class Rule(ABC):
    """What a value has to be; `str(rule)` says it in words."""

    @abstractmethod
    def check(self, place: str, value: Any) -> None:
        """Raise a `ValueError` with the place, the rule and the value, unless the value fits."""

    def _refuse(self, place: str, value: Any) -> None:
        raise ValueError(f"{place}: need {self}, got {reprlib.repr(value)}")


@dataclass(frozen=True)
class Whole(Rule):
    """A whole number from `low` to `high`."""

    low: int = 0
    high: int = MAX_WHOLE

    def check(self, place: str, value: Any) -> None:
        """Raise unless it is one."""
        if type(value) is not int or not self.low <= value <= self.high:
            self._refuse(place, value)

    def __str__(self) -> str:
        return f"a whole number from {self.low} to {self.high}"


@dataclass(frozen=True)
class Number(Rule):
    """A number from `low` to `high`, which NaN is not."""

    low: float
    high: float

    def check(self, place: str, value: Any) -> None:
        """Raise unless it is one."""
        if type(value) not in (int, float) or not self.low <= value <= self.high:
            self._refuse(place, value)

    def __str__(self) -> str:
        return f"a number from {self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class OneOf(Rule):
    """One of a few values, of the same type: True is not 1."""

    values: tuple[Any, ...]

    def check(self, place: str, value: Any) -> None:
        """Raise unless it is one of them."""
        if not any(type(value) is type(known) and value == known for known in self.values):
            self._refuse(place, value)

    def __str__(self) -> str:
        return " or ".join(map(repr, self.values))


@dataclass(frozen=True)
class Text(Rule):
    """Text, all of which matches the pattern if there is one."""

    pattern: str | None = None

    def check(self, place: str, value: Any) -> None:
        """Raise unless it is such text."""
        if type(value) is not str or (self.pattern and not re.fullmatch(self.pattern, value)):
            self._refuse(place, value)

    def __str__(self) -> str:
        return "text" if self.pattern is None else f"text such as {self.pattern}"


@dataclass(frozen=True)
class Optional(Rule):
    """None, or what another rule wants."""

    rule: Rule

    def check(self, place: str, value: Any) -> None:
        """Raise unless it is None or fits the other rule."""
        if value is not None:
            self.rule.check(place, value)

    def __str__(self) -> str:
        return f"None or {self.rule}"


@dataclass(frozen=True)
class AnyOf(Rule):
    """What at least one of several rules wants."""

    rules: tuple[Rule, ...]

    def check(self, place: str, value: Any) -> None:
        """Raise unless it fits one of the rules."""
        if not any(_fits(rule, value) for rule in self.rules):
            self._refuse(place, value)

    def __str__(self) -> str:
        return " or ".join(map(str, self.rules))


@dataclass(frozen=True)
class ListOf(Rule):
    """A list of `shortest` to `longest` values that all fit a rule."""

    rule: Rule
    shortest: int = 0
    longest: int = MAX_WHOLE

    def check(self, place: str, value: Any) -> None:
        """Raise unless it is such a list."""
        if type(value) is not list or not self.shortest <= len(value) <= self.longest:
            self._refuse(place, value)
        for index, item in enumerate(value):
            self.rule.check(f"{place}[{index}]", item)

    def __str__(self) -> str:
        return f"a list of {self.shortest} or more, each {self.rule}"


@dataclass(frozen=True)
class Fields(Rule):
    """An object with all `required` fields, and of others only those that are `optional`.

    If there is a rule for `others`, fields of any other name are taken as well.
    """

    required: Mapping[str, Rule]
    optional: Mapping[str, Rule] = field(default_factory=dict)
    others: Rule | None = None

    def check(self, place: str, value: Any) -> None:
        """Raise unless it is such an object."""
        if type(value) is not dict:
            self._refuse(place, value)
        missing = [name for name in self.required if name not in value]
        if missing:
            raise ValueError(f"{place}.{missing[0]}: is missing")
        for name, item in value.items():
            rule = self.required.get(name) or self.optional.get(name) or self.others
            if rule is None:
                raise ValueError(f"{place}: unknown field {reprlib.repr(name)}")
            rule.check(f"{place}.{name}", item)

    def __str__(self) -> str:
        return f"an object with {', '.join(self.required)}"


def _fits(rule: Rule, value: Any) -> bool:
    try:
        rule.check("", value)
    except ValueError:
        return False
    return True
