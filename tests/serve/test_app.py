"""What a service answers: the model's own numbers, or one shape of error that names the field."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import numpy as np
import pytest
from fastapi.testclient import TestClient

import softbins
from softbins.serve.app import make_app
from softbins.serve.errors import RequestError
from softbins.serve.fields import model_fields
from softbins.serve.limits import Limits
from softbins.serve.worker import Worker
from tests.serve.served_models import ROWS, frame_of, houses

KINDS = list(ROWS)
WITH_DISTRIBUTION = [kind for kind in KINDS if kind != "l2"]


def predictions(client, body):
    response = client.post("/predict", json=body)
    assert response.status_code == 200, response.text
    return response.json()["predictions"]


def error_of(response):
    """The error in a response, which has always the same shape."""
    assert response.headers["content-type"] == "application/json"
    assert list(response.json()) == ["error"]
    error = response.json()["error"]
    assert list(error) == ["message", "row", "field"]
    return response.status_code, error["message"], error["row"], error["field"]


# Predictions


@pytest.mark.parametrize("kind", WITH_DISTRIBUTION)
def test_predictions_are_those_of_the_model(kind, clients, models):
    model, frame = models[kind], frame_of(kind)
    body = {"rows": ROWS[kind], "coverage": 0.8, "quantiles": [0.05, 0.75]}
    found = predictions(clients[kind], body)
    assert [row["mean"] for row in found] == model.predict(frame).tolist()
    assert [row["median"] for row in found] == model.predict(frame, "median").tolist()
    assert [row["interval"] for row in found] == model.predict_interval(frame, 0.8).tolist()
    quantiles = [[row["quantiles"][level] for level in ("0.05", "0.75")] for row in found]
    assert quantiles == model.predict_quantiles(frame, [0.05, 0.75]).tolist()


# What is wrong with a date, a time or a duration, and what is said.
WRONG_DATES = [
    ({"day": "soon"}, "need a date such as 2024-03-21 or null, got 'soon'"),
    ({"day": "1/2/2024"}, "need a date such as"),
    ({"day": "2024-02-01T12:30Z"}, "need a date such as 2024"),
    ({"day": ""}, "need a date such as"),
    ({"day": 7}, "need a date such as"),
    ({"sold": "2024-02-01"}, "need a date with a zone such as 2024-"),
    ({"time": "25:00"}, "need a time such as "),
    ({"wait": "long"}, "need a number or null"),
]


@pytest.mark.parametrize(("row", "complaint"), WRONG_DATES)
def test_a_wrong_date_is_named(row, complaint, clients):
    code, message, place, field = error_of(clients["dated"].post("/predict", json={"rows": row}))
    assert (code, place, [field]) == (422, 0, list(row))
    assert complaint in message


def test_the_schema_says_how_dates_are_written(clients):
    schema = clients["dated"].get("/openapi.json").json()["components"]["schemas"]["Row"]
    about = {name: part["description"] for name, part in schema["properties"].items()}
    assert about["day"].startswith("A date as text, such as 2024-")
    assert about["day"].endswith("2024-01-31 to 2024-05-12 in training.")
    assert about["sold"].startswith("A date as text, with a zone, such as 2024-")
    assert about["time"].startswith("A time of day as text, such as ")
    assert about["wait"].startswith("A duration in seconds; 0 to ")
    assert "nothing was learnt" in about["name"]


def test_a_model_that_predicts_numbers_gives_means_and_says_so(clients, models):
    client, frame = clients["l2"], frame_of("l2")
    assert predictions(client, {"rows": ROWS["l2"]}) == [{"mean": models["l2"].predict(frame)[0]}]
    refused = error_of(client.post("/predict", json={"rows": ROWS["l2"], "coverage": 0.9}))
    assert refused == (422, "field 'coverage': is not known; there are rows", None, "coverage")
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    assert list(schemas["MeanPrediction"]["properties"]) == ["mean"]
    assert "predicts no distributions" in client.get("/docs").text


def test_one_row_may_stand_alone_and_options_have_defaults(client):
    row = ROWS["houses"][0]
    alone, listed = predictions(client, {"rows": row}), predictions(client, {"rows": [row]})
    assert alone == listed
    explicit = {"rows": [row], "coverage": 0.9, "quantiles": [0.1, 0.5, 0.9]}
    assert predictions(client, explicit) == alone
    assert predictions(client, {"rows": row, "quantiles": []})[0]["quantiles"] == {}


def test_a_number_that_is_not_finite_is_null(models, monkeypatch):
    client = TestClient(make_app(models["l2"]))
    monkeypatch.setattr(type(models["l2"]), "predict", lambda *_: np.array([np.nan, np.inf]))
    found = predictions(client, {"rows": [{}, {}]})
    assert found == [{"mean": None}, {"mean": None}]


def test_the_body_counts_and_not_its_content_type(client):
    plain = client.post("/predict", content=b'{"rows": {}}', headers={"content-type": "text/plain"})
    assert plain.json()["predictions"] == predictions(client, {"rows": {}})


# Refusals

BAD = [
    ("", 400, "the body is not JSON: Expecting value: line 1 column 1 (char 0)", None, None),
    ("\xff", 400, "the body is not JSON: 'utf-8", None, None),
    ("[" * 100_000, 400, "the body is nested too deeply", None, None),
    ('{"rows": {"size": NaN}}', 400, "NaN is not JSON; send null", None, None),
    ('{"rows": {"size": -Infinity}}', 400, "-Infinity is not JSON", None, None),
    ('{"rows": {"size": 1, "size": 2}}', 400, "field 'size': stands twice", None, "size"),
    ("[]", 422, 'need an object such as {"rows": [{...}]}, got []', None, None),
    ('{"size": 1}', 422, "field 'rows': is missing", None, "rows"),
    ('{"rows": 3}', 422, "field 'rows': need one row or a list of rows, got 3", None, "rows"),
    ('{"rows": []}', 422, "field 'rows': need 1 to 1000, got 0", None, "rows"),
    ('{"rows": [{}, 3]}', 422, "row 1: need an object with the columns as keys, got 3", 1, None),
    ('{"rows": {}, "cover": 1}', 422, "field 'cover': is not known; there are ro", None, "cover"),
    ('{"rows": {}, "coverage": 1}', 422, "field 'coverage': need a number bet", None, "coverage"),
    ('{"rows": {}, "coverage": null}', 422, "field 'coverage': need a numb", None, "coverage"),
    ('{"rows": {}, "quantiles": 0.5}', 422, "field 'quantiles': need a list", None, "quantiles"),
    ('{"rows": {}, "quantiles": [0]}', 422, "field 'quantiles': need a list", None, "quantiles"),
    ('{"rows": [{}, {"sise": 1}]}', 422, "row 1, field 'sise': the model has no", 1, "sise"),
    ('{"rows": {"sise": 1}}', 422, "column (did you mean 'size'?)", 0, "sise"),
    ('{"rows": {"size": "big"}}', 422, "need a number or null, got 'big'", 0, "size"),
    ('{"rows": {"size": true}}', 422, "need a number or null, got true", 0, "size"),
    ('{"rows": {"size": [1]}}', 422, "need a number or null, got [1]", 0, "size"),
    ('{"rows": {"size": 1e999}}', 422, "a number of at most 1e38 in size, got inf", 0, "size"),
    ('{"rows": {"size": 1' + "0" * 5000 + "}}", 422, "at most 1e38 in size", 0, "size"),
    ('{"rows": {"size": -1' + "0" * 99 + "}}", 422, "at most 1e38 in size", 0, "size"),
    ('{"rows": {"town": 3}}', 422, "need text or null, got 3", 0, "town"),
    ('{"rows": {"zone": "1"}}', 422, "need a number or null, got '1'", 0, "zone"),
    ('{"rows": {"\\ud800": 1}}', 422, "", 0, None),
]


@pytest.mark.parametrize(("body", "status", "message", "row", "field"), BAD)
def test_what_is_wrong_is_said_with_row_and_field(client, body, status, message, row, field):
    found = error_of(client.post("/predict", content=body.encode("latin-1")))
    assert message in found[1]
    assert "\n" not in found[1]
    assert len(found[1]) < 250
    assert (found[0], *found[2:]) == (status, row, field)


def test_a_boolean_is_no_number(clients):
    found = error_of(clients["boolean"].post("/predict", json={"rows": {"garden": 1}}))
    assert found[1] == "row 0, field 'garden': need true, false or null, got 1"


def test_a_model_of_few_rows_is_served():
    frame, y = houses(8)
    model = softbins.HistogramRegressor((4,), members=2, max_epochs=1, trees=False, random_state=0)
    client = TestClient(make_app(model.fit(frame[["size"]], y)))
    assert len(predictions(client, {"rows": {}, "coverage": 0.99})) == 1
    assert client.post("/", data={"size": "90"}).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/nothing", 404), ("GET", "/predict", 405)]
)
def test_paths_and_methods_that_there_are_not_have_the_shape_of_errors(
    client, method, path, status
):
    found = error_of(client.request(method, path))
    assert found[0] == status
    assert found[1].startswith(f"{method} {path}: ")


def test_a_bug_has_the_shape_of_errors_and_tells_nothing_else(models, monkeypatch):
    client = TestClient(make_app(models["l2"]), raise_server_exceptions=False)
    monkeypatch.setattr(type(models["l2"]), "predict", lambda *_: 1 / 0)
    found = error_of(client.post("/predict", json={"rows": {}}))
    assert found == (500, "the service failed; its log says why", None, None)


# Limits


@pytest.fixture(scope="module")
def small(models):
    limits = Limits(body_bytes=200, rows=3, quantiles=2, body_seconds=0.2)
    return make_app(models["houses"], limits=limits)


def test_rows_and_quantiles_are_limited(small):
    client = TestClient(small)
    assert len(predictions(client, {"rows": [{}] * 3})) == 3
    assert error_of(client.post("/predict", json={"rows": [{}] * 4}))[1].endswith("1 to 3, got 4")
    found = error_of(client.post("/predict", json={"rows": {}, "quantiles": [0.1, 0.2, 0.3]}))
    assert found[1] == "field 'quantiles': need 0 to 2, got 3"


@pytest.mark.parametrize("path", ["/predict", "/"])
def test_a_large_body_is_refused_whatever_its_header_says(small, path):
    client = TestClient(small)
    message = "the body is larger than 200 bytes; send fewer rows"
    assert error_of(client.post(path, content=b" " * 201))[:2] == (413, message)
    endless = {"type": "http.request", "body": b" " * 50, "more_body": True}
    status, body = asyncio.run(asked(small, path, lambda: endless))
    assert (status, body["error"]["message"]) == (413, message)
    assert client.post("/predict", content=b'{"rows": {}}'.ljust(200)).status_code == 200


async def asked(app, path, next_part):
    """Status and content that an application answers to a body in parts, without a length."""
    sent = []

    async def receive():
        part = next_part()
        return part if part is not None else await asyncio.sleep(60)

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": path, "headers": []}
    scope |= {"query_string": b"", "scheme": "http", "http_version": "1.1"}
    scope |= {"server": ("test", 80), "client": ("test", 1), "root_path": ""}
    await app(scope, receive, send)
    return sent[0]["status"], json.loads(sent[1]["body"])


def test_a_body_that_does_not_arrive_is_given_up(small):
    parts = [{"type": "http.request", "body": b"{", "more_body": True}]
    status, body = asyncio.run(asked(small, "/predict", lambda: parts.pop() if parts else None))
    assert (status, body["error"]["message"]) == (408, "no whole body after 0.2 seconds")


def test_what_waits_is_limited_and_done_in_turn():
    worker = Worker(Limits(waiting_rows=30, rows_per_request=10))

    async def at_once(*rows):
        done = []
        jobs = [worker.run(count, lambda count=count: done.append(count)) for count in rows]
        results = await asyncio.gather(*jobs, return_exceptions=True)
        return done, [getattr(result, "status", None) for result in results]

    assert asyncio.run(at_once(5, 5)) == ([5, 5], [None, None])
    # A single request is taken whatever its size, and what failed does not count for ever.
    assert asyncio.run(at_once(100, 1, 2)) == ([100], [None, 503, 503])
    assert asyncio.run(at_once(1, 2, 3)) == ([1, 2], [None, None, 503])


def test_a_client_that_is_refused_is_told_when_to_come_back():
    response = RequestError(503, "later").response()
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")


# Descriptions


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_describes_requests_and_answers(kind, clients):
    client = clients[kind]
    schema = client.get("/openapi.json").json()
    body = schema["paths"]["/predict"]["post"]["requestBody"]["content"]["application/json"]
    request = {**body["schema"], "components": schema["components"]}
    wanted = schema["components"]["schemas"]["PredictRequest"]["examples"][0]
    jsonschema.validate(wanted, request)
    jsonschema.validate({"rows": ROWS[kind]}, request)
    for wrong in ({"rows": {"other": 1}}, {"rows": 3}, {}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, request)
    answers = schema["paths"]["/predict"]["post"]["responses"]["200"]["content"]
    answer = {**answers["application/json"]["schema"], "components": schema["components"]}
    jsonschema.validate(client.post("/predict", json=wanted).json(), answer)


def test_the_schema_has_the_columns_of_the_model(clients):
    schema = clients["houses"].get("/openapi.json").json()["components"]["schemas"]["Row"]
    columns = schema["properties"]
    assert list(columns) == ["size", "garden", "town", "zone", "nothing"]
    assert columns["town"]["description"].startswith("A category: ")
    assert "Bönen" in columns["town"]["description"]
    types = {name: [one["type"] for one in columns[name].get("anyOf", [])] for name in columns}
    assert types["size"] == types["zone"] == ["number", "null"]
    assert types["town"] == ["string", "null"]
    unnamed = clients["nameless"].get("/openapi.json").json()["components"]["schemas"]["Row"]
    assert unnamed["properties"]["x1"]["description"].endswith(" in training.")
    known = clients["boolean"].get("/openapi.json").json()["components"]["schemas"]["Row"]
    assert known["properties"]["size"]["description"] == "A number; 50 to 150.5 in training."


def test_health_says_what_is_served(clients):
    found = clients["boolean"].get("/health").json()
    assert found == {
        "status": "ok",
        "model": "boolean.model",
        "target": "price",
        "columns": 2,
        "softbins": softbins.__version__,
    }


@pytest.mark.parametrize("kind", KINDS)
def test_the_example_of_the_page_is_what_the_service_answers(kind, clients, parsed):
    page = parsed(clients[kind].get("/docs").text)
    wanted, shown = (json.loads(page[name]) for name in ("request", "answer"))
    assert clients[kind].post("/predict", json=wanted).json() == shown


@pytest.fixture
def parsed():
    """Read the texts of the elements with an id."""
    from html.parser import HTMLParser

    def read(text):
        found, parser = {}, HTMLParser()
        parser.handle_starttag = lambda _tag, attributes: found.update(
            {"": dict(attributes).get("id")}
        )
        parser.handle_data = lambda data: found.setdefault(found.get("") or "none", data)
        parser.feed(text)
        return found

    return read


# Models that cannot be served


def test_a_model_has_to_be_fitted_and_its_names_to_differ(models):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        make_app(softbins.NeuralRegressor())
    twice = SimpleNamespace(columns_=replace(models["nameless"].columns_, names=["size", "size"]))
    with pytest.raises(ValueError, match="model: has two columns 'size'; fit it with names that"):
        model_fields(twice)


def test_the_page_about_it_says_the_limits():
    text = (Path(__file__).parents[2] / "docs" / "serve.md").read_text().replace("1 000 000", "1e6")
    limits = Limits()
    assert limits.body_bytes == 1e6
    for words in (
        f"within {limits.body_seconds:g} seconds",
        "larger than 1e6 bytes",
        f"more than {limits.rows} rows or {limits.quantiles} quantiles",
    ):
        assert words in text
