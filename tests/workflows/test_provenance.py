"""Provenance through real workflows: a hit leads back to everything that made it."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from temporalio.client import Client
from world import World, small_world

from contracts.errors import EmbeddingUnavailable
from contracts.events import ChangeSignal, DirtyKey, EventTrace
from contracts.provenance import DocumentRun, Result
from contracts.runs import RunState, Stage
from workflows import stages

pytestmark = pytest.mark.asyncio(loop_scope="session")

PUT = EventTrace(
    origin="s3",
    name="ObjectCreated:Put",
    occurred_at=datetime(2026, 3, 4, tzinfo=UTC),
    message_id="a message",
)
TWO_SECTIONS = b"# Alpha\n\nIt tells of anchors.\n\n# Beta\n\nIt tells of bollards.\n"


async def filled(world: World) -> int:
    await world.crawl()
    run = await world.ended(0, RunState.PROMOTED)
    await world.quiet()
    return run.seq


async def named(world: World, key: str) -> None:
    """An event names the document."""
    signal = ChangeSignal(keys=(DirtyKey(key=key, events=(PUT,)),), events=1)
    await world.orchestrator.signal_changed(world.source_id, signal)


async def history(world: World, key: str) -> list[DocumentRun]:
    return await world.catalog.history(world.source_id, key)


@pytest.mark.parametrize("whole", [False, True], ids=["queues", "one process"])
async def test_a_hit_leads_back_to_its_event(client: Client, tmp_path: Path, whole: bool) -> None:
    """From chunk and version to the runs that made them, and there to event, parser, chunker,
    embedder, and each stage with its times."""
    documents = {"a.md": TWO_SECTIONS}
    async with small_world(client, tmp_path, documents, whole=whole) as world:
        first = await filled(world)
        documents["a.md"] = TWO_SECTIONS.replace(b"bollards", b"buoys")
        await named(world, "a.md")
        second = (await world.ended(first, RunState.PROMOTED)).seq
        [kept] = [hit.chunk for hit in (await world.ask("anchors")).hits if "anchors" in hit.text]
        [new] = [hit.chunk for hit in (await world.ask("buoys")).hits if "buoys" in hit.text]
        assert (kept.from_seq, kept.version_seq) == (first, second)
        assert (new.from_seq, new.version_seq) == (second, second)
        now, before = await history(world, "a.md")
        assert (now.seq, before.seq) == (second, first)
        assert (now.run_id, now.source_version) == (new.run_id, new.source_version)
        assert (now.cause, now.events) == ("change", (PUT,))
        assert (before.cause, before.events) == ("crawl", ())
        assert (now.served, before.served, before.retained) == (True, False, True)
        assert (now.chunks_added, now.chunks_kept, now.chunks_removed) == (1, 1, 1)
        assert (now.vectors_bought, now.vectors_reused) == (1, 0)
        assert now.parser is not None
        assert now.chunker is not None
        assert (now.embedder, now.size) == (world.embedder.space.name, len(documents["a.md"]))
        assert [trace.stage for trace in now.stages] == list(Stage)
        times = [time for trace in now.stages for time in (trace.started_at, trace.ended_at)]
        assert None not in times
        assert times == sorted(times, key=str)


async def test_a_deletion_and_its_return_are_told(client: Client, tmp_path: Path) -> None:
    """What was deleted names its event; what comes back has been parsed and embedded before."""
    documents = {"a.md": TWO_SECTIONS, "b.txt": b"It tells of weirs."}
    async with small_world(client, tmp_path, documents) as world:
        first = await filled(world)
        del documents["a.md"]
        await named(world, "a.md")
        second = (await world.ended(first, RunState.PROMOTED)).seq
        documents["a.md"] = TWO_SECTIONS
        await named(world, "a.md")
        await world.ended(second, RunState.PROMOTED)
        back, gone, _ = await history(world, "a.md")
        assert (gone.result, gone.events, gone.chunks_removed) == (Result.DELETED, (PUT,), 2)
        assert (back.result, back.parsed_before) == (Result.INGESTED, True)
        assert (back.vectors_bought, back.vectors_reused) == (0, 2)


async def test_each_attempt_at_a_stage_is_told(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that failed before with their reasons, and what they bought is counted."""
    monkeypatch.setattr(stages, "FIRST_RETRY", 0.01)
    documents = {"b.txt": b"It tells of weirs."}
    async with small_world(client, tmp_path, documents) as world:
        first = await filled(world)
        world.embedder.at_once = 1
        world.embedder.error = EmbeddingUnavailable("the endpoint is down")
        world.embedder.error_from = world.embedder.bought + 1
        documents["a.md"] = TWO_SECTIONS
        await named(world, "a.md")
        await world.ended(first)
        failed = (await history(world, "a.md"))[0]
        assert (failed.result, failed.vectors_bought) == (Result.FAILED, 1)
        embedding = failed.stages[-1]
        assert (embedding.stage, embedding.attempts) == (Stage.EMBED, stages.STAGE_ATTEMPTS)
        assert embedding.error == EmbeddingUnavailable.__name__
        assert [attempt.attempt for attempt in embedding.earlier] == [1, 2, 3]
        assert {attempt.message for attempt in embedding.earlier} == {"the endpoint is down"}
        world.embedder.error = None
        await world.ended(failed.seq, RunState.PROMOTED)
        healed = (await history(world, "a.md"))[0]
        assert (healed.cause, healed.events) == ("retry", (PUT,))
        assert (healed.vectors_bought, healed.vectors_reused) == (1, 1)


async def test_a_rejected_run_stays_in_the_history(client: Client, tmp_path: Path) -> None:
    """What it made is told beside why it was rejected, and what waits keeps its event."""
    documents = {"a.md": TWO_SECTIONS}
    async with small_world(client, tmp_path, documents) as world:
        first = await filled(world)
        await world.configure(gate="manual", approval_timeout=0.5)
        documents["a.md"] = TWO_SECTIONS.replace(b"bollards", b"buoys")
        await named(world, "a.md")
        await world.ended(first, RunState.REJECTED)
        rejected, served = await history(world, "a.md")
        assert (rejected.state, rejected.result) == (RunState.REJECTED, Result.INGESTED)
        assert rejected.reason is not None
        assert (rejected.retained, served.served) == (False, True)
        [status] = await world.catalog.statuses(world.source_id)
        assert (status.place, status.why) == ("waiting", "the next run takes it")
