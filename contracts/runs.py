"""Runs, their batches and stages, and the outcome of each document."""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from contracts.events import EventTrace
from contracts.ids import DocKey, SourceId
from contracts.sources import DocumentStat, StagedDocument
from contracts.wire import WireModel


class RunState(StrEnum):
    """Where a run is. The last six are final."""

    PLANNING = "planning"
    WORKING = "working"
    CHECKING = "checking"
    WAITING = "waiting"
    CANCELLING = "cancelling"
    PROMOTED = "promoted"
    NO_CHANGE = "no_change"
    REJECTED = "rejected"
    FAILED = "failed"
    CANCELLED = "cancelled"
    WITHDRAWN = "withdrawn"  # promoted once, then rolled back

    @property
    def final(self) -> bool:
        """Whether the run has ended."""
        return self in FINAL_STATES


REMOVAL = "remove"  # cause of the last run of a source, which deletes every document
EMPTYING = "empty"  # cause of a run that deletes every document because a person said so

FINAL_STATES = frozenset(
    {
        RunState.PROMOTED,
        RunState.NO_CHANGE,
        RunState.REJECTED,
        RunState.FAILED,
        RunState.CANCELLED,
        RunState.WITHDRAWN,
    }
)


class RunTicket(WireModel):
    """The right to stage one run: what every write of the run carries.

    The run starts from `base_seq` (0: nothing is live) and stages as `seq`.
    `token` is the fencing token: what carries an older one is refused.
    """

    source_id: SourceId
    seq: int
    run_id: str
    generation: int
    base_seq: int
    token: int


class RunCounts(WireModel):
    """Figures of a run; documents unless said otherwise."""

    planned: int = 0
    changed: int = 0
    deleted: int = 0
    unchanged: int = 0
    failed: int = 0
    chunks_opened: int = 0  # chunks
    chunks_closed: int = 0  # chunks
    embedded: int = 0  # chunks whose vector was bought in this run
    embedded_tokens: int = 0  # of those chunks, as the endpoint or we count them


class RunRecord(WireModel):
    """A run as the catalog holds it."""

    source_id: SourceId
    seq: int
    run_id: str
    generation: int
    base_seq: int
    state: RunState
    cause: str  # "change", "crawl" or "retry"
    counts: RunCounts = Field(default_factory=RunCounts)
    reason: str | None = None  # why it ended as it did
    manifest_digest: str | None = None
    started_at: datetime
    ended_at: datetime | None = None
    promoted_at: datetime | None = None


class PlanAction(StrEnum):
    """What a run has to do with a document."""

    INGEST = "ingest"
    DELETE = "delete"


class PlanEntry(WireModel):
    """One document of a plan."""

    action: PlanAction
    doc_key: DocKey
    stat: DocumentStat | None = None  # None for deletions
    events: tuple[EventTrace, ...] = ()  # that named it; none: a crawl found it


class BatchRef(WireModel):
    """A batch by reference: `plan` is the object-store key of its list of `PlanEntry`."""

    number: int  # from 0
    plan: str
    documents: int
    size: int = 0  # bytes of its documents


class Stage(StrEnum):
    """The stages of a batch, in their order."""

    PARSE = "parse"
    EMBED = "embed"
    INDEX = "index"


class OutcomeStatus(StrEnum):
    """How a document left a stage."""

    DONE = "done"
    UNCHANGED = "unchanged"  # same content and fingerprint as the live version
    FAILED = "failed"


class EarlierAttempt(WireModel):
    """An attempt at a stage that a later one followed."""

    attempt: int
    error: str | None = None  # class name of the error tree
    message: str | None = None
    embedded: int = 0  # chunks whose vector was bought
    started_at: datetime | None = None
    ended_at: datetime | None = None


class DocumentOutcome(WireModel):
    """How one document left one stage of one run, durable the moment it is known.

    Embedding and indexing take the documents of a batch together: their times are the batch's.
    """

    doc_key: DocKey
    stage: Stage
    status: OutcomeStatus
    attempt: int = 1
    error: str | None = None  # class name of the error tree
    message: str | None = None
    retryable: bool = False
    source_version: str | None = None
    content_hash: str | None = None
    fingerprint: str | None = None
    chunks: int = 0
    embedded: int = 0  # chunks whose vector was bought
    embedded_tokens: int = 0  # of those chunks
    reused: int = 0  # after EMBED: new texts whose vector was known already
    added: int = 0  # after INDEX: chunks that this run has opened
    kept: int = 0  # after INDEX: chunks of the version before that stay
    removed: int = 0  # after INDEX: chunks of the version before that this run has closed
    reference: str | None = None  # object-store key of what the stage made
    document: StagedDocument | None = None  # after PARSE: what was fetched
    parser: str | None = None  # after PARSE: name and version
    chunker: str | None = None  # after PARSE: name and version
    cached: bool = False  # after PARSE: this content had been parsed before
    embedder: str | None = None  # after EMBED: name of the embedding space
    events: tuple[EventTrace, ...] = ()  # at its first stage: what named the document
    earlier: tuple[EarlierAttempt, ...] = ()  # at this stage, in this run
    seconds: float = 0.0
    started_at: datetime | None = None
    at: datetime | None = None  # when it was recorded


class KnownFailure(WireModel):
    """A document that failed for good: not tried again until version or fingerprint changes."""

    doc_key: DocKey
    source_version: str
    fingerprint: str
    error: str
    message: str
    seq: int
    acknowledged_by: str | None = None  # who accepts that this version fails


class Place(StrEnum):
    """Where a document is. The stages are those of the run that works on it now."""

    WAITING = "waiting"  # for a run
    PARSE = "parse"
    EMBED = "embed"
    INDEX = "index"
    GATE = "gate"  # staged in every store, and not yet promoted
    SERVED = "served"
    FAILED = "failed"


class DocumentStatus(WireModel):
    """One line of `sluice document list`: where it is, what is served, how it last went."""

    doc_key: DocKey
    live_version: str | None = None  # None: nothing of it is served
    live_from_seq: int | None = None
    chunks: int = 0
    title: str | None = None
    last_seq: int | None = None  # the last run that had an outcome for it
    stage: Stage | None = None
    status: OutcomeStatus | None = None
    error: str | None = None
    message: str | None = None
    retryable: bool = False
    pending: bool = False
    acknowledged_by: str | None = None  # who accepts that it fails
    place: Place | None = None
    since: datetime | None = None  # that it is there
    why: str | None = None  # it waits there, or failed


class AuditEntry(WireModel):
    """One line of the audit trail: who did what to a source, and why."""

    source_id: SourceId
    seq: int | None = None
    actor: str
    action: str
    reason: str = ""
    details: dict[str, str] = Field(default_factory=dict)
    at: datetime | None = None
