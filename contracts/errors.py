"""The error tree.

    SluiceError
    ├── ConfigurationError              a setting or an argument is wrong
    │   ├── UnknownSource               no source of that name
    │   ├── UnknownRun                  the source has no run of that number
    │   ├── UnknownDocument             nothing is known of a document of that key
    │   └── UnknownKind                 no source kind of that name is installed
    ├── NotReachable                 R  a server that we need does not answer
    ├── SourceError                     a source could not be read
    │   ├── DocumentGone                the document is not there any more
    │   ├── DocumentChanged          R  the pinned version is not there any more
    │   ├── AccessRefused               the source refuses us
    │   └── SourceUnavailable        R  the source does not answer, or asks to wait
    ├── ParseError                      content that could not become text
    │   ├── CorruptDocument             the content is damaged
    │   ├── EncryptedDocument           the content needs a password
    │   ├── OversizedDocument           larger than a limit
    │   ├── UnsupportedDocument         no parser for this type
    │   ├── EmptyDocument               there is nothing to index
    │   ├── MissingText                 pages without text, and OCR is off
    │   ├── DangerousDocument           a bomb or another breach of a security limit
    │   ├── ParserTimedOut              the parser's time ran out
    │   └── ParserDied                  the parser's process died of this content
    ├── EmbeddingError
    │   ├── EmbeddingRefused            the endpoint refuses these texts or our key
    │   └── EmbeddingUnavailable     R  the endpoint does not answer, or asks to wait
    ├── StorageError
    │   ├── ObjectMissing               the object store has no such object
    │   └── StoreUnavailable         R  a store does not answer, is full or is locked
    ├── RunError
    │   ├── Fenced                      a newer token exists: the work must stop
    │   ├── PromotionRefused            the compare-and-set found another state
    │   ├── RollbackRefused             the sequence is not retained
    │   └── StageMismatch               a store does not hold what the catalog says
    ├── UndecodableMessage              a message that no decoder understands
    └── UnexpectedFailure            R  a fault of ours, met while working on a document

R: retryable. Every class says so in `retryable`; `exit_status` is what the
command line ends with.
"""

from typing import ClassVar


class SluiceError(Exception):
    """The root: one sentence that says what is wrong and what to do."""

    retryable: ClassVar[bool] = False
    exit_status: ClassVar[int] = 1

    @property
    def name(self) -> str:
        """The class name, as outcomes and the command line show it."""
        return type(self).__name__


class ConfigurationError(SluiceError):
    """A setting or an argument is wrong."""

    exit_status = 2


class UnknownSource(ConfigurationError):
    """No source of that name exists."""


class UnknownRun(ConfigurationError):
    """The source has no run of that number."""


class UnknownDocument(ConfigurationError):
    """Nothing is known of a document of that key."""


class UnknownKind(ConfigurationError):
    """No source kind of that name is installed."""


class NotReachable(SluiceError):
    """A server that we need does not answer."""

    retryable = True
    exit_status = 3


class SourceError(SluiceError):
    """A source could not be read."""


class DocumentGone(SourceError):
    """The document is not at its source any more."""


class DocumentChanged(SourceError):
    """The version that this run pinned is not at its source any more."""

    retryable = True


class AccessRefused(SourceError):
    """The source refuses our credentials or their rights."""


class SourceUnavailable(SourceError):
    """The source does not answer, or asks us to wait."""

    retryable = True
    exit_status = 3


class ParseError(SluiceError):
    """Content could not become text."""


class CorruptDocument(ParseError):
    """The content is damaged."""


class EncryptedDocument(ParseError):
    """The content needs a password."""


class OversizedDocument(ParseError):
    """The content, or what it expands to, is larger than a limit."""


class UnsupportedDocument(ParseError):
    """No parser knows this type of content."""


class EmptyDocument(ParseError):
    """The content has nothing to index."""


class MissingText(ParseError):
    """Pages have no text layer, and optical character recognition is off."""


class DangerousDocument(ParseError):
    """The content breaks a security limit: a bomb, a trap, too deep a nesting."""


class ParserTimedOut(ParseError):
    """The parser did not finish in its time and was killed."""


class ParserDied(ParseError):
    """The parser's process died of this content (memory limit, crash)."""


class EmbeddingError(SluiceError):
    """Texts could not become vectors."""


class EmbeddingRefused(EmbeddingError):
    """The endpoint refuses these texts, this model or our key."""


class EmbeddingUnavailable(EmbeddingError):
    """The endpoint does not answer, or asks us to wait.

    Args:
        message: what happened.
        retry_after: seconds that the endpoint asked us to wait, if it said so.
    """

    retryable = True

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class StorageError(SluiceError):
    """The object store, the catalog or an index failed."""


class ObjectMissing(StorageError):
    """The object store has no object of that key."""


class StoreUnavailable(StorageError):
    """A store does not answer, is full or is locked."""

    retryable = True
    exit_status = 3


class RunError(SluiceError):
    """A run cannot go on."""


class Fenced(RunError):
    """A newer fencing token exists; whatever carries the older one must stop."""


class PromotionRefused(RunError):
    """The live pointer is not where the run started from."""


class RollbackRefused(RunError):
    """The sequence is not retained, not below the live one, or not promoted."""


class StageMismatch(RunError):
    """A store does not hold exactly what the catalog says."""


class UndecodableMessage(SluiceError):
    """No decoder understands the message."""


class UnexpectedFailure(SluiceError):
    """A fault of ours, met while working on a document: the others go on."""

    retryable = True
