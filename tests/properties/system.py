"""The product without Temporal: catalog, stores, gate, flip and search, step by step."""

import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from temporalio.testing import ActivityEnvironment

from activities.checks import Checks
from activities.indexing import view_of
from activities.packs import indexed_chunks
from activities.ports import Ports
from activities.promotion import Promotion
from activities.retirement import Retirement
from contracts.activities import CheckRequest, EndRequest, SourceRequest
from contracts.documents import (
    Chunk,
    Located,
    PackAddress,
    PackedChunk,
    PreparedChunk,
    PreparedDocument,
)
from contracts.gate import CheckReport
from contracts.ids import chunk_key, content_hash, text_hash
from contracts.ports import SearchStore
from contracts.runs import RunCounts, RunState, RunTicket
from contracts.search import SearchAnswer, SearchQuestion
from contracts.sources import SourceConfig
from contracts.visibility import LivePointer, StageDelta, StoreWrite, View
from documents.embedders.hashing import HashingEmbedder, hashed
from documents.parsers.sandbox import InProcessParser
from indexers.search import HybridSearch
from storage.catalog.repository import SqlCatalog
from storage.objects.memory import MemoryObjects
from tests.properties.model import Contents

START = datetime(2026, 3, 4, tzinfo=UTC)
GRACE = timedelta(seconds=11)  # more than readers get
LATE = timedelta(minutes=11)  # more than late writers get
EVERYTHING = 200  # hits; more than any source here has chunks


class Interruptible:
    """The judging part of a catalog; `between` happens once, before the next verdict."""

    def __init__(self, catalog: SqlCatalog) -> None:
        self._catalog = catalog
        self.between: Callable[[], Awaitable[None]] | None = None

    async def pointers(self, source_ids: Collection[str]) -> dict[str, LivePointer]:
        return await self._catalog.pointers(source_ids)

    async def judge(self, chunk_ids: Collection[str], views: Sequence[View]) -> set[str]:
        if self.between is not None:
            between, self.between = self.between, None
            await between()
        return await self._catalog.judge(chunk_ids, views)

    async def locate(self, chunk_ids: Collection[str], views: Sequence[View]) -> dict[str, Located]:
        return await self._catalog.locate(chunk_ids, views)

    async def visible(self, views: Sequence[View], limit: int) -> int:
        return await self._catalog.visible(views, limit)


class System:
    """One source among others on shared stores, with a clock that stands still unless told."""

    def __init__(
        self, source: str, catalog: SqlCatalog, stores: tuple[SearchStore, SearchStore]
    ) -> None:
        self.source = source
        self.now = START
        self.catalog = catalog
        self.stores = stores
        self.objects = MemoryObjects()
        self.judge = Interruptible(catalog)
        embedder = HashingEmbedder()
        self.search = HybridSearch(self.judge, *stores, embedder, self.objects)
        unused: Any = None
        self.ports = Ports(
            catalog=catalog,
            objects=self.objects,
            stores=stores,
            parser=InProcessParser(),
            embedder=embedder,
            orchestrator=unused,
            open_source=unused,
            scratch=Path(),
            now=lambda: self.now,
        )
        self._requests = itertools.count(1)
        self._activities = ActivityEnvironment()

    async def add(self, retain: int) -> None:
        config = SourceConfig(
            source_id=self.source, kind="folder", container="/x", retain_versions=retain
        )
        await self.catalog.put_source(config, "test")

    def view(self, seq: int) -> View:
        return View(source_id=self.source, generation=1, seq=seq)

    async def open(self) -> RunTicket | None:
        answer = await self.catalog.open_run(
            self.source, f"request {next(self._requests)}", "change", self.now
        )
        return answer.ticket

    # --- stages --------------------------------------------------------------------------------

    async def prepare(
        self, ticket: RunTicket, changes: Mapping[str, tuple[str, ...] | None]
    ) -> list[PreparedDocument]:
        """As the stage of embedding does it: packs for what isn't open, then the documents."""
        known = await self.catalog.open_chunk_keys(ticket, list(changes))
        prepared = []
        for doc_key, texts in sorted(changes.items()):
            if texts is None:
                prepared.append(PreparedDocument(doc_key=doc_key, deleted=True))
                continue
            seen: Counter[str] = Counter()
            chunks = []
            for place, text in enumerate(texts):
                name = chunk_key(text_hash(text), {}, seen[text])
                seen[text] += 1
                address = None
                if name not in known.get(doc_key, {}):
                    address = await self._pack(ticket, doc_key, text)
                chunks.append(
                    PreparedChunk(
                        chunk_key=name,
                        text_hash=text_hash(text),
                        prefix_length=0,
                        tokens=2,
                        char_start=10 * place,
                        char_end=10 * place + len(text),
                        address=address,
                    )
                )
            prepared.append(
                PreparedDocument(
                    doc_key=doc_key,
                    source_version=f"{ticket.seq} {texts}",
                    content_hash=content_hash(str(texts).encode()),
                    fingerprint="f",
                    chunks=tuple(chunks),
                )
            )
        return prepared

    async def _pack(self, ticket: RunTicket, doc_key: str, text: str) -> PackAddress:
        chunk = Chunk(prefix="", body=text, tokens=2, char_start=0, char_end=len(text))
        record = PackedChunk.of(chunk, hashed(text)).encode()
        key = f"packs/{self.source}/{ticket.seq}/{doc_key} {text}.pack"
        await self.objects.put(key, record)
        return PackAddress(pack=key, offset=0, length=len(record))

    async def intend(
        self, ticket: RunTicket, changes: Mapping[str, tuple[str, ...] | None]
    ) -> tuple[StageDelta, StoreWrite]:
        """Commit the intent; answers it and what the stores have to be told."""
        delta = await self.catalog.stage(ticket, await self.prepare(ticket, changes))
        view = view_of(ticket)
        opens = await indexed_chunks(self.objects, view, ticket.run_id, delta.opens)
        return delta, StoreWrite(view, opens, delta.closes, delta.reopens, delta.removes)

    async def stage(
        self, ticket: RunTicket, changes: Mapping[str, tuple[str, ...] | None], reach: int = 3
    ) -> StoreWrite:
        """Intent, one store, the other, settled: as far as the process comes (0 to 3)."""
        delta, write = await self.intend(ticket, changes)
        for number, store in enumerate(self.stores, 1):
            if reach >= number:
                await store.apply(write)
        if reach == len(self.stores) + 1:
            await self.catalog.settle(ticket, delta)
        return write

    # --- gate, flip, and the ways back -----------------------------------------------------------

    async def check(self, ticket: RunTicket) -> CheckReport:
        """The gate's look, and the second one after bringing the stores in line."""
        checks, request = Checks(self.ports), CheckRequest(ticket=ticket)
        report = await self._activities.run(checks.check_run, request)
        if not report.passed:
            report = await self._activities.run(checks.restage_run, request)
        return report

    async def promote(self, ticket: RunTicket, digest: str) -> None:
        await self.catalog.promote(ticket, RunCounts(), digest, self.now)

    async def end(self, ticket: RunTicket, state: RunState) -> None:
        request = EndRequest(ticket=ticket, state=state, reason="a test", counts=RunCounts())
        await self._activities.run(Promotion(self.ports).end_run, request)

    async def roll_back(self, seq: int | None, request: str) -> LivePointer:
        return await self.catalog.roll_back(self.source, seq, "test", "a test", self.now, request)

    async def sweep(self) -> None:
        await self._activities.run(
            Retirement(self.ports).sweep_source, SourceRequest(source_id=self.source)
        )

    # --- readers -------------------------------------------------------------------------------

    async def ask(self, text: str, limit: int = EVERYTHING, at: int | None = None) -> SearchAnswer:
        question = SearchQuestion(
            text=text, sources=(self.source,), limit=limit, at=at, dense_weight=1.0
        )
        return await self.search.ask(question)

    async def pointer(self) -> LivePointer:
        return (await self.catalog.pointers([self.source]))[self.source]


def shown(answer: SearchAnswer) -> list[tuple[str, str]]:
    """Every hit as document and text, sorted."""
    return sorted((hit.chunk.doc_key, hit.text) for hit in answer.hits)


def merged(base: Contents, changes: Mapping[str, tuple[str, ...] | None]) -> Contents:
    """The contents after the changes."""
    result = dict(base)
    for key, texts in changes.items():
        if texts is None:
            result.pop(key, None)
        else:
            result[key] = texts
    return result
