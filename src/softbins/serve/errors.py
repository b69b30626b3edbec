"""What is wrong with a request, in the one shape that every error of a service has.

    {"error": {"message": "row 2, field 'size': need a number or null, got 'big'",
               "row": 2, "field": "size"}}

Rows count from 0. `row` and `field` are null where the error is not about one.
"""

from __future__ import annotations

import json
import logging
from typing import Any

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

MAX_FIELD_CHARACTERS = 80
logger = logging.getLogger("uvicorn.error")


class ErrorDetail(BaseModel):
    """What is wrong, and where."""

    message: str = Field(description="What is wrong and what is needed, in one line.")
    row: int | None = Field(default=None, description="The row it is about, from 0.")
    field: str | None = Field(default=None, description="The field or column it is about.")


class Error(BaseModel):
    """The body of every answer that is not a success."""

    error: ErrorDetail


class RequestError(Exception):
    """A request that cannot be answered, with its HTTP status."""

    def __init__(
        self, status: int, problem: str, *, row: int | None = None, field: str | None = None
    ) -> None:
        self.status, self.row = status, row
        self.field = None if field is None else field[:MAX_FIELD_CHARACTERS]
        self.headers = {"retry-after": "1"} if status == 503 else {}
        places = [] if row is None else [f"row {row}"]
        places += [] if field is None else [f"field {self.field!r}"]
        self.message = ": ".join([", ".join(places), problem] if places else [problem])
        super().__init__(self.message)

    def response(self) -> Response:
        """The answer that says it."""
        return json_response(self.content, self.status, self.headers)

    @property
    def content(self) -> dict[str, Any]:
        """What the answer holds."""
        return {"error": {"message": self.message, "row": self.row, "field": self.field}}


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Plain data as an answer, in ASCII: half of a surrogate pair could not be sent otherwise."""
    text = json.dumps(value, allow_nan=False)
    return Response(text, status, headers, media_type="application/json")


def add_error_handlers(app: FastAPI) -> None:
    """Give all errors the one shape, also those for paths and methods that there are not."""

    @app.exception_handler(RequestError)
    async def refuse(_request: Request, error: RequestError) -> Response:
        return error.response()

    @app.exception_handler(HTTPException)
    async def refuse_path(request: Request, error: HTTPException) -> Response:
        problem = f"{request.method} {request.url.path[:MAX_FIELD_CHARACTERS]}: {error.detail}"
        response = RequestError(error.status_code, problem).response()
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(Exception)
    async def apologize(_request: Request, _error: Exception) -> Response:
        # The server writes the traceback to its log.
        return RequestError(500, "the service failed; its log says why").response()
