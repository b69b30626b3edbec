"""Rules for plain data from a file: what fits, what does not, and what the complaint says."""

import pytest

from softbins._core.json_rules import AnyOf, Fields, ListOf, Number, OneOf, Optional, Text, Whole

PERSON = Fields({"name": Text(), "age": Optional(Whole(0, 150))}, optional={"size": Number(0, 3)})
FITTING = [
    (Whole(1, 3), [1, 2, 3]),
    (Number(-1, 1), [-1, 0.5, 1.0]),
    (OneOf(("a", 1, None)), ["a", 1, None]),
    (Text(), ["", "a"]),
    (Text("[0-9]{2}"), ["12"]),
    (Optional(Whole()), [None, 0]),
    (AnyOf((Whole(), ListOf(Text()))), [3, [], ["a"]]),
    (ListOf(Whole(), shortest=1, longest=2), [[1], [1, 2]]),
    (PERSON, [{"name": "Ada", "age": 36}, {"name": "Ada", "age": None, "size": 1.7}]),
    (Fields({}, others=Text()), [{}, {"any": "text"}]),
]
OTHERS = [
    (Whole(1, 3), [0, 4, 2.0, True, "2", None, 10**4000, [2], {}]),
    (Number(-1, 1), [-2, 1.01, float("nan"), float("inf"), 10**4000, True, "0", None, [0]]),
    (OneOf(("a", 1, None)), ["b", True, 1.0, False, ["a"], {}]),
    (Text(), [0, None, ["a"], b"a"]),
    (Text("[0-9]{2}"), ["123", "1", "12\n", 12]),
    (Optional(Whole()), [-1, "", False]),
    (AnyOf((Whole(), ListOf(Text()))), [-1, [1], "a", None]),
    (ListOf(Whole(), shortest=1, longest=2), [[], [1, 2, 3], [-1], (1,), {0: 1}, "1"]),
    (PERSON, [{}, {"name": "Ada"}, {"name": 1, "age": 1}, [], None, "name"]),
    (PERSON, [{"name": "Ada", "age": 36, "wise": True}, {"name": "Ada", "age": 1, "size": 4}]),
    (Fields({}, others=Text()), [{"any": 1}]),
]


@pytest.mark.parametrize(("rule", "values"), FITTING)
def test_what_fits(rule, values):
    for value in values:
        rule.check("place", value)


@pytest.mark.parametrize(("rule", "values"), OTHERS)
def test_what_does_not_fit(rule, values):
    for value in values:
        with pytest.raises(ValueError, match=r"^place[.:\[]"):
            rule.check("place", value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"name": "Ada", "age": -1}, "header.age: need a whole number from 0 to 150, got -1"),
        ({"name": "Ada"}, "header.age: is missing"),
        ({"name": "Ada", "age": 1, "wise": 1}, "header: unknown field 'wise'"),
        ([1], "header: need an object with name, age, got [1]"),
    ],
)
def test_complaints_name_place_rule_and_value(value, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        PERSON.check("header", value)
    assert str(caught.value) == message


def test_complaints_stay_short():
    with pytest.raises(ValueError, match="got .*\\.\\.\\.") as caught:
        ListOf(Whole()).check("header", "x" * 10**6)
    assert len(str(caught.value)) < 200
