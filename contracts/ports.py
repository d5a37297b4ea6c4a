"""The ports: what the rooms ask of the outside, in the fewest methods that do.

Adapters translate foreign errors into the error tree (`raise … from`). The catalog is one
adapter behind several ports, each of one noun.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Protocol

from contracts.activities import Command, CommandResult, OpenRunAnswer, RunReport, SourceState
from contracts.documents import (
    Bought,
    ChunkedDocument,
    DocumentVersion,
    EmbeddingSpace,
    Located,
    PreparedDocument,
    Vector,
)
from contracts.events import ChangeSignal, DirtyKey
from contracts.gate import Verdict
from contracts.provenance import DocumentRun, SourceProgress
from contracts.runs import (
    AuditEntry,
    DocumentOutcome,
    DocumentStatus,
    KnownFailure,
    RunCounts,
    RunRecord,
    RunState,
    RunTicket,
    Stage,
)
from contracts.sources import DocumentStat, SourceConfig, SourceRecord, StagedDocument
from contracts.visibility import (
    Census,
    HeldChunk,
    Hit,
    LegQuery,
    LivePointer,
    StageDelta,
    StoreWrite,
    View,
)

# --- Content -------------------------------------------------------------------------------


class Source(Protocol):
    """One source, opened. Errors: `SourceError` and its classes, `ConfigurationError`."""

    async def check(self) -> None:
        """Fail with one sentence if the source can't be read (missing bucket, refused …)."""

    def list_pages(self) -> AsyncGenerator[list[DocumentStat], None]:
        """Every document below the prefix, pages of at most 1,000, ascending by UTF-8 bytes of the
        key."""

    async def stat(self, doc_key: str) -> DocumentStat | None:
        """What is there now; None if it is gone."""

    async def fetch(
        self, doc_key: str, into: Path, *, source_version: str | None, max_bytes: int
    ) -> StagedDocument:
        """Write the content into the file, hashing it on the way.

        Args:
            doc_key: which document.
            into: the file to write.
            source_version: the version wanted; None takes what is there.
            max_bytes: the largest content accepted.

        Raises:
            DocumentGone: nothing is there.
            DocumentChanged: another version is there, and the wanted one can't be had.
            OversizedDocument: more than `max_bytes`.
        """

    async def close(self) -> None:
        """Let go of connections."""


class SourceKind(Protocol):
    """A kind of source, found by its name through the entry points `sluice.sources`."""

    def validate(self, config: SourceConfig) -> SourceConfig:
        """The configuration, completed and in canonical form; `ConfigurationError` if wrong."""

    def open(self, config: SourceConfig) -> Source:
        """Open a source. Connects lazily."""


class Parser(Protocol):
    """Content in, chunks out, isolated from this process."""

    @property
    def fingerprint(self) -> str:
        """Hash of everything but the content that decides the result."""

    async def chunk(self, path: Path, doc_key: str, media_type: str | None) -> ChunkedDocument:
        """Parse, clean and chunk the content of a file.

        Raises:
            ParseError: the content can't become chunks.
            UnexpectedFailure: the parser failed, not the content.
        """

    async def close(self) -> None:
        """End the child processes."""


class Embedder(Protocol):
    """Texts in, unit vectors out. Errors: `EmbeddingError` and its classes."""

    @property
    def space(self) -> EmbeddingSpace:
        """The space of its vectors."""

    def split(self, texts: Sequence[str]) -> list[Sequence[str]]:
        """The texts in order, in pieces that are one request each: what one request has bought is
        kept before another may fail."""

    async def embed_passages(self, texts: Sequence[str]) -> Bought:
        """One vector a text, in order, and what they were charged as."""

    async def embed_query(self, text: str) -> Vector:
        """The vector of a question."""

    async def close(self) -> None:
        """Let go of connections."""


# --- Stores --------------------------------------------------------------------------------


class ObjectInfo(NamedTuple):
    """One object of a listing."""

    key: str
    size: int  # bytes
    modified_at: datetime


class ObjectRange(NamedTuple):
    """Bytes of an object; without a length all that follow."""

    key: str
    offset: int = 0  # bytes
    length: int | None = None  # bytes


class ObjectStore(Protocol):
    """The data bus: immutable objects under keys of `/`-separated names.

    Errors: `ObjectMissing`, `StoreUnavailable`.
    """

    async def put(self, key: str, data: bytes, *, if_absent: bool = False) -> bool:
        """Store atomically; False if `if_absent` and the key was taken (nothing is changed)."""

    async def get(self, key: str, offset: int = 0, length: int | None = None) -> bytes:
        """The object, or a byte range of it."""

    async def get_many(self, ranges: Sequence[ObjectRange]) -> list[bytes | None]:
        """Several at once, in their order; None where there is no object."""

    def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        """Objects whose key starts with the prefix, ascending."""

    async def delete(self, keys: Collection[str]) -> None:
        """Delete what is there of the keys."""


class SearchStore(Protocol):
    """One index: vectors or keywords. Errors: `StoreUnavailable`."""

    @property
    def name(self) -> str:
        """`vectors` or `keywords`: the leg, as answers and checks name it."""

    async def apply(self, write: StoreWrite) -> None:
        """Write, and return when it is complete and a search would see it. Idempotent."""

    async def census(self, view: View) -> Census:
        """What this store holds of the source at the sequence."""

    async def purge(self, view: View) -> None:
        """Delete what has `from_seq = seq`, reopen what has `to_seq = seq`. Idempotent."""

    async def retire(self, view: View) -> None:
        """Delete what was closed at or before the sequence. Idempotent."""

    async def search(self, query: LegQuery) -> list[Hit]:
        """The best candidates, best first, ties by id; at most `limit`."""


# --- The catalog, one port a noun ------------------------------------------------------------


class SourceCatalog(Protocol):
    """Sources and their configuration."""

    async def put_source(self, config: SourceConfig, actor: str) -> SourceRecord:
        """Add the source, or replace its configuration; a removed one comes back with its
        sequence going on."""

    async def source(self, source_id: str) -> SourceRecord:
        """One source; `UnknownSource` if it never was or is removed."""

    async def sources(self) -> list[SourceRecord]:
        """All sources that aren't removed, by id."""

    async def mark_source(
        self, source_id: str, *, paused: bool | None = None, removed: bool | None = None
    ) -> None:
        """Set flags. Of a removed source runs, outcomes, failures and pending keys are forgotten:
        whoever takes its name again begins anew."""

    async def source_state(self, source_id: str) -> SourceState:
        """What a coordinator has to know; `exists` False for an unknown source."""


class PointerCatalog(Protocol):
    """Live pointers: the only thing that switches."""

    async def pointers(self, source_ids: Collection[str]) -> dict[str, LivePointer]:
        """The pointers, read in one statement; `UnknownSource` if one is missing."""

    async def promote(
        self, ticket: RunTicket, counts: RunCounts, manifest_digest: str, now: datetime
    ) -> LivePointer:
        """One compare-and-set: on generation and base sequence, on the run being the open one, and
        on its token. Raises `oldest_retained` by the source's `retain_versions`. Promoting what
        this ticket already promoted answers the same again.

        Raises:
            PromotionRefused: the state is another.
        """

    async def fence(self, source_id: str, seq: int) -> None:
        """Raise the token and clear the open run if it is this one. Idempotent."""

    async def roll_back(
        self,
        source_id: str,
        to_seq: int | None,
        actor: str,
        reason: str,
        now: datetime,
        request: str | None = None,
    ) -> LivePointer:
        """Raise the token, clear the open run, set the pointer to a retained sequence (None: the
        one before the live one), withdraw those above for good, pin the source, keep the keys of
        the withdrawn runs as pending, and write it into the audit trail. The same `request` as
        that of the newest rollback does nothing.

        Raises:
            RollbackRefused: the sequence isn't retained or isn't below the live one.
        """

    async def unpin(self, source_id: str) -> None:
        """`source resume`: the withdrawn runs' keys start a run."""


class RunCatalog(Protocol):
    """Runs: sequence numbers, states, figures."""

    async def open_run(
        self, source_id: str, request: str, cause: str, now: datetime
    ) -> OpenRunAnswer:
        """Allocate the next sequence and a token, and make it the open run. The same `request`
        is answered with the same ticket while that run is open, and refused afterwards. Refused
        (with a sentence) while the source is removed, a run is unresolved, or a purge is due; and,
        but for a removal or emptying, while it is paused or pinned."""

    async def update_run(
        self,
        ticket: RunTicket,
        state: RunState | None,
        counts: RunCounts | None = None,
        reason: str | None = None,
        manifest_digest: str | None = None,
    ) -> None:
        """Say where the run is (None: where it was), why it waits and on what, if it does;
        `Fenced` if the ticket is no longer the open one."""

    async def end_run(
        self, ticket: RunTicket, state: RunState, reason: str, counts: RunCounts, now: datetime
    ) -> None:
        """Close a run that wasn't promoted. Idempotent."""

    async def run(self, source_id: str, seq: int) -> RunRecord | None:
        """One run."""

    async def runs(
        self, source_id: str, limit: int = 50, before: int | None = None
    ) -> list[RunRecord]:
        """The newest runs, newest first; of those below a sequence, if one is named."""


class DocumentCatalog(Protocol):
    """Document versions, chunks and layouts, with their intervals."""

    async def versions(self, view: View, doc_keys: Collection[str]) -> dict[str, DocumentVersion]:
        """The versions visible in the view, by key; keys without one are left out."""

    async def source_versions(
        self, view: View, after: str, until: str | None, limit: int
    ) -> dict[str, str]:
        """The source's names of the visible versions, by key, ascending by UTF-8 bytes, with
        `after < key <= until`."""

    async def open_chunk_keys(
        self, ticket: RunTicket, doc_keys: Collection[str]
    ) -> dict[str, dict[str, str]]:
        """For each document the chunk keys that are open, or that this run closed or opened, with
        the hash of their embedded text: what needs no new pack record."""

    async def observe(self, view: View, versions: Mapping[str, str]) -> None:
        """Note that the content of these documents is unchanged at these source versions."""

    async def counts(self, view: View) -> tuple[int, int]:
        """Visible documents and visible chunks."""

    async def has_documents(self, view: View) -> bool:
        """Whether any document is visible."""


class StagingCatalog(Protocol):
    """The intent of a run: committed before any store is written. `Fenced` if the ticket is old."""

    async def stage(self, ticket: RunTicket, documents: Sequence[PreparedDocument]) -> StageDelta:
        """Reconcile the documents with what is there and commit the intent, in one transaction.

        Chunks of the document that are open (or closed by this run) and in its layout stay or are
        reopened; others are closed with `to_seq = seq`; missing ones are opened with
        `from_seq = seq`; what this run opened earlier and doesn't want any more is to be removed.
        Answers the whole delta of these documents, so that a repetition writes the same again;
        `removes` and `reopens` stay in the delta until `settle`.
        """

    async def settle(self, ticket: RunTicket, delta: StageDelta) -> None:
        """The stores have taken the delta: drop the removed rows, reopen the reopened ones."""

    async def staged(self, view: View) -> StageDelta:
        """All that a sequence has opened and closed, as the catalog says."""

    async def census(self, view: View) -> Census:
        """What every store must hold of the source at the sequence."""

    async def held(self, view: View, after: HeldChunk | None, limit: int) -> list[HeldChunk]:
        """All that the sequences up to the view's have opened and that isn't retired, by the place
        in its pack, what later ones have closed as open; those behind `after`."""

    async def forget(self, view: View, now: datetime) -> None:
        """The stores hold nothing of the sequence: delete its rows, reopen what it closed, and note
        that it has to be purged once more later. Idempotent."""


class Sweep(NamedTuple):
    """What housekeeping a source needs now."""

    purge: tuple[View, ...]  # withdrawn or to be purged again, highest sequence first
    retire: View | None  # delete what was closed at or before this sequence


class RetirementCatalog(Protocol):
    """Housekeeping: withdrawn sequences, second purges, retirement."""

    async def due_sweep(self, source_id: str, now: datetime) -> Sweep:
        """What is due; grace periods have passed."""

    async def unreachable_packs(self, view: View) -> list[str]:
        """Packs that only chunks closed at or before the sequence are in: to be deleted first."""

    async def retire(self, view: View, now: datetime) -> None:
        """The stores hold nothing closed at or before the sequence: delete the rows."""


class FailureCatalog(Protocol):
    """Failures for good: not tried again until the document, or what works on it, changes."""

    async def known_failures(
        self, source_id: str, doc_keys: Collection[str] | None = None
    ) -> dict[str, KnownFailure]:
        """Failures for good, by key; those of the whole source if no keys are named."""

    async def forget_failures(self, source_id: str, doc_keys: Collection[str]) -> None:
        """The documents are gone from their source, and nothing of them is served: how their last
        attempt failed is of no use to anybody."""

    async def retry(self, source_id: str, doc_keys: Collection[str]) -> None:
        """A person wants them tried again as they are; they stay listed until they succeed."""

    async def acknowledge(
        self, source_id: str, doc_keys: Collection[str], actor: str, reason: str, now: datetime
    ) -> list[str]:
        """A person accepts that they fail as they are. Answers those that do fail for good; each
        is in the audit trail."""

    async def unacknowledged(self, source_id: str, examples: int) -> tuple[int, list[str]]:
        """How many failures nobody has accepted, and some of their keys."""


class OutcomeCatalog(Protocol):
    """Outcomes by document and stage, and pins."""

    async def record(
        self, ticket: RunTicket, outcomes: Sequence[DocumentOutcome], now: datetime
    ) -> None:
        """Write outcomes, replacing those of the same document and stage; a failure that isn't
        retryable becomes a known one, a success clears it. `Fenced` if the ticket is old."""

    async def outcomes(
        self,
        source_id: str,
        seq: int,
        stage: Stage | None = None,
        doc_keys: Collection[str] = (),
        *,
        after: str = "",
        documents: int | None = None,
    ) -> list[DocumentOutcome]:
        """Outcomes of a run, by document and stage; all documents if no keys are given.

        Args:
            source_id: whose run.
            seq: which run.
            stage: only this one.
            doc_keys: only these documents.
            after: only documents behind this key.
            documents: how many documents at most; each has an outcome a stage.
        """

    async def pin(self, ticket: RunTicket, versions: Mapping[str, str]) -> dict[str, str]:
        """Put-if-absent: the version of the document that this run uses."""

    async def statuses(
        self, source_id: str, after: str = "", limit: int = 1_000
    ) -> list[DocumentStatus]:
        """Where each document is, what is served and how the last attempt went, ascending by key:
        those that are served, failed, on their way or waiting."""


class HistoryCatalog(Protocol):
    """What made a document, and what is being made.

    Of each document the runs are kept that made what is served or retained of it, the newest ten
    while anything of it is, and all of the source's newest fifty.
    """

    async def history(
        self, source_id: str, doc_key: str, before: int | None = None, limit: int = 20
    ) -> list[DocumentRun]:
        """The newest runs below a sequence that touched the document, newest first."""

    async def progress(self, source_id: str) -> SourceProgress:
        """The open run by stages, and what waits."""


class PendingCatalog(Protocol):
    """Changed keys that no promotion has settled yet."""

    async def take(
        self, ticket: RunTicket, keys: Sequence[DirtyKey], now: datetime, *, crawl: bool
    ) -> tuple[list[DirtyKey], bool]:
        """Durably give the keys to the run, together with every key given back before whose backoff
        is over. Answers all of them, and whether the run is a crawl. The same ticket may take
        again."""

    async def release(self, source_id: str, seq: int, *, starts_run: bool, now: datetime) -> None:
        """The run wasn't promoted: its keys are pending. After a failure (`starts_run`) they start
        one again, with backoff (30 s doubling to 1 h)."""

    async def settle(self, ticket: RunTicket, now: datetime) -> int:
        """The run was promoted or found nothing: drop its keys, but those of documents whose last
        outcome failed retryably stay, with backoff. Answers how many stay. `Fenced` if the run is
        neither live nor open: a rollback may have given its keys to others."""

    async def pending(self, source_id: str) -> int:
        """How many keys are pending or taken: how far the source is behind."""


class ReaderCatalog(Protocol):
    """The catalog as the judge of every hit."""

    async def judge(self, chunk_ids: Collection[str], views: Sequence[View]) -> set[str]:
        """Those of the chunks whose interval contains the pinned sequence of their source."""

    async def locate(self, chunk_ids: Collection[str], views: Sequence[View]) -> dict[str, Located]:
        """The chunks whose interval contains the pinned sequence of their source, as the layout of
        their document version shows them; all others are left out."""

    async def visible(self, views: Sequence[View], limit: int) -> int:
        """Chunks visible in the views, counted up to the limit."""


class VectorCache(Protocol):
    """Vectors that were bought, by space and hash of the embedded text. Survives purges."""

    async def vectors(self, space: EmbeddingSpace, hashes: Collection[str]) -> dict[str, Vector]:
        """What is known of the hashes."""

    async def keep(self, space: EmbeddingSpace, vectors: Mapping[str, Vector]) -> None:
        """Keep vectors; the first of a hash stays."""


class AuditTrail(Protocol):
    """Who did what, and why."""

    async def append(self, entry: AuditEntry) -> None:
        """Add a line."""

    async def entries(self, source_id: str, limit: int = 100) -> list[AuditEntry]:
        """The newest lines, newest first."""


class Catalog(
    SourceCatalog,
    PointerCatalog,
    RunCatalog,
    DocumentCatalog,
    StagingCatalog,
    RetirementCatalog,
    FailureCatalog,
    OutcomeCatalog,
    HistoryCatalog,
    ReaderCatalog,
    VectorCache,
    AuditTrail,
    Protocol,
):
    """Everything above. `PendingCatalog` is reached by `pending_keys`: it shares verbs."""

    @property
    def pending_keys(self) -> PendingCatalog:
        """The pending keys."""

    async def close(self) -> None:
        """Let go of connections."""


# --- Orchestration --------------------------------------------------------------------------


class Signals(Protocol):
    """What bridge and activities ask of Temporal. Errors: `NotReachable`."""

    async def signal_changed(self, source_id: str, signal: ChangeSignal) -> None:
        """Signal-with-start of the source's coordinator; returns when it was accepted."""

    async def report_run(self, source_id: str, report: RunReport) -> None:
        """Signal-with-start of the source's coordinator with a run's end."""

    async def is_running(self, workflow_id: str) -> bool:
        """Whether an execution of that id is open."""


class Operations(Protocol):
    """What a person's desk asks of Temporal. Errors: `NotReachable`."""

    async def command(self, source_id: str, command: Command) -> CommandResult:
        """Update-with-start of the source's coordinator."""

    async def decide(self, source_id: str, seq: int, verdict: Verdict) -> CommandResult:
        """Update of the run that waits; returns what became of it."""

    async def collected(self, source_id: str) -> int:
        """Changed keys that the source's coordinator holds for its next run; 0 without one."""


class Orchestrator(Signals, Operations, Protocol):
    """Temporal."""


# --- Bridge ---------------------------------------------------------------------------------


class DeadLetters(Protocol):
    """Where messages go that no decoder understands."""

    async def park(self, reason: str, original: bytes, attributes: Mapping[str, str]) -> str:
        """Keep the message durably; answers its id."""
