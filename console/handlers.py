"""Every error that leaves a route, or that finds none, as problem details."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Match, Route

from console.answers import answer
from console.problems import Problem
from contracts.errors import ConfigurationError, SluiceError

log = structlog.get_logger("console")

OF_THE_ROUTE: Final = {HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED}


def add_handlers(app: FastAPI) -> None:
    """Answer each kind of error as a problem; `app.state.routes` are all that there are."""
    app.exception_handler(SluiceError)(_of_the_tree)
    app.exception_handler(RequestValidationError)(_wrong_request)
    app.exception_handler(HTTPException)(_no_route)
    app.exception_handler(Exception)(_unforeseen)


async def _of_the_tree(_request: Request, error: SluiceError) -> JSONResponse:
    return answer(Problem.of(error))


async def _wrong_request(_request: Request, error: RequestValidationError) -> JSONResponse:
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part != "body") or "the body"
    wrong = ConfigurationError(f"{place} is wrong: {first['msg']}")
    return answer(Problem.of(wrong, HTTPStatus.UNPROCESSABLE_ENTITY))


async def _no_route(request: Request, error: HTTPException) -> JSONResponse:
    status = HTTPStatus(error.status_code)
    detail = error.detail.lower() if status in OF_THE_ROUTE else error.detail
    where = " in this API" if status in OF_THE_ROUTE else ""
    wrong = ConfigurationError(f"{request.method} {request.url.path}: {detail}{where}")
    headers = dict(error.headers or {})
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(_methods(request))
    return answer(Problem.of(wrong, status), headers)


async def _unforeseen(_request: Request, error: Exception) -> JSONResponse:
    log.error("request failed", error=type(error).__name__, exc_info=error)
    return answer(
        Problem.of(SluiceError(f"the stack failed ({type(error).__name__}): see its log"))
    )


def _methods(request: Request) -> list[str]:
    """What the path can be asked for: of all its routes, where the framework names the first."""
    routes: Sequence[BaseRoute] = request.app.state.routes
    plain = (route for route in routes if isinstance(route, Route))
    matching = (route for route in plain if route.matches(request.scope)[0] is not Match.NONE)
    return sorted({method for route in matching for method in route.methods or ()})
