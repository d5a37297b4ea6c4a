"""Provenance: what made a document version, run by run and stage by stage."""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from contracts.events import EventTrace
from contracts.ids import DocKey, SourceId
from contracts.runs import EarlierAttempt, OutcomeStatus, RunRecord, RunState, Stage
from contracts.wire import WireModel


class Result(StrEnum):
    """What a run made of a document; whether readers saw it is the run's state."""

    INGESTED = "ingested"
    DELETED = "deleted"
    UNCHANGED = "unchanged"  # same content and fingerprint as the version before
    FAILED = "failed"  # the version before stays
    UNFINISHED = "unfinished"  # on its way, or its run ended before


class StageTrace(WireModel):
    """How a document went through one stage of one run.

    Embedding and indexing take the documents of a batch together: their times are the batch's.
    """

    stage: Stage
    status: OutcomeStatus
    attempts: int = 1
    started_at: datetime | None = None  # of the last attempt
    ended_at: datetime | None = None
    seconds: float = 0.0  # of the last attempt
    error: str | None = None  # class name of the error tree
    message: str | None = None
    retryable: bool = False
    earlier: tuple[EarlierAttempt, ...] = ()


class DocumentRun(WireModel):
    """What one run did with one document. None: it isn't known, or there is no such thing."""

    source_id: SourceId
    doc_key: DocKey
    seq: int
    run_id: str
    cause: str  # of the run
    state: RunState  # of the run
    reason: str | None = None  # why the run ended as it did
    started_at: datetime  # the run
    ended_at: datetime | None = None
    promoted_at: datetime | None = None
    events: tuple[EventTrace, ...] = ()  # that named the document, newest last
    result: Result
    served: bool = False  # readers see the version that this run made
    retained: bool = False  # the catalog still has that version
    source_version: str | None = None
    content_hash: str | None = None
    size: int | None = None  # bytes
    uri: str | None = None
    title: str | None = None
    media_type: str | None = None
    parser: str | None = None
    parsed_before: bool = False  # the chunks of this content came from the cache
    chunker: str | None = None
    embedder: str | None = None  # name of the embedding space
    fingerprint: str | None = None
    chunks: int | None = None
    chunks_added: int | None = None
    chunks_kept: int | None = None
    chunks_removed: int | None = None
    vectors_bought: int | None = None
    vectors_reused: int | None = None
    stages: tuple[StageTrace, ...] = ()


class StageCount(WireModel):
    """How many documents have left a stage, and how. `retryable` are among the failed."""

    stage: Stage
    done: int = 0
    unchanged: int = 0
    failed: int = 0
    retryable: int = 0


class SourceProgress(WireModel):
    """What a source is doing now: its open run stage by stage, and what waits for the next one."""

    source_id: SourceId
    run: RunRecord | None = None  # None: none is open
    stages: tuple[StageCount, ...] = Field(default_factory=tuple)
    taken: int = 0  # keys that the open run has
    waiting: int = 0  # keys that wait for a run
    waiting_since: datetime | None = None  # of the oldest hint among them
    next_try_at: datetime | None = None  # when the first of them may be tried again
