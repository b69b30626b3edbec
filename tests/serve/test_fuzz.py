"""Whatever is sent, the answer is a prediction or a refusal in the shape of errors."""

import json
import math

from hypothesis import given, settings
from hypothesis import strategies as st

ANY_NUMBER = st.one_of(
    st.integers(), st.floats(), st.just(10**400), st.sampled_from([0, 1, 0.5, 1e38, -1e39])
)
ANY_VALUE = st.one_of(
    st.none(), st.booleans(), ANY_NUMBER, st.text(), st.sampled_from(["Aachen", "\ud800", "NaN"])
)
ANY_JSON = st.recursive(
    ANY_VALUE, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8
)
NAMES = st.sampled_from(["size", "garden", "town", "zone", "nothing", "", "size ", "\udfff"])
ROW = st.dictionaries(NAMES, st.one_of(ANY_VALUE, ANY_JSON), max_size=5)
REQUEST = st.fixed_dictionaries(
    {"rows": st.one_of(ROW, st.lists(ROW, max_size=4), ANY_JSON)},
    optional={
        "coverage": st.one_of(st.floats(0, 1), st.sampled_from([0.999, 1e-9]), ANY_JSON),
        "quantiles": st.one_of(st.lists(st.floats(0, 1), max_size=5), ANY_JSON),
        "other": ANY_JSON,
    },
)


def check(response):
    """The answer is one of the two kinds, and holds finite numbers only."""
    content = json.loads(response.content, parse_constant=lambda name: 1 / 0)
    if response.status_code != 200:
        assert response.status_code in (400, 413, 422)
        assert list(content) == ["error"]
        assert list(content["error"]) == ["message", "row", "field"]
        assert content["error"]["message"]
        return
    for row in content["predictions"]:
        low, high = row["interval"]
        numbers = [row["mean"], row["median"], low, high, *row["quantiles"].values()]
        assert all(math.isfinite(number) for number in numbers)
        assert low <= high


@settings(max_examples=40)
@given(st.floats(0, 1), st.lists(st.floats(0, 1), max_size=3))
def test_any_coverage_and_quantiles_of_a_good_row(client, coverage, quantiles):
    body = {"rows": [{"size": 90.5}], "coverage": coverage, "quantiles": quantiles}
    check(client.post("/predict", json=body))


@settings(max_examples=80)
@given(REQUEST)
def test_any_request(client, request_body):
    check(client.post("/predict", content=json.dumps(request_body)))


@settings(max_examples=100)
@given(st.one_of(st.binary(), ANY_JSON.map(lambda value: json.dumps(value).encode())))
def test_any_body(client, body):
    check(client.post("/predict", content=body))


@settings(max_examples=20)
@given(st.dictionaries(NAMES.filter(str.isascii), st.text(max_size=8), max_size=4))
def test_any_text_in_the_form(client, texts):
    response = client.post("/", data=texts)
    assert response.status_code in (200, 422)
    assert ('class="remark" role="alert"' in response.text) == (response.status_code == 422)
