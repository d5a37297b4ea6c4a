"""The first stage: fetch a document, find or make its chunks, remember how it went."""

import asyncio
import time
import uuid
from pathlib import Path

import structlog
from temporalio import activity

from activities.batches import BatchWork
from activities.heartbeat import heartbeats
from activities.ports import Ports
from contracts.activities import STAGE_BATCH, StageReport, StageRequest
from contracts.documents import ChunkedDocument, DocumentVersion
from contracts.errors import (
    DocumentGone,
    Fenced,
    SluiceError,
    StorageError,
    UnexpectedFailure,
)
from contracts.ids import digest
from contracts.ports import Source
from contracts.runs import DocumentOutcome, OutcomeStatus, PlanEntry, RunState, Stage
from contracts.sources import StagedDocument
from contracts.visibility import View
from documents.fingerprints import document_fingerprint

log = structlog.get_logger(__name__)


def chunked_key(document: StagedDocument, parser_fingerprint: str) -> str:
    """Object-store key of what parsing makes of this content: the same content, name ending, type
    and parser make the same chunks, in every run and every source."""
    suffix = Path(document.doc_key).suffix.lower()
    name = digest(document.content_hash, suffix, document.media_type or "", parser_fingerprint)
    return f"chunked/{name[:2]}/{name}.json"


class Parsing:
    """Activities on the parsing queue."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    @activity.defn(name=STAGE_BATCH[Stage.PARSE])
    async def parse_batch(self, request: StageRequest) -> StageReport:
        """Bring each document of the batch to chunks; one that fails, fails alone."""
        ports, ticket = self._ports, request.ticket
        async with heartbeats("parsing", request.batch.documents) as progress:
            await ports.catalog.update_run(ticket, RunState.WORKING)
            work = await BatchWork.load(ports, Stage.PARSE, request)
            entries = list(work.todo.values())
            record = await ports.catalog.source(ticket.source_id)
            base = View(
                source_id=ticket.source_id, generation=ticket.generation, seq=ticket.base_seq
            )
            live = await ports.catalog.versions(base, [entry.doc_key for entry in entries])
            source = ports.open_source(record.config)
            gate = asyncio.Semaphore(ports.limits.concurrent_fetches)

            async def bring(entry: PlanEntry) -> None:
                async with gate:
                    structlog.contextvars.bind_contextvars(document=entry.doc_key)
                    work.start(entry.doc_key)
                    version = live.get(entry.doc_key)
                    await _DocumentParsing(ports, work, source, entry, version, base).go()
                progress.done += 1

            try:
                async with asyncio.TaskGroup() as tasks:
                    for entry in entries:
                        tasks.create_task(bring(entry))
            finally:
                await source.close()
            return work.report()


class _DocumentParsing:
    """One document on its way through the stage."""

    def __init__(
        self,
        ports: Ports,
        work: BatchWork,
        source: Source,
        entry: PlanEntry,
        live: DocumentVersion | None,
        base: View,
    ) -> None:
        self._ports = ports
        self._work = work
        self._source = source
        self._entry = entry
        self._live = live
        self._base = base
        self._fingerprint = document_fingerprint(ports.parser.fingerprint, ports.embedder.space)
        self._version = entry.stat.source_version if entry.stat is not None else None

    async def go(self) -> None:
        """Fetch, chunk, and record the outcome, whatever it is."""
        started = time.monotonic()
        path = self._ports.scratch / uuid.uuid4().hex
        try:
            outcome = await self._bring(path)
        except (Fenced, StorageError):
            raise  # not the document's: the whole stage stops, or is tried again
        except SluiceError as error:
            outcome = self._work.failure(
                self._entry.doc_key,
                error,
                source_version=self._version,
                fingerprint=self._fingerprint,
            )
        except Exception as error:
            # A fault of ours: it must not take the rest of the batch with it.
            log.exception("document failed unexpectedly")
            outcome = self._work.failure(
                self._entry.doc_key,
                UnexpectedFailure(f"{type(error).__name__}: {error}"),
                source_version=self._version,
                fingerprint=self._fingerprint,
            )
        finally:
            path.unlink(missing_ok=True)
        if outcome.error is not None:
            log.warning("document failed", error=outcome.error, message=outcome.message)
        seconds = round(time.monotonic() - started, 3)
        await self._work.record_one(outcome.model_copy(update={"seconds": seconds}))

    async def _bring(self, path: Path) -> DocumentOutcome:
        document = await self._fetch(path)
        self._version = document.source_version
        if self._unchanged(document):
            await self._ports.catalog.observe(
                self._base, {document.doc_key: document.source_version}
            )
            return self._outcome(document, OutcomeStatus.UNCHANGED)
        key = chunked_key(document, self._ports.parser.fingerprint)
        known = await self._work.find(key)
        cached = known is not None
        if known is not None:
            chunked = ChunkedDocument.model_validate_json(known)
        else:
            chunked = await self._ports.parser.chunk(path, document.doc_key, document.media_type)
            await self._ports.objects.put(key, chunked.model_dump_json().encode())
        outcome = self._outcome(document, OutcomeStatus.DONE, key, len(chunked.chunks))
        made_by = {
            "parser": chunked.parser,
            "chunker": chunked.chunker or None,
            "cached": cached,
        }
        return outcome.model_copy(update=made_by)

    async def _fetch(self, path: Path) -> StagedDocument:
        """Fetch what is there; a later attempt in this run gets the version of the first."""
        try:
            document = await self._get(path, None)
        except DocumentGone as error:
            raise DocumentGone(
                f"{self._entry.doc_key} was deleted while the run was on its way; "
                "the next run removes it"
            ) from error
        pinned = await self._work.pin(document.doc_key, document.source_version)
        if pinned == document.source_version:
            return document
        return await self._get(path, pinned)

    async def _get(self, path: Path, version: str | None) -> StagedDocument:
        return await self._source.fetch(
            self._entry.doc_key,
            path,
            source_version=version,
            max_bytes=self._ports.limits.max_document,
        )

    def _unchanged(self, document: StagedDocument) -> bool:
        return (
            self._live is not None
            and self._live.content_hash == document.content_hash
            and self._live.fingerprint == self._fingerprint
        )

    def _outcome(
        self,
        document: StagedDocument,
        status: OutcomeStatus,
        reference: str | None = None,
        chunks: int = 0,
    ) -> DocumentOutcome:
        return DocumentOutcome(
            doc_key=document.doc_key,
            stage=Stage.PARSE,
            status=status,
            attempt=self._work.attempt,
            source_version=document.source_version,
            content_hash=document.content_hash,
            fingerprint=self._fingerprint,
            chunks=chunks,
            reference=reference,
            document=document,
        )
