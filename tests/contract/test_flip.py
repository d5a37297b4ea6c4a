"""Staging and flip on the embedded engines: nothing of a run is seen before, everything after."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from temporalio.testing import ActivityEnvironment

from activities.checks import Checks
from activities.embedding import Embedding
from activities.indexing import Indexing
from activities.parsing import Parsing
from activities.planning import Planning
from activities.ports import Ports
from activities.promotion import Promotion
from activities.retirement import Retirement
from activities.status import Status
from bridge.memory import RecordingOrchestrator
from contracts.activities import (
    CheckRequest,
    EndRequest,
    OpenRunRequest,
    PlanRequest,
    PromoteRequest,
    SourceRequest,
    StageRequest,
)
from contracts.gate import CheckReport, Decision, GateDecision
from contracts.runs import RunCounts, RunState, RunTicket
from contracts.search import SearchAnswer, SearchQuestion
from contracts.sources import SourceConfig
from contracts.visibility import StoreWrite, View
from documents.embedders.hashing import HashingEmbedder
from documents.parsers.sandbox import InProcessParser
from indexers.qdrant_edge import EdgeVectorStore
from indexers.search import HybridSearch
from indexers.sqlite_fts import FtsKeywordStore
from sources.memory import MemorySource
from storage.catalog.repository import open_catalog, sqlite_url
from storage.objects.directory import DirectoryObjects

READS = 1_000
PROMOTIONS = 200
ROLLBACKS = 20


@dataclass
class Clock:
    """The time of the bench runs ahead of everybody else's."""

    ahead: timedelta = timedelta()


@dataclass
class Bench:
    """A source on the embedded engines, moved step by step without Temporal."""

    ports: Ports
    search: HybridSearch
    source: MemorySource
    clock: Clock
    requests: int = 0

    async def staged(self) -> RunTicket:
        """A run up to its gate: everything is written to both stores."""
        self.requests += 1
        env = ActivityEnvironment()
        opened = await env.run(
            Status(self.ports).open_run,
            OpenRunRequest(
                source_id="s", request=f"test#{self.requests}", cause="crawl", crawl=True
            ),
        )
        ticket = opened.ticket
        assert ticket is not None
        plan = await env.run(Planning(self.ports).plan_run, PlanRequest(ticket=ticket))
        for batch in plan.batches:
            request = StageRequest(ticket=ticket, batch=batch)
            await env.run(Parsing(self.ports).parse_batch, request)
            await env.run(Embedding(self.ports).embed_batch, request)
            await env.run(Indexing(self.ports).index_batch, request)
        return ticket

    async def checked(self, ticket: RunTicket) -> CheckReport:
        return await ActivityEnvironment().run(
            Checks(self.ports).check_run, CheckRequest(ticket=ticket)
        )

    async def promoted(self, ticket: RunTicket) -> bool:
        request = PromoteRequest(
            ticket=ticket,
            report=await self.checked(ticket),
            decision=GateDecision(decision=Decision.PROMOTE),
            counts=RunCounts(),
        )
        report = await ActivityEnvironment().run(Promotion(self.ports).promote_run, request)
        return report.promoted

    async def ended(self, ticket: RunTicket, state: RunState) -> None:
        request = EndRequest(ticket=ticket, state=state, reason="test")
        await ActivityEnvironment().run(Promotion(self.ports).end_run, request)

    async def ask(self, text: str) -> SearchAnswer:
        return await self.search.ask(SearchQuestion(text=text, sources=("s",), limit=20))

    async def graces_pass(self) -> None:
        """Whatever waits for readers to finish is done now."""
        self.clock.ahead += timedelta(seconds=11)
        await ActivityEnvironment().run(
            Retirement(self.ports).sweep_source, SourceRequest(source_id="s")
        )

    async def bodies(self) -> list[str]:
        """Every visible chunk: each document has the word `tells`."""
        return sorted(hit.text for hit in (await self.ask("tells")).hits)


@asynccontextmanager
async def bench(folder: Path, documents: dict[str, bytes]) -> AsyncIterator[Bench]:
    catalog = await open_catalog(sqlite_url(folder / "catalog.sqlite"))
    config = SourceConfig(source_id="s", kind="memory", container="c")
    await catalog.put_source(config, "test")
    source = MemorySource(config, documents)
    embedder, clock = HashingEmbedder(), Clock()
    (folder / "vectors").mkdir()
    (folder / "scratch").mkdir()
    vectors = EdgeVectorStore(folder / "vectors", embedder.space.dimension)
    keywords = FtsKeywordStore(folder)
    objects = DirectoryObjects(folder / "objects")
    ports = Ports(
        catalog=catalog,
        objects=objects,
        stores=(vectors, keywords),
        parser=InProcessParser(),
        embedder=embedder,
        orchestrator=RecordingOrchestrator(),
        open_source=lambda _config: source,
        scratch=folder / "scratch",
        now=lambda: datetime.now(UTC) + clock.ahead,
    )
    try:
        search = HybridSearch(catalog, vectors, keywords, embedder, objects)
        yield Bench(ports, search, source, clock)
    finally:
        await vectors.close()
        await keywords.close()
        await catalog.close()


def first_state() -> dict[str, bytes]:
    return {f"{n}.txt": f"Document {n} tells of anchors.\n".encode() for n in range(6)}


def change(documents: dict[str, bytes]) -> None:
    documents["0.txt"] = b"Document 0 tells of bollards.\n"
    documents["9.txt"] = b"Document 9 tells of davits.\n"
    del documents["5.txt"]


async def test_a_thousand_reads_between_staging_and_flip_see_nothing(tmp_path: Path) -> None:
    """Every answer is exactly the old one until the flip, and exactly the new one after it."""
    documents = first_state()
    async with bench(tmp_path, documents) as world:
        assert await world.promoted(await world.staged())
        before = await world.bodies()
        assert len(before) == 6
        change(documents)
        ticket = await world.staged()
        for _ in range(READS):
            assert await world.bodies() == before
        assert await world.promoted(ticket)
        after = await world.bodies()
        assert after == sorted(text.decode().strip() for text in documents.values())


async def test_a_reader_beside_promotions_sees_only_whole_states(tmp_path: Path) -> None:
    """While runs are staged and promoted, each answer is one of the promoted states, and is the
    one that its pinned sequence names."""
    documents = first_state()
    async with bench(tmp_path, documents) as world:
        ticket = await world.staged()
        assert await world.promoted(ticket)
        states = {ticket.seq: await world.bodies()}
        seen: list[tuple[int, list[str]]] = []
        going = True

        async def read() -> None:
            while going:
                answer = await world.ask("tells")
                seen.append((answer.pinned["s"], sorted(hit.text for hit in answer.hits)))

        reader = asyncio.create_task(read())
        for n in range(15):
            documents["0.txt"] = f"Document 0 tells of thing {n}.\n".encode()
            ticket = await world.staged()
            states[ticket.seq] = sorted(text.decode().strip() for text in documents.values())
            assert await world.promoted(ticket)
        going = False
        await reader
        assert len({seq for seq, _ in seen}) > 3
        for seq, bodies in seen:
            assert bodies == states[seq]


async def test_a_reader_beside_promotions_and_rollbacks_sees_no_mix_gap_or_error(
    tmp_path: Path,
) -> None:
    """Two hundred promotions and twenty rollbacks, each swept at once as if every grace were over:
    a reader that never stops gets a whole state, that of its pinned sequence, every time."""
    documents = first_state()
    async with bench(tmp_path, documents) as world:
        ticket = await world.staged()
        assert await world.promoted(ticket)
        states = {ticket.seq: await world.bodies()}
        reads = 0
        going = True

        async def read() -> None:
            nonlocal reads
            while going:
                answer = await world.ask("tells")
                assert not answer.incomplete
                assert sorted(hit.text for hit in answer.hits) == states[answer.pinned["s"]]
                reads += 1

        reader = asyncio.create_task(read())
        for n in range(1, PROMOTIONS + 1):
            documents[f"{n % 5}.txt"] = f"Document tells of thing {n}.\n".encode()
            ticket = await world.staged()
            states[ticket.seq] = sorted(text.decode().strip() for text in documents.values())
            assert await world.promoted(ticket)
            await world.graces_pass()
            if n % (PROMOTIONS // ROLLBACKS) == 0:
                await world.ports.catalog.roll_back("s", None, "me", "", world.ports.now())
                await world.graces_pass()
                await world.ports.catalog.unpin("s")
        going = False
        await reader
        assert reads > PROMOTIONS


async def test_the_stores_agree_with_the_catalog_before_the_flip(tmp_path: Path) -> None:
    """The gate's sets and counts are equal in both stores after staging."""
    documents = first_state()
    async with bench(tmp_path, documents) as world:
        await world.promoted(await world.staged())
        change(documents)
        ticket = await world.staged()
        report = await world.checked(ticket)
        assert report.passed, [check for check in report.checks if not check.passed]
        assert (report.opened, report.closed) == (2, 2)


async def test_a_store_that_lost_a_chunk_fails_the_gate_and_is_restaged(tmp_path: Path) -> None:
    """A missing and a surplus chunk are named with numbers, and restaging puts the store right."""
    documents = first_state()
    async with bench(tmp_path, documents) as world:
        await world.promoted(await world.staged())
        change(documents)
        ticket = await world.staged()
        view = View(source_id="s", generation=ticket.generation, seq=ticket.seq)
        census = await world.ports.stores[0].census(view)
        lost = tuple(sorted(census.opened))[:1]
        await world.ports.stores[0].apply(StoreWrite(view, removes=lost))
        report = await world.checked(ticket)
        assert not report.passed
        [wrong, *_] = [check for check in report.checks if not check.passed]
        assert wrong.name.startswith("vectors")
        assert "1 missing" in wrong.found
        request = CheckRequest(ticket=ticket)
        restaged = await ActivityEnvironment().run(Checks(world.ports).restage_run, request)
        assert restaged.passed


async def test_a_rejected_run_leaves_no_trace(tmp_path: Path) -> None:
    """After the purge stores and catalog are as before, and the next run takes the keys."""
    documents = first_state()
    async with bench(tmp_path, documents) as world:
        await world.promoted(await world.staged())
        before = await world.bodies()
        change(documents)
        ticket = await world.staged()
        await world.ended(ticket, RunState.REJECTED)
        view = View(source_id="s", generation=ticket.generation, seq=ticket.seq)
        for store in (*world.ports.stores, world.ports.catalog):
            census = await store.census(view)
            assert not census.opened
            assert not census.closed
        assert await world.bodies() == before
        assert await world.promoted(await world.staged())


async def test_every_step_may_happen_twice(tmp_path: Path) -> None:
    """A doubled stage, check and promotion change nothing, and buy nothing."""
    documents = first_state()
    async with bench(tmp_path, documents) as world:
        await world.promoted(await world.staged())
        change(documents)
        ticket = await world.staged()
        plan = await ActivityEnvironment().run(
            Planning(world.ports).plan_run, PlanRequest(ticket=ticket)
        )
        request = StageRequest(ticket=ticket, batch=plan.batches[0])
        for stage in (
            Parsing(world.ports).parse_batch,
            Embedding(world.ports).embed_batch,
            Indexing(world.ports).index_batch,
        ):
            await ActivityEnvironment().run(stage, request)
        assert (await world.checked(ticket)).passed
        assert await world.promoted(ticket)
        assert await world.ports.catalog.promote(ticket, RunCounts(), "again", datetime.now(UTC))
        assert await world.bodies() == sorted(t.decode().strip() for t in documents.values())
