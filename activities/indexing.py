"""The third stage: the intent into the catalog, then the chunks into every store."""

import asyncio
from collections import defaultdict

from temporalio import activity

from activities.batches import BatchWork
from activities.heartbeat import heartbeats
from activities.packs import indexed_chunks
from activities.ports import Ports
from activities.references import get_list
from contracts.activities import STAGE_BATCH, StageReport, StageRequest
from contracts.documents import PreparedDocument
from contracts.runs import DocumentOutcome, OutcomeStatus, PlanEntry, RunTicket, Stage
from contracts.visibility import ChunkChange, StageDelta, StoreWrite, View


def view_of(ticket: RunTicket) -> View:
    """The source at the sequence that the ticket stages."""
    return View(source_id=ticket.source_id, generation=ticket.generation, seq=ticket.seq)


async def write_stores(ports: Ports, ticket: RunTicket, delta: StageDelta) -> None:
    """Bring a delta into every store at once; each says when it is complete."""
    view = view_of(ticket)
    opens = await indexed_chunks(ports.objects, view, ticket.run_id, delta.opens)
    write = StoreWrite(view, opens, delta.closes, delta.reopens, delta.removes)
    async with asyncio.TaskGroup() as tasks:
        for store in ports.stores:
            tasks.create_task(store.apply(write))


class Indexing:
    """Activities on the indexing queue, which belongs to the process that owns the stores."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    @activity.defn(name=STAGE_BATCH[Stage.INDEX])
    async def index_batch(self, request: StageRequest) -> StageReport:
        """Stage the prepared documents of the batch: catalog, stores, then their outcomes."""
        ports, ticket = self._ports, request.ticket
        async with heartbeats("indexing", request.batch.documents) as progress:
            work = await BatchWork.load(ports, Stage.INDEX, request)
            entries = {entry.doc_key: entry for entry in work.todo.values()}
            documents = await self._prepared(work, entries)
            delta = StageDelta()
            if documents:
                delta = await ports.catalog.stage(ticket, documents)
                await write_stores(ports, ticket, delta)
                await ports.catalog.settle(ticket, delta)
            await work.record(
                [_outcome(document, request.attempt, delta) for document in documents]
            )
            progress.done += len(documents)
            return work.report()

    async def _prepared(
        self, work: BatchWork, entries: dict[str, PlanEntry]
    ) -> list[PreparedDocument]:
        wanted: dict[str, set[str]] = defaultdict(set)
        for key in entries:
            wanted[work.earlier[key].reference or ""].add(key)
        documents: list[PreparedDocument] = []
        for reference, keys in sorted(wanted.items()):
            prepared = await get_list(self._ports.objects, reference, PreparedDocument)
            documents.extend(document for document in prepared if document.doc_key in keys)
        return documents


def _outcome(document: PreparedDocument, attempt: int, delta: StageDelta) -> DocumentOutcome:
    change = delta.documents.get(document.doc_key, ChunkChange())
    return DocumentOutcome(
        doc_key=document.doc_key,
        stage=Stage.INDEX,
        status=OutcomeStatus.DONE,
        attempt=attempt,
        source_version=document.source_version or None,
        content_hash=document.content_hash or None,
        fingerprint=document.fingerprint or None,
        chunks=len(document.chunks),
        added=change.added,
        kept=change.kept,
        removed=change.removed,
    )
