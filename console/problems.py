"""Errors on the wire: problem details (RFC 9457) from the error tree, and back."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

from pydantic import ValidationError

from contracts.errors import (
    ConfigurationError,
    NotReachable,
    ParseError,
    RunError,
    SluiceError,
    SourceError,
    StoreUnavailable,
    UnknownDocument,
    UnknownRun,
    UnknownSource,
)
from contracts.wire import WireModel

MEDIA_TYPE: Final = "application/problem+json"

# The first class that fits decides.
_STATUS: Final[tuple[tuple[type[SluiceError], HTTPStatus], ...]] = (
    (UnknownSource, HTTPStatus.NOT_FOUND),
    (UnknownRun, HTTPStatus.NOT_FOUND),
    (UnknownDocument, HTTPStatus.NOT_FOUND),
    (ConfigurationError, HTTPStatus.BAD_REQUEST),
    (NotReachable, HTTPStatus.SERVICE_UNAVAILABLE),
    (StoreUnavailable, HTTPStatus.SERVICE_UNAVAILABLE),
    (RunError, HTTPStatus.CONFLICT),
    (SourceError, HTTPStatus.BAD_GATEWAY),
    (ParseError, HTTPStatus.UNPROCESSABLE_ENTITY),
)


class Problem(WireModel):
    """Problem details. `type` is the class of the error tree, `detail` its sentence."""

    type: str
    title: str
    status: int
    detail: str
    retryable: bool = False
    exit_status: int = 1

    @classmethod
    def of(cls, error: SluiceError, status: HTTPStatus | None = None) -> "Problem":
        """The problem that an error is to a caller."""
        return cls(
            type=error.name,
            title=(type(error).__doc__ or error.name).partition("\n")[0],
            status=status or _status_of(error),
            detail=str(error),
            retryable=error.retryable,
            exit_status=error.exit_status,
        )

    @classmethod
    def read(cls, body: bytes, status: int) -> "Problem":
        """The problem that a server sent, whatever it sent."""
        try:
            return cls.model_validate_json(body)
        except ValidationError:
            said = body[:200].decode(errors="replace").strip() or "nothing"
            detail = f"the API answered {status} and said {said!r}: see the log of the stack"
            return cls(type="SluiceError", title="", status=status, detail=detail)

    def error(self) -> SluiceError:
        """The error of the tree, as it was where it was raised."""
        return error_class(self.type)(self.detail)


def error_class(name: str | None) -> type[SluiceError]:
    """The class of that name; the nearest that is known otherwise, the root."""
    return next((each for each in _tree(SluiceError) if each.__name__ == name), SluiceError)


def _tree(root: type[SluiceError]) -> Iterator[type[SluiceError]]:
    yield root
    for child in root.__subclasses__():
        yield from _tree(child)


def _status_of(error: SluiceError) -> HTTPStatus:
    fitting = (status for kind, status in _STATUS if isinstance(error, kind))
    return next(fitting, HTTPStatus.INTERNAL_SERVER_ERROR)
