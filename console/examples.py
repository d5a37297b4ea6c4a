"""Examples for the document of the API, made of the models themselves so that they stay true."""

from datetime import UTC, datetime
from typing import Any, Final

from console.views import AddedSource, DocumentView, ParkedMessage, SourceView, StackStatus
from contracts.activities import CommandResult
from contracts.documents import DocumentVersion, Located, PackAddress
from contracts.events import EventTrace
from contracts.ids import OPEN_SEQ
from contracts.provenance import DocumentRun, Result, SourceProgress, StageCount, StageTrace
from contracts.runs import (
    DocumentOutcome,
    DocumentStatus,
    OutcomeStatus,
    Place,
    RunCounts,
    RunRecord,
    RunState,
    Stage,
)
from contracts.search import SearchAnswer, SearchHit
from contracts.sources import SourceConfig
from contracts.visibility import LivePointer
from contracts.wire import WireModel

_NOON: Final = datetime(2026, 12, 1, 12, tzinfo=UTC)
_KEY: Final = "guide/start.md"
_HASH: Final = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

FOLDER: Final = SourceConfig(source_id="handbook", kind="folder", container="/srv/handbook")
BUCKET: Final = SourceConfig(
    source_id="handbook",
    kind="s3",
    container="handbook",
    prefix="docs/",
    options={"region": "eu-west-1"},
)
RUN: Final = RunRecord(
    source_id="handbook",
    seq=1,
    run_id="handbook.1",
    generation=1,
    base_seq=0,
    state=RunState.PROMOTED,
    cause="crawl",
    counts=RunCounts(planned=2, changed=2, failed=1, chunks_opened=3, embedded=3),
    manifest_digest=_HASH,
    started_at=_NOON,
    ended_at=_NOON,
    promoted_at=_NOON,
)
SOURCE: Final = SourceView(
    config=FOLDER,
    revision=1,
    created_at=_NOON,
    pointer=LivePointer(source_id="handbook", seq=1, run_id="handbook.1", promoted_at=_NOON),
    documents=1,
    chunks=3,
    last_run=RUN,
)
ADDED: Final = AddedSource(source=SOURCE, crawling=True)
OUTCOME: Final = DocumentOutcome(
    doc_key=_KEY, stage=Stage.PARSE, status=OutcomeStatus.DONE, chunks=3, seconds=0.02, at=_NOON
)
DOCUMENT_RUN: Final = DocumentRun(
    source_id="handbook",
    doc_key=_KEY,
    seq=1,
    run_id="handbook.1",
    cause="change",
    state=RunState.PROMOTED,
    started_at=_NOON,
    ended_at=_NOON,
    promoted_at=_NOON,
    events=(
        EventTrace(
            origin="s3",
            name="ObjectCreated:Put",
            occurred_at=_NOON,
            taken_at=_NOON,
            message_id="059f36b4-87a3-44ab-83d2-661975830a7d",
        ),
    ),
    result=Result.INGESTED,
    served=True,
    retained=True,
    source_version="etag-1",
    content_hash=_HASH,
    size=1_024,
    uri="s3://handbook/guide/start.md",
    title="Start",
    media_type="text/markdown",
    parser="text/3",
    chunker="chunking/2",
    embedder="wordllama-256/1",
    fingerprint=_HASH,
    chunks=3,
    chunks_added=3,
    chunks_kept=0,
    chunks_removed=0,
    vectors_bought=3,
    vectors_reused=0,
    stages=(
        StageTrace(
            stage=Stage.PARSE,
            status=OutcomeStatus.DONE,
            started_at=_NOON,
            ended_at=_NOON,
            seconds=0.02,
        ),
    ),
)
PROGRESS: Final = SourceProgress(
    source_id="handbook",
    run=RUN.model_copy(update={"state": RunState.WORKING, "ended_at": None, "promoted_at": None}),
    stages=(StageCount(stage=Stage.PARSE, done=1, failed=1, retryable=1),),
    taken=2,
    waiting=1,
    waiting_since=_NOON,
)
STATUS: Final = DocumentStatus(
    doc_key=_KEY,
    live_version="etag-1",
    live_from_seq=1,
    chunks=3,
    title="Start",
    last_seq=1,
    stage=Stage.INDEX,
    status=OutcomeStatus.DONE,
    place=Place.SERVED,
    since=_NOON,
)
DOCUMENT: Final = DocumentView(
    source_id="handbook",
    doc_key=_KEY,
    status=STATUS,
    live=DocumentVersion(
        doc_key=_KEY,
        from_seq=1,
        to_seq=OPEN_SEQ,
        source_version="etag-1",
        content_hash=_HASH,
        fingerprint=_HASH,
        title="Start",
        uri="file:///srv/handbook/guide/start.md",
        media_type="text/markdown",
        parser="text",
        size=1_024,
        chunks=3,
    ),
    outcomes=(OUTCOME,),
    made=DOCUMENT_RUN,
    latest=DOCUMENT_RUN,
)
ANSWER: Final = SearchAnswer(
    hits=(
        SearchHit(
            score=0.82,
            text="Open the sluice before the tide turns.",
            chunk=Located(
                chunk_id="0b0f4d7e-6f3c-5a63-9d7e-0d0c1f0a2b3c",
                source_id="handbook",
                doc_key=_KEY,
                run_id="handbook.1",
                from_seq=1,
                version_seq=1,
                text_hash=_HASH,
                prefix_length=0,
                address=PackAddress(pack="packs/handbook/1/0", offset=0, length=2_048),
                title="Start",
            ),
            scores={"vectors": 0.9, "keywords": 0.7},
            ranks={"vectors": 1, "keywords": 2},
        ),
    ),
    pinned={"handbook": 1},
)
DONE: Final = CommandResult(ok=True, message="a crawl was asked for", seq=1)
PARKED: Final = ParkedMessage(
    id="3f2a", reason="no decoder knows it", parked_at=_NOON, original='{"hello": 1}'
)
STACK: Final = StackStatus(
    running=True, versions={"sluice": "0.1.0"}, bridge={"taken": 7}, sources=1
)


def shown(model: WireModel) -> Any:
    """The example as JSON."""
    return model.model_dump(mode="json")
