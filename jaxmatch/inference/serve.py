"""A web service for a trained model: POST /predict, POST /rank and GET /health, with FastAPI."""

import threading
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from jaxmatch.errors import InputError, rounded
from jaxmatch.inference.matcher import Matcher

Text = Annotated[str, Field(min_length=1)]
AT_ONCE = 2  # requests that predict at the same time; the others wait


class PairsRequest(BaseModel):
    """The body of POST /predict."""

    pairs: list[tuple[Text, Text]]


class RankRequest(BaseModel):
    """The body of POST /rank, the arguments of `Matcher.rank`."""

    query: Text
    candidates: list[Text]
    top_k: Annotated[int | None, Field(ge=1)] = None
    label: str | None = None


def service(matcher: Matcher, max_pairs: int = 256, max_bytes: int = 1_000_000) -> FastAPI:
    """Returns the service for a model.

    Arguments:
      matcher: the model.
      max_pairs: the maximum number of pairs, or of candidates, of a request; more are answered with status 413.
      max_bytes: the maximum size of a request's body; a larger one is answered with status 413.
    """
    app, at_once = FastAPI(title="jaxmatch", description=repr(matcher)), threading.Semaphore(AT_ONCE)

    @app.middleware("http")
    async def check_size(request: Request, answer: Callable) -> Any:
        size = request.headers.get("content-length")
        if request.method == "POST" and size is None:
            return JSONResponse({"detail": "the request does not state its Content-Length"}, 411)
        if int(size or 0) > max_bytes:
            return JSONResponse({"detail": f"the body has more than {max_bytes:,} bytes"}, 413)
        return await answer(request)

    # FastAPI's own answer repeats the input, which may not fit in JSON.
    @app.exception_handler(RequestValidationError)
    @app.exception_handler(InputError)
    def refuse(request: Request, error: ValueError) -> JSONResponse:
        detail = "{loc}: {msg}".format(**error.errors()[0]) if isinstance(error, RequestValidationError) else str(error)
        return JSONResponse({"detail": detail}, status_code=422)

    def check(number: int) -> None:
        if number > max_pairs:
            raise HTTPException(413, f"the request has more than {max_pairs:,} pairs")

    @app.get("/health")
    def health() -> dict[str, Any]:
        return {"status": "ok", "model": repr(matcher), "task": matcher.task, "labels": list(matcher.labels)}

    @app.post("/predict")
    def predict(request: PairsRequest) -> list[dict[str, Any]]:
        check(len(request.pairs))
        with at_once:
            return [rounded(vars(one)) for one in matcher.predict(request.pairs)]

    @app.post("/rank")
    def rank(request: RankRequest) -> list[dict[str, Any]]:
        check(len(request.candidates))
        with at_once:
            found = matcher.rank(request.query, request.candidates, request.top_k, request.label)
        return [rounded(vars(one)) for one in found]

    return app
