"""Responses: how problems are sent, and how the document of the API declares every answer."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from starlette.responses import JSONResponse

from console.problems import MEDIA_TYPE, Problem
from contracts.errors import (
    AccessRefused,
    ConfigurationError,
    NotReachable,
    RollbackRefused,
    SluiceError,
    UnknownSource,
)

# What any call with the key may meet; reading calls have nothing more than this and a 404.
ALWAYS: Final = (
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.SERVICE_UNAVAILABLE,
)
WITH_BODY: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)

_EXAMPLES: Final[Mapping[HTTPStatus, tuple[str, SluiceError]]] = {
    HTTPStatus.BAD_REQUEST: (
        "The request is well formed, and what it names can't be used.",
        ConfigurationError("No source is named; say which sources to search."),
    ),
    HTTPStatus.UNAUTHORIZED: (
        "The key is missing or wrong.",
        ConfigurationError(
            "the key of the API is missing or wrong: it is in api.json of the stack's state folder"
        ),
    ),
    HTTPStatus.NOT_FOUND: (
        "What is named isn't there.",
        UnknownSource("there is no source 'handbok'"),
    ),
    HTTPStatus.CONFLICT: (
        "The source or the run is in another state than this needs.",
        RollbackRefused("sequence 3 of handbook isn't retained"),
    ),
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: (
        "The body is too large.",
        ConfigurationError("a request of more than 4 MiB isn't taken: send it in parts"),
    ),
    HTTPStatus.UNPROCESSABLE_ENTITY: (
        "The request isn't what this operation takes.",
        ConfigurationError("limit is wrong: Input should be less than or equal to 1000"),
    ),
    HTTPStatus.INTERNAL_SERVER_ERROR: (
        "The stack failed.",
        SluiceError("the stack failed (KeyError): see its log"),
    ),
    HTTPStatus.BAD_GATEWAY: (
        "The source, or the endpoint of the embedder, refuses us or fails.",
        AccessRefused("the bucket handbook refuses us: see its policy"),
    ),
    HTTPStatus.SERVICE_UNAVAILABLE: (
        "A part of the stack doesn't answer now; the same call may do later.",
        NotReachable("'crawl' needs the source's coordinator: start the stack with `sluice up`"),
    ),
}


def answer(problem: Problem, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """The response that carries a problem."""
    return JSONResponse(
        problem.model_dump(), status_code=problem.status, headers=headers, media_type=MEDIA_TYPE
    )


def declared(
    example: object, *more: HTTPStatus, status: HTTPStatus = HTTPStatus.OK, listing: bool = False
) -> dict[int | str, dict[str, Any]]:
    """The `responses` of an operation.

    Args:
        example: of the answer, as JSON.
        more: statuses of problems beside those that every operation may end with.
        status: that of the answer.
        listing: whether the answer may name a next page.
    """
    success: dict[str, Any] = {"content": {"application/json": {"example": example}}}
    if listing:
        success["headers"] = {"Link": _LINK}
    problems: dict[int | str, dict[str, Any]] = {
        int(each): _problem(each) for each in sorted({*ALWAYS, *more})
    }
    return {int(status): success, **problems}


_LINK: Final = {
    "description": "The next page, if there is one, with `rel=next` (RFC 8288).",
    "schema": {"type": "string"},
    "example": '</sources?limit=100&after=handbook>; rel="next"',
}


def _problem(status: HTTPStatus) -> dict[str, Any]:
    description, error = _EXAMPLES[status]
    content = {
        "schema": {"$ref": "#/components/schemas/Problem"},
        "example": Problem.of(error, status).model_dump(mode="json"),
    }
    response: dict[str, Any] = {"description": description, "content": {MEDIA_TYPE: content}}
    if status is HTTPStatus.UNAUTHORIZED:
        challenge = {"description": "How to come in (RFC 6750).", "schema": {"type": "string"}}
        response["headers"] = {"WWW-Authenticate": challenge}
    return response
