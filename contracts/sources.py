"""What a source is: its configuration, its record, and what it yields."""

from datetime import datetime
from enum import StrEnum
from typing import Final

from pydantic import Field

from contracts.ids import OPEN_SEQ, DocKey, SourceId
from contracts.wire import WireModel

LONGEST: Final = 10 * 366 * 86_400.0  # seconds; timers and dates hold it


class GatePolicy(StrEnum):
    """Who decides on a run whose checks have passed."""

    AUTO = "auto"
    MANUAL = "manual"
    STRICT = "strict"


class SourceConfig(WireModel):
    """One corpus with one configuration.

    `kind` names an installed source kind; `container` is the bucket or the root
    folder; `prefix` narrows it; `options` are the kind's own settings (for `s3`:
    `endpoint_url`, `region`), validated by the kind.
    """

    source_id: SourceId
    kind: str
    container: str
    prefix: str = ""
    tenant: str = "default"
    options: dict[str, str] = Field(default_factory=dict)
    gate: GatePolicy = GatePolicy.AUTO
    quiet_period: float = Field(default=2.0, ge=0, le=LONGEST)  # seconds of silence before a run
    max_delay: float = Field(default=30.0, ge=0, le=LONGEST)  # seconds that a change waits at most
    approval_timeout: float = Field(default=7 * 86_400.0, gt=0, le=LONGEST)  # seconds
    max_run_documents: int = Field(default=10_000, ge=1, le=OPEN_SEQ)  # of a crawl after the first
    retain_versions: int = Field(
        default=1, ge=0, le=OPEN_SEQ
    )  # earlier sequences kept for rollback
    include: tuple[str, ...] = ()  # glob patterns of keys; empty: all
    exclude: tuple[str, ...] = ()  # glob patterns of keys


class SourceRecord(WireModel):
    """A source as the catalog holds it."""

    config: SourceConfig
    revision: int  # rises with each change of the configuration
    created_at: datetime
    paused: bool = False
    pinned: bool = False  # a rollback holds it until `source resume`
    removed: bool = False


class DocumentStat(WireModel):
    """What a look at a document says without its content."""

    doc_key: DocKey
    source_version: str  # opaque: ETag, version id, mtime and size …; equal means unchanged
    size: int  # bytes
    modified_at: datetime | None = None
    media_type: str | None = None


class StagedDocument(WireModel):
    """A document fetched from its source: the one shape that every kind yields.

    The bytes are in the file that the fetch was told to write.
    """

    doc_key: DocKey
    source_version: str  # the version that was really fetched
    content_hash: str  # SHA-256, 64 hex digits
    size: int  # bytes
    uri: str  # address for a person: s3://bucket/key, file:///…
    media_type: str | None = None  # what the source says; the parser may know better
    modified_at: datetime | None = None
    metadata: dict[str, str] = Field(default_factory=dict)
