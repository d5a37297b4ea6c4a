"""Errors on the wire: problem details (RFC 9457) from the error tree, and back."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

from pydantic import ConfigDict, Field, ValidationError

from contracts.errors import (
    ConfigurationError,
    EmbeddingError,
    EmbeddingUnavailable,
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
TYPE_PREFIX: Final = "urn:sluice:error:"  # RFC 9457 wants a URI, and nothing has to answer there

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
    (EmbeddingUnavailable, HTTPStatus.SERVICE_UNAVAILABLE),
    (EmbeddingError, HTTPStatus.BAD_GATEWAY),
    (ParseError, HTTPStatus.UNPROCESSABLE_ENTITY),
)


class Problem(WireModel):
    """Problem details (RFC 9457) of an error of the tree."""

    model_config = ConfigDict(frozen=True, json_schema_serialization_defaults_required=True)

    type: str = Field(description="A URI that names the kind of problem.")
    title: str = Field(description="What the kind of problem is, the same for each of its kind.")
    status: int = Field(description="The HTTP status.", ge=400, le=599)
    detail: str = Field(description="One sentence: what is wrong, and what to do.")
    error: str = Field(default="SluiceError", description="The class of the error tree.")
    retryable: bool = Field(default=False, description="Whether the same call may do later.")
    exit_status: int = Field(default=1, description="What the command line ends with.")

    @classmethod
    def of(cls, error: SluiceError, status: HTTPStatus | None = None) -> "Problem":
        """The problem that an error is to a caller."""
        return cls(
            type=f"{TYPE_PREFIX}{error.name}",
            title=_title(error),
            status=status or _status_of(error),
            detail=str(error),
            error=error.name,
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
            return cls(type="about:blank", title="", status=status, detail=detail)

    def exception(self) -> SluiceError:
        """The error of the tree, as it was where it was raised."""
        return error_class(self.error)(self.detail)


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


def _title(error: SluiceError) -> str:
    if type(error) is SluiceError:
        return "The stack failed."
    return (type(error).__doc__ or error.name).partition("\n")[0]
