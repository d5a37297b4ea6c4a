"""A small world for workflow tests: real Temporal, real workflows, in-memory adapters."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from temporalio.client import Client, WorkflowHandle

from activities.ports import Limits, Ports
from contracts.activities import Command, CommandResult
from contracts.documents import Bought, EmbeddingSpace, Vector
from contracts.errors import SluiceError
from contracts.events import ChangeSignal, DirtyKey
from contracts.runs import RunRecord, RunState
from contracts.search import SearchAnswer, SearchQuestion
from contracts.sources import SourceConfig
from contracts.visibility import View
from documents.embedders.hashing import HashingEmbedder
from documents.parsers.sandbox import InProcessParser
from indexers.memory import MemoryStore
from indexers.search import HybridSearch
from sluice.orchestrator import TemporalOrchestrator
from sluice.worker import serve
from sources.memory import MemorySource
from storage.catalog.repository import SqlCatalog, open_catalog
from storage.objects.memory import MemoryObjects

BOUND = 60.0  # seconds for anything that a test waits for
POLL = 0.02  # seconds


class BreakableEmbedder:
    """Counts what is bought, and fails while `error` is set."""

    def __init__(self) -> None:
        self._inner = HashingEmbedder()
        self.error: SluiceError | None = None
        self.error_from: int | None = None  # texts bought, after which `error` is raised
        self.refused: str | None = None  # what a text has in it that causes `error`
        self.at_once = 128  # texts of one request
        self.bought = 0
        self.asked = 0  # requests
        self.charged: int | None = None  # tokens of each request

    @property
    def space(self) -> EmbeddingSpace:
        return self._inner.space

    def split(self, texts: Sequence[str]) -> list[Sequence[str]]:
        return [texts[n : n + self.at_once] for n in range(0, len(texts), self.at_once)]

    async def embed_passages(self, texts: Sequence[str]) -> Bought:
        self.asked += 1
        if self.error is not None and self._errs(texts):
            raise self.error
        self.bought += len(texts)
        bought = await self._inner.embed_passages(texts)
        return bought._replace(tokens=self.charged)

    def _errs(self, texts: Sequence[str]) -> bool:
        if self.refused is not None:
            return any(self.refused in text for text in texts)
        return self.bought >= (self.error_from or 0)

    async def embed_query(self, text: str) -> Vector:
        return await self._inner.embed_query(text)

    async def close(self) -> None:
        await self._inner.close()


@dataclass
class World:
    """One source with everything that works on it."""

    client: Client
    catalog: SqlCatalog
    ports: Ports
    search: HybridSearch
    embedder: BreakableEmbedder
    source_id: str
    documents: dict[str, bytes]
    source: MemorySource
    stores: tuple[MemoryStore, MemoryStore]
    orchestrator: TemporalOrchestrator = field(init=False)

    def __post_init__(self) -> None:
        self.orchestrator = TemporalOrchestrator(self.client)

    async def changed(self, *keys: str) -> None:
        dirty = tuple(DirtyKey(key=key) for key in keys)
        await self.orchestrator.signal_changed(self.source_id, ChangeSignal(keys=dirty))

    async def crawl(self) -> None:
        await self.orchestrator.signal_changed(self.source_id, ChangeSignal(crawl=True))

    async def command(self, verb: str, **arguments: int) -> CommandResult:
        command = Command.model_validate({"verb": verb, "actor": "test", **arguments})
        return await self.orchestrator.command(self.source_id, command)

    async def configure(self, **changed: object) -> None:
        """Change the source's settings."""
        config = (await self.catalog.source(self.source_id)).config
        changed_config = SourceConfig.model_validate(config.model_dump() | changed)
        await self.catalog.put_source(changed_config, "test")

    def view(self, seq: int) -> View:
        return View(source_id=self.source_id, generation=1, seq=seq)

    async def live(self) -> int:
        return (await self.catalog.pointers([self.source_id]))[self.source_id].seq

    async def ended(self, after: int, *states: RunState) -> RunRecord:
        """The first run after a sequence that ended in one of the states (any, if none)."""
        async with asyncio.timeout(BOUND):
            while True:
                for run in reversed(await self.catalog.runs(self.source_id)):
                    wanted = not states or run.state in states
                    if run.seq > after and run.state.final and wanted:
                        return run
                await asyncio.sleep(POLL)

    async def waiting(self, after: int) -> RunRecord:
        """The run after a sequence, once it says what it waits for."""
        async with asyncio.timeout(BOUND):
            while True:
                for run in await self.catalog.runs(self.source_id, limit=1):
                    if run.seq > after and run.reason is not None:
                        return run
                await asyncio.sleep(POLL)

    async def newest(self) -> int:
        runs = await self.catalog.runs(self.source_id, limit=1)
        return runs[0].seq if runs else 0

    async def ask(self, text: str, limit: int = 10, at: int | None = None) -> SearchAnswer:
        return await self.search.ask(
            SearchQuestion(text=text, sources=(self.source_id,), limit=limit, at=at)
        )

    async def texts(self, text: str) -> list[str]:
        return [hit.text for hit in (await self.ask(text)).hits]

    def coordinator(self) -> WorkflowHandle[object, object]:
        return self.client.get_workflow_handle(f"source/{self.source_id}")

    async def quiet(self) -> None:
        """Wait until no run is open and nothing is pending."""
        async with asyncio.timeout(BOUND):
            while True:
                state = await self.catalog.source_state(self.source_id)
                if state.unresolved is None and state.retry_at is None:
                    return
                await asyncio.sleep(POLL)


@asynccontextmanager
async def small_world(
    client: Client,
    scratch: Path,
    documents: dict[str, bytes] | None = None,
    *,
    limits: Limits | None = None,
    whole: bool = False,
    grace: float = 0.2,
    **config: object,
) -> AsyncIterator[World]:
    """Workers and one added source, with graces of a moment."""
    source_id = f"s{uuid.uuid4().hex[:10]}"
    catalog = await open_catalog(
        "sqlite+aiosqlite://",
        reader_grace=timedelta(seconds=grace),
        late_writer=timedelta(seconds=600),
        retry_backoff=0.5,
    )
    held = documents if documents is not None else {}
    options = {"quiet_period": 0.0, "max_delay": 0.0} | config
    settings = SourceConfig.model_validate(
        {"source_id": source_id, "kind": "memory", "container": "c", **options}
    )
    await catalog.put_source(settings, "test")
    source = MemorySource(settings, held)
    embedder = BreakableEmbedder()
    stores = (MemoryStore("vectors"), MemoryStore("keywords"))
    objects = MemoryObjects()
    ports = Ports(
        catalog=catalog,
        objects=objects,
        stores=stores,
        parser=InProcessParser(),
        embedder=embedder,
        orchestrator=TemporalOrchestrator(client),
        open_source=lambda _config: source,
        scratch=scratch,
        limits=limits or Limits(),
        whole=whole,
    )
    search = HybridSearch(catalog, *stores, embedder, objects)
    world = World(client, catalog, ports, search, embedder, source_id, held, source, stores)
    stop = asyncio.Event()
    working = asyncio.create_task(serve(client, ports, stop))
    try:
        yield world
    finally:
        stop.set()
        await working
        await catalog.close()
