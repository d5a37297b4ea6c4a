"""The key of the API: every call but `/healthz` carries it as a bearer token (RFC 6750)."""

import secrets
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from console.answers import answer
from console.problems import Problem
from contracts.errors import ConfigurationError

# A supervisor may ask whether we live without being told a secret; the answer says nothing else.
OPEN_PATHS = frozenset({"/healthz"})


class BearerKey:
    """Middleware that lets nobody in without the key."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app = app
        self._expected = key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the call on, or answer 401."""
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("authorization")
        if given is not None and self._knows(given):
            await self._app(scope, receive, send)
            return
        error = ConfigurationError(
            "the key of the API is missing or wrong: it is in api.json of the stack's state folder"
        )
        challenge = "Bearer" if given is None else 'Bearer error="invalid_token"'
        problem = Problem.of(error, HTTPStatus.UNAUTHORIZED)
        await answer(problem, {"WWW-Authenticate": challenge})(scope, receive, send)

    def _knows(self, given: str) -> bool:
        scheme, _, token = given.partition(" ")
        known = secrets.compare_digest(token.strip().encode(errors="replace"), self._expected)
        return known and scheme.lower() == "bearer"
