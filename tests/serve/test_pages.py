"""The form and its answer as HTML; tests/browser looks at them in a browser."""

import re

import pytest

from softbins.serve import pages
from softbins.serve.fields import Field
from tests.serve.served_models import ROWS, frame_of


def numbers(text):
    return [float(value) for value in re.findall(r'<data value="([^"]+)"', text)]


def test_the_form_starts_with_a_typical_row(client):
    text = client.get("/").text
    assert re.search(r'name="size" value="[\d.]+" type="number"', text)
    assert '<option value="&lt;b&gt;&amp;amp;"' in text
    assert '<option value="1">1</option>' in text.replace(" selected", "")
    assert "always missing" in text
    assert numbers(text) == []


def test_the_form_predicts_what_the_model_does(client, models):
    row = {"size": "90.5", "garden": "True", "town": "Aachen", "zone": "2"}
    response = client.post("/", data=row)
    model, frame = models["houses"], frame_of("houses")[:1]
    expected = [*model.predict(frame), *model.predict(frame, "median")]
    expected += [*model.predict_interval(frame)[0], *model.predict_quantiles(frame, [0.1, 0.9])[0]]
    assert numbers(response.text) == expected
    assert response.text.count("<svg") == 1
    assert 'value="90.5"' in response.text
    assert '<option value="Aachen" selected>' in response.text


def test_a_model_that_predicts_numbers_has_no_picture(clients, models):
    text = clients["l2"].post("/", data={"x0": "0.5", "x1": "-1"}).text
    assert numbers(text) == models["l2"].predict(frame_of("l2")).tolist()
    assert "<svg" not in text


def test_what_the_model_remembers_is_shown(clients):
    text = clients["boolean"].post("/", data={"size": "", "garden": "false"}).text
    assert "<h1>Predict price</h1>" in text
    assert "50 to 150.5 in training" in text
    assert '<option value="false" selected>' in text
    assert ">price</text>" in text


@pytest.mark.parametrize(
    ("text", "message"),
    [("big", "need a number or null, got &#39;big&#39;"), ("nan", "at most 1e38 in size")],
)
def test_a_wrong_field_is_marked_and_keeps_its_text(client, text, message):
    response = client.post("/", data={"size": text})
    assert response.status_code == 422
    assert f"field &#39;size&#39;: {message}" in response.text.replace("need a number of ", "")
    assert f'value="{text}" type="number" step="any" placeholder="missing" aria-invalid="true"' in (
        response.text
    )


def test_a_form_that_cannot_be_read_is_refused(client):
    assert client.post("/", content=b"\xff").status_code == 400
    assert client.post("/", content="&".join(["size=1"] * 50)).status_code == 400


def test_many_categories_are_suggested_instead_of_listed():
    field = Field("town", "category", "t0", tuple(f"t{number}" for number in range(60)))
    text = pages.Pages("a model", None, [field]).form({"town": "t3"})
    assert '<datalist id="input-0-list">' in text
    assert "<select" not in text
    assert pages.describe(field).endswith("t19 and 40 more. Any other counts as missing.")


def test_every_page_stays_at_home(clients):
    for path in ("/", "/docs"):
        for kind in ROWS:
            text = clients[kind].get(path).text
            assert "default-src 'none'" in text
            assert not re.findall(r'(?:src|href|action)="(?!data:|docs|openapi\.json|\./|")', text)
