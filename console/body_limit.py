"""How large a request may be: what is larger is refused before it is kept."""

from http import HTTPStatus
from typing import Final

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from console.answers import answer
from console.problems import Problem
from contracts.errors import ConfigurationError

LARGEST_BODY: Final = 4 * 2**20  # bytes; a thousand long document keys
SENTENCE: Final = (
    f"a request of more than {LARGEST_BODY // 2**20} MiB isn't taken: send it in parts"
)


class LimitedBody:
    """Middleware that reads no more than `LARGEST_BODY` of a request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the call on, or answer 413; a body of unknown length is counted as it comes."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = Headers(scope=scope).get("content-length", "")
        if announced.isdecimal() and int(announced) > LARGEST_BODY:
            error = ConfigurationError(SENTENCE)
            refused = Problem.of(error, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            await answer(refused)(scope, receive, send)
            return
        taken = 0

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > LARGEST_BODY:
                raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, SENTENCE)
            return message

        await self._app(scope, counted, send)
