"""Values as text, for people and for programs."""

import json
import math

import pytest

from softbins._core.text import (
    aligned,
    json_text,
    number_text,
    printable,
    shortened,
    shortened_alike,
    shown,
    wrapped,
)


def test_text_for_people_and_for_programs():
    assert aligned([["a", "b"], ["long", "c"]]) == "a     b\nlong  c"
    assert shown({"low": 0.123456, "sizes": [1, 2]}) == "low 0.1235, sizes 1, 2"
    strange = {"a": math.nan, "b": [math.inf, 1], "c": (1.5, None)}
    assert json.loads(json_text(strange)) == {"a": None, "b": [None, 1], "c": [1.5, None]}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.123456, "0.1235"),
        (12.0, "12"),
        (999.96, "1000"),
        (-12345.678, "-12346"),
        (123456789.0, "123456789"),
        (1234567890.0, "1.235e+09"),
        (0.0000123456, "1.235e-05"),
        (math.inf, "inf"),
        (math.nan, "nan"),
    ],
)
def test_numbers_are_written_out_where_that_is_readable(value, text):
    assert number_text(value) == text


def test_one_column_is_wrapped_where_a_line_would_be_too_long():
    rows = [["name", "a few words", "1"], ["long name", "x" * 14, "2"]]
    assert wrapped(rows, 20, column=1).splitlines() == [
        "name       a few   1",
        "           words",
        "long name  xxxxxx  2",
        "           xxxxxx",
        "           xx",
    ]
    assert wrapped(rows, 80, column=1) == aligned(rows)


def test_long_names_keep_their_ends_which_tell_them_apart():
    assert shortened("0123456789", 5) == "01…89"
    assert shortened("0123456789", 6) == "012…89"
    assert shortened("01234", 5) == "01234"


def test_names_that_differ_in_their_middle_are_told_apart():
    sensors = [f"sensor number {i} of the plant" for i in (3, 7, 118)]
    assert shortened_alike(sensors, 18) == [
        "…ensor number 3…",
        "…ensor number 7…",
        "…ensor number 118…",
    ]
    assert shortened_alike(sensors, 40) == sensors
    ends = [f"temperature of room {i}" for i in (1, 2)]
    assert shortened_alike(ends, 9) == [shortened(name, 9) for name in ends]
    assert shortened_alike(["abcdefgh", "abcdefgh"], 5) == ["ab…gh"] * 2


def test_text_for_a_terminal_commands_nothing():
    assert printable("Bö\n\x1b[31m\u2028😀") == "Bö\\n\\x1b[31m\\u2028😀"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (290312.7, "290313"),
        (1950.0, "1950"),
        (1.23456, "1.235"),
        (0.99999999, "0.99999999"),
        (-1e-7, "-1e-07"),
        (3e12, "3e+12"),
    ],
)
def test_numbers_are_short(value, text):
    assert number_text(value) == text
