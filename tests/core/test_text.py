"""Values as text, for people and for programs."""

import json
import math

from softbins._core.text import aligned, json_text, shown


def test_text_for_people_and_for_programs():
    assert aligned([["a", "b"], ["long", "c"]]) == "a     b\nlong  c"
    assert shown({"low": 0.123456, "sizes": [1, 2]}) == "low 0.1235, sizes 1, 2"
    strange = {"a": math.nan, "b": [math.inf, 1], "c": (1.5, None)}
    assert json.loads(json_text(strange)) == {"a": None, "b": [None, 1], "c": [1.5, None]}
