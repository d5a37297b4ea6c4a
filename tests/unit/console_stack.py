"""A stack in memory behind the API: one source with two promoted runs and one that stages."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from temporalio.testing import ActivityEnvironment

import sources
from activities.checks import Checks
from activities.embedding import Embedding
from activities.indexing import Indexing
from activities.parsing import Parsing
from activities.planning import Planning
from activities.ports import Ports
from activities.promotion import Promotion
from activities.status import Status
from bridge.dead_letters import ObjectDeadLetters
from bridge.memory import RecordingOrchestrator
from console.services import Services
from console.views import ParkedMessage
from contracts.activities import (
    CheckRequest,
    OpenRunRequest,
    PlanRequest,
    PromoteRequest,
    StageRequest,
)
from contracts.errors import UnknownKind
from contracts.gate import Decision, GateDecision
from contracts.ports import SourceKind
from contracts.runs import RunCounts, RunTicket
from contracts.sources import SourceConfig
from documents.embedders.hashing import HashingEmbedder
from documents.parsers.sandbox import InProcessParser
from indexers.memory import MemoryStore
from indexers.search import HybridSearch
from sources.memory import MemorySource
from storage.catalog.memory import open_memory_catalog
from storage.objects.memory import MemoryObjects

SOURCE = "handbook"
KEY = "a key that nobody guesses"
DOCUMENTS: Mapping[str, bytes] = {
    "guide/start.md": b"# Start\n\nOpen the sluice before the tide turns.\n",
    "guide/tide.md": b"# Tide\n\nThe tide turns twice a day.\n",
    "guide/ébb und flut?&#.md": b"# Ebb\n\nThe ebb follows.\n",
    "torn.md": b"\x00\x01\x02\x00torn",
}


@asynccontextmanager
async def memory_stack(folder: Path) -> AsyncIterator[Services]:
    """Services whose ports are all in memory; nothing runs, what is asked of Temporal is kept.

    Args:
        folder: for contents on their way to the parser, and the root that may be added.
    """
    catalog = await open_memory_catalog()
    embedder, objects = HashingEmbedder(), MemoryObjects()
    vectors, keywords = MemoryStore("vectors"), MemoryStore("keywords")
    config = SourceConfig(source_id=SOURCE, kind="folder", container=str(folder))
    source = MemorySource(config, dict(DOCUMENTS))
    ports = Ports(
        catalog=catalog,
        objects=objects,
        stores=(vectors, keywords),
        parser=InProcessParser(),
        embedder=embedder,
        orchestrator=RecordingOrchestrator(),
        open_source=lambda _config: source,
        scratch=folder,
    )
    await catalog.put_source(config, "ann")
    await _promoted(ports, await _staged(ports, "first"))
    source.documents["guide/tide.md"] = b"# Tide\n\nThe tide turns every six hours.\n"
    await _promoted(ports, await _staged(ports, "second"))
    source.documents["guide/start.md"] = b"# Start\n\nOpen the sluice at noon.\n"
    await _staged(ports, "third")
    letters = ObjectDeadLetters(objects)
    for number in range(3):
        await letters.park("no decoder knows it", b"{%d" % number, {"queue": "q"})
    try:
        yield Services(
            catalog=catalog,
            search=HybridSearch(catalog, vectors, keywords, embedder, objects),
            kind=_kind,
            key=KEY,
            orchestrator=ports.orchestrator,
            parked=_parked(letters),
            versions={"sluice": "0"},
        )
    finally:
        await catalog.close()


def _kind(name: str) -> SourceKind:
    """Folders alone: a test asks no bucket."""
    if name != "folder":
        raise UnknownKind(f"no kind {name}")
    return sources.kind(name)


def _parked(
    letters: ObjectDeadLetters,
) -> Callable[[str, int | None], Awaitable[list[ParkedMessage]]]:
    async def listing(after: str, limit: int | None) -> list[ParkedMessage]:
        return [
            ParkedMessage(id=letter.id, reason=letter.reason, parked_at=letter.at)
            async for letter in letters.parked(after, limit)
        ]

    return listing


async def _staged(ports: Ports, request: str) -> RunTicket:
    env = ActivityEnvironment()
    opened = await env.run(
        Status(ports).open_run,
        OpenRunRequest(source_id=SOURCE, request=request, cause="crawl", crawl=True),
    )
    assert opened.ticket is not None, opened.refused
    plan = await env.run(Planning(ports).plan_run, PlanRequest(ticket=opened.ticket))
    for batch in plan.batches:
        stage = StageRequest(ticket=opened.ticket, batch=batch)
        await env.run(Parsing(ports).parse_batch, stage)
        await env.run(Embedding(ports).embed_batch, stage)
        await env.run(Indexing(ports).index_batch, stage)
    return opened.ticket


async def _promoted(ports: Ports, ticket: RunTicket) -> None:
    env = ActivityEnvironment()
    report = await env.run(Checks(ports).check_run, CheckRequest(ticket=ticket))
    request = PromoteRequest(
        ticket=ticket,
        report=report,
        decision=GateDecision(decision=Decision.PROMOTE),
        counts=RunCounts(),
    )
    promotion = await env.run(Promotion(ports).promote_run, request)
    assert promotion.promoted, promotion
