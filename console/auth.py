"""The key of the API: every call but `/healthz` carries it as a bearer token (RFC 6750)."""

import secrets
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from console.problems import MEDIA_TYPE, Problem
from contracts.errors import ConfigurationError

OPEN_PATHS = frozenset({"/healthz"})


class BearerKey:
    """Middleware that lets nobody in without the key."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app = app
        self._expected = f"Bearer {key}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the call on, or answer 401."""
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS or self._knows(scope):
            await self._app(scope, receive, send)
            return
        error = ConfigurationError(
            "the key of the API is missing or wrong: it is in api.json of the stack's state folder"
        )
        response = JSONResponse(
            Problem.of(error, HTTPStatus.UNAUTHORIZED).model_dump(),
            status_code=HTTPStatus.UNAUTHORIZED,
            media_type=MEDIA_TYPE,
            headers={"WWW-Authenticate": "Bearer"},
        )
        await response(scope, receive, send)

    def _knows(self, scope: Scope) -> bool:
        given = Headers(scope=scope).get("authorization", "")
        return secrets.compare_digest(given.encode(errors="replace"), self._expected)
