"""The application: its paths, and what each of them does."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse
from sklearn.utils.validation import check_is_fitted

import softbins
from softbins.serve.answers import answer, predicted_row
from softbins.serve.errors import Error, RequestError, add_error_handlers, json_response
from softbins.serve.fields import model_fields, target_name
from softbins.serve.limits import Limits
from softbins.serve.pages import Pages
from softbins.serve.request_reader import RequestReader
from softbins.serve.request_schema import answer_class, example_row
from softbins.serve.worker import Worker

REFERENCE = "#/components/schemas/{model}"
ERRORS = {
    400: "The body is not JSON.",
    408: "The body took too long to arrive.",
    413: "The body is too large.",
    422: "The content is wrong; the error names the row and the field.",
    503: "Too many requests are waiting; try again.",
}


def make_app(model: Any, name: str = "a model", limits: Limits | None = None) -> FastAPI:
    """Make a web application that predicts with a fitted model.

    It has the paths `/predict`, `/health`, `/docs`, `/openapi.json`, and a form at `/`. Any ASGI
    server runs it, and it can be mounted in an application of your own.

    Parameters
    ----------
    model : HistogramRegressor or NeuralRegressor
        A fitted estimator.
    name : str, default="a model"
        What the pages call it.
    limits : Limits, optional
        How much a request may hold.

    Returns
    -------
    FastAPI
        The application.

    Examples
    --------
    >>> from fastapi.testclient import TestClient
    >>> from softbins import NeuralRegressor
    >>> from softbins.serve.app import make_app
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0.0, 1.0, 2.0, 3.0]
    >>> model = NeuralRegressor("l2", hidden=(8, 4), max_epochs=2).fit(X, y)
    >>> client = TestClient(make_app(model))
    >>> list(client.post("/predict", json={"rows": {"x0": 1.5}}).json()["predictions"][0])
    ['mean']
    """
    check_is_fitted(model)
    app = FastAPI(
        title=f"softbins: {name}", version=softbins.__version__, docs_url=None, redoc_url=None
    )
    add_error_handlers(app)
    _Service(model, name, limits or Limits()).add_to(app)
    return app


class _Service:
    """A model with all that answers requests for it."""

    def __init__(self, model: Any, name: str, limits: Limits) -> None:
        self.model, self.name, self.limits = model, name, limits
        self.has_distribution = bool(model.objective_.has_distribution)
        fields, named = model_fields(model), model.columns_.names is not None
        self.reader = RequestReader(fields, named, self.has_distribution, limits)
        self.pages = Pages(name, target_name(model), fields)
        self.worker = Worker(limits)
        # Answered once, which also loads all that later requests need.
        example = {"rows": [example_row(fields)]}
        self.interface = self.pages.interface(
            example, answer(model, self.reader.read(example)), self.has_distribution, limits
        )

    def add_to(self, app: FastAPI) -> None:
        """Give an application the paths of the service."""
        responses: dict[int | str, dict[str, Any]] = {
            status: {"model": Error, "description": text} for status, text in ERRORS.items()
        }
        responses[200] = {"model": answer_class(self.has_distribution)}
        content = {"schema": {"$ref": REFERENCE.format(model="PredictRequest")}}
        app.post(
            "/predict",
            summary="Predict rows",
            responses=responses,
            response_class=Response,
            openapi_extra={
                "requestBody": {"required": True, "content": {"application/json": content}}
            },
        )(self.predict)
        app.get("/health", summary="Whether the service is up")(self.health)
        pages: dict[str, Any] = {"response_class": HTMLResponse, "include_in_schema": False}
        app.get("/", **pages)(self.form)
        app.post("/", **pages)(self.filled_form)
        app.get("/docs", **pages)(self.docs)
        app.openapi = partial(self.openapi, app)  # type: ignore[method-assign]

    async def predict(self, request: Request) -> Response:
        """What the model predicts for each row, in the order of the rows."""
        wanted = self.reader.read_json(await read_body(request, self.limits))
        work = partial(answer, self.model, wanted)
        return json_response(await self.worker.run(len(wanted.frame), work))

    async def health(self) -> dict[str, Any]:
        """Which model is served, by which version."""
        about = {"status": "ok", "model": self.name, "target": self.pages.target}
        return about | {"columns": len(self.pages.fields), "softbins": softbins.__version__}

    async def form(self) -> str:
        """The form with a typical row in it."""
        return self.pages.form(self.pages.typical_texts())

    async def filled_form(self, request: Request) -> Response:
        """The form as it was sent, with the prediction or with what is wrong."""
        body = await read_body(request, self.limits)
        texts: dict[str, str] = {}
        try:
            texts, row = self.reader.read_form(body)
            wanted = self.reader.read({"rows": [row]})
            work = partial(self._predicted_form, texts, wanted)
            return HTMLResponse(await self.worker.run(1, work))
        except RequestError as error:
            page = self.pages.form(texts, error=error)
            return HTMLResponse(page, error.status, error.headers)

    def _predicted_form(self, texts: dict[str, str], wanted: Any) -> str:
        return self.pages.form(texts, predicted_row(self.model, wanted))

    async def docs(self) -> str:
        """The description of the interface."""
        return self.interface

    def openapi(self, app: FastAPI) -> dict[str, Any]:
        """The description for programs, with the columns of the model."""
        if app.openapi_schema is None:
            schema = get_openapi(title=app.title, version=app.version, routes=app.routes)
            wanted = self.reader.schema.model_json_schema(ref_template=REFERENCE)
            schema["components"]["schemas"] |= wanted.pop("$defs") | {"PredictRequest": wanted}
            app.openapi_schema = schema
        return app.openapi_schema


async def read_body(request: Request, limits: Limits) -> bytes:
    """The body of a request, unless it is too large, whatever its header says, or too slow."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:20]) > limits.body_bytes:
        raise _too_large(limits)
    try:
        async with asyncio.timeout(limits.body_seconds):
            return await _read_limited(request, limits)
    except TimeoutError:
        raise RequestError(408, f"no whole body after {limits.body_seconds:g} seconds") from None


async def _read_limited(request: Request, limits: Limits) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > limits.body_bytes:
            raise _too_large(limits)
    return bytes(body)


def _too_large(limits: Limits) -> RequestError:
    return RequestError(413, f"the body is larger than {limits.body_bytes} bytes; send fewer rows")
