"""The main job through real workflows: changes, failures, deletions, rollback, removal."""

import asyncio
import base64
import json
from pathlib import Path

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHistory
from temporalio.service import RPCError
from world import BOUND, POLL, World, small_world

from activities.ports import Limits
from contracts.errors import (
    CorruptDocument,
    EmbeddingUnavailable,
    SourceUnavailable,
    StoreUnavailable,
)
from contracts.runs import OutcomeStatus, RunState
from contracts.visibility import Census, View
from workflows import calls, coordinator, stages

pytestmark = pytest.mark.asyncio(loop_scope="session")

CANARY = "canary-5f2b9c17-in-the-text"


def three_documents() -> dict[str, bytes]:
    return {
        "a.md": b"# Alpha\n\nThe alpha paragraph tells of anchors.\n",
        "b.md": b"# Beta\n\nThe beta paragraph tells of bollards.\n",
        "c.txt": b"The gamma text tells of gangways.\n",
    }


async def filled(world: World) -> int:
    await world.crawl()
    run = await world.ended(0, RunState.PROMOTED)
    await world.quiet()
    return run.seq


async def test_a_first_crawl_is_searchable(client: Client, tmp_path: Path) -> None:
    """Everything in the source is found after one promoted run."""
    async with small_world(client, tmp_path, three_documents()) as world:
        seq = await filled(world)
        assert await world.live() == seq
        assert any("anchors" in text for text in await world.texts("anchors"))
        assert any("gangways" in text for text in await world.texts("gangways"))


@pytest.mark.parametrize("whole", [False, True], ids=["queues", "one process"])
async def test_one_change_embeds_one_chunk(client: Client, tmp_path: Path, whole: bool) -> None:
    """A changed document is replaced at the flip, and only its chunk is bought."""
    async with small_world(client, tmp_path, three_documents(), whole=whole) as world:
        seq = await filled(world)
        bought = world.embedder.bought
        world.documents["b.md"] = b"# Beta\n\nThe beta paragraph tells of buoys.\n"
        await world.changed("b.md")
        run = await world.ended(seq, RunState.PROMOTED)
        assert world.embedder.bought - bought == 1
        counts = run.counts
        assert (counts.embedded, counts.chunks_opened, counts.chunks_closed) == (1, 1, 1)
        assert any("buoys" in text for text in await world.texts("buoys"))
        assert not any("bollards" in text for text in await world.texts("bollards"))


async def test_a_touch_without_a_change_ends_as_no_change(client: Client, tmp_path: Path) -> None:
    """An event for an unchanged document promotes nothing."""
    async with small_world(client, tmp_path, three_documents()) as world:
        seq = await filled(world)
        await world.changed("a.md")
        run = await world.ended(seq)
        assert run.state is RunState.NO_CHANGE
        assert await world.live() == seq


async def test_a_deleted_document_is_gone(client: Client, tmp_path: Path) -> None:
    """A deletion closes the document's chunks in both stores."""
    async with small_world(client, tmp_path, three_documents()) as world:
        seq = await filled(world)
        del world.documents["c.txt"]
        await world.changed("c.txt")
        run = await world.ended(seq, RunState.PROMOTED)
        assert run.counts.deleted == 1
        assert not any("gangways" in text for text in await world.texts("gangways"))


async def test_a_crawl_finds_what_no_event_announced(client: Client, tmp_path: Path) -> None:
    """Additions, changes and deletions are found by a crawl alone."""
    async with small_world(client, tmp_path, three_documents()) as world:
        seq = await filled(world)
        del world.documents["a.md"]
        world.documents["b.md"] = b"# Beta\n\nNow it tells of beacons.\n"
        world.documents["d.txt"] = b"The delta text tells of davits.\n"
        await world.crawl()
        run = await world.ended(seq, RunState.PROMOTED)
        assert (run.counts.changed, run.counts.deleted) == (2, 1)
        assert any("davits" in text for text in await world.texts("davits"))
        assert not any("anchors" in text for text in await world.texts("anchors"))


async def test_a_broken_document_fails_alone_and_its_old_version_stays(
    client: Client, tmp_path: Path
) -> None:
    """The class of its error is kept, the others are promoted, the old text is still found, and
    it isn't tried again until it changes."""
    async with small_world(client, tmp_path, three_documents()) as world:
        seq = await filled(world)
        world.documents["a.md"] = b"\x00\x01\x02\x00broken"
        world.documents["b.md"] = b"# Beta\n\nThe beta paragraph tells of buoys.\n"
        await world.changed("a.md", "b.md")
        run = await world.ended(seq, RunState.PROMOTED)
        assert run.counts.failed == 1
        [status] = [s for s in await world.catalog.statuses(world.source_id) if s.error]
        assert (status.doc_key, status.error) == ("a.md", CorruptDocument.__name__)
        assert status.live_version is not None
        assert any("anchors" in text for text in await world.texts("anchors"))
        await world.quiet()
        await world.crawl()
        assert (await world.ended(run.seq)).state is RunState.NO_CHANGE


async def test_a_broken_document_that_is_deleted_is_listed_no_more(
    client: Client, tmp_path: Path
) -> None:
    """Nothing is left to say of a document that is gone and was never served."""
    documents = three_documents() | {"broken.md": b"\x00\x01\x02\x00broken"}
    async with small_world(client, tmp_path, documents) as world:
        seq = await filled(world)
        assert any(s.error for s in await world.catalog.statuses(world.source_id))
        del world.documents["broken.md"]
        await world.changed("broken.md")
        await world.ended(seq)
        assert not any(s.error for s in await world.catalog.statuses(world.source_id))


async def test_a_failing_embedder_leaves_the_old_version_and_the_next_run_heals(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While no vector can be bought the old answer stands; a later run brings the new one."""
    monkeypatch.setattr(stages, "FIRST_RETRY", 0.01)
    async with small_world(client, tmp_path, three_documents()) as world:
        seq = await filled(world)
        world.embedder.error = EmbeddingUnavailable("the endpoint is down")
        world.documents["b.md"] = b"# Beta\n\nThe beta paragraph tells of buoys.\n"
        await world.changed("b.md")
        failed = await world.ended(seq, RunState.FAILED)
        assert await world.live() == seq
        assert any("bollards" in text for text in await world.texts("bollards"))
        world.embedder.error = None
        await world.ended(failed.seq, RunState.PROMOTED)
        assert any("buoys" in text for text in await world.texts("buoys"))


async def test_a_document_that_fails_retryably_in_a_promoted_run_is_tried_again(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are promoted meanwhile; the key stays pending and a run follows by itself."""
    monkeypatch.setattr(stages, "FIRST_RETRY", 0.01)
    async with small_world(client, tmp_path, three_documents()) as world:
        seq = await filled(world)
        world.source.failures["a.md"] = SourceUnavailable("the source stutters")
        world.documents["a.md"] = b"# Alpha\n\nNow it tells of awnings.\n"
        world.documents["b.md"] = b"# Beta\n\nThe beta paragraph tells of buoys.\n"
        await world.changed("a.md", "b.md")
        run = await world.ended(seq, RunState.PROMOTED)
        assert run.counts.failed == 1
        assert any("buoys" in text for text in await world.texts("buoys"))
        del world.source.failures["a.md"]
        await world.ended(run.seq, RunState.PROMOTED)
        assert any("awnings" in text for text in await world.texts("awnings"))


async def test_an_unreachable_source_fails_the_run_and_keeps_the_keys(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan that can't look gives its keys back, and a later run uses them."""
    monkeypatch.setattr(calls.RETRY, "maximum_attempts", 1)
    async with small_world(client, tmp_path, three_documents()) as world:
        seq = await filled(world)
        world.source.failures[""] = SourceUnavailable("the bucket does not answer")
        world.documents["b.md"] = b"# Beta\n\nThe beta paragraph tells of buoys.\n"
        await world.changed("b.md")
        failed = await world.ended(seq, RunState.FAILED)
        assert "does not answer" in (failed.reason or "")
        world.source.failures.clear()
        await world.ended(failed.seq, RunState.PROMOTED)
        assert any("buoys" in text for text in await world.texts("buoys"))


@pytest.mark.parametrize("whole", [False, True], ids=["queues", "one process"])
async def test_a_run_that_waits_says_why(client: Client, tmp_path: Path, whole: bool) -> None:
    """While an attempt will be repeated the run has the sentence; afterwards it hasn't."""
    async with small_world(client, tmp_path, three_documents(), whole=whole) as world:
        seq = await filled(world)
        world.source.failures[""] = SourceUnavailable("the bucket does not answer")
        world.documents["b.md"] = b"# Beta\n\nThe beta paragraph tells of buoys.\n"
        await world.changed("b.md")
        waiting = await world.waiting(seq)
        assert (waiting.state, waiting.reason) == (
            RunState.PLANNING,
            "waits: the bucket does not answer",
        )
        world.source.failures.clear()
        run = await world.ended(seq, RunState.PROMOTED)
        assert run.reason is None


@pytest.mark.parametrize("how", ["events", "crawl"])
async def test_an_emptied_source_is_not_promoted_to_nothing(
    client: Client, tmp_path: Path, how: str
) -> None:
    """Neither the deletion of every document nor an empty listing empties the index."""
    async with small_world(client, tmp_path, three_documents()) as world:
        seq = await filled(world)
        keys = list(world.documents)
        world.documents.clear()
        if how == "events":
            await world.changed(*keys)
        else:
            await world.crawl()
        run = await world.ended(seq)
        assert run.state is RunState.REJECTED
        assert await world.live() == seq
        assert any("anchors" in text for text in await world.texts("anchors"))
        state = await world.catalog.source_state(world.source_id)
        assert not state.unswept


async def test_rollback_shows_the_old_answer_and_resume_the_new_one(
    client: Client, tmp_path: Path
) -> None:
    """The flip backwards pins the source; the resume ingests again without buying a vector."""
    async with small_world(client, tmp_path, three_documents()) as world:
        first = await filled(world)
        world.documents["b.md"] = b"# Beta\n\nThe beta paragraph tells of buoys.\n"
        await world.changed("b.md")
        second = await world.ended(first, RunState.PROMOTED)
        result = await world.command("rollback")
        assert result.ok
        assert await world.live() == first
        assert any("bollards" in text for text in await world.texts("bollards"))
        world.documents["d.txt"] = b"The delta text tells of davits.\n"
        await world.changed("d.txt")
        bought = world.embedder.bought
        assert (await world.command("resume")).ok
        run = await world.ended(second.seq, RunState.PROMOTED)
        await world.quiet()
        assert any("buoys" in text for text in await world.texts("buoys"))
        assert any("davits" in text for text in await world.texts("davits"))
        assert world.embedder.bought - bought == 1
        assert run.seq > second.seq


async def test_a_refused_rollback_says_why(client: Client, tmp_path: Path) -> None:
    """There is nothing to roll back to after the first run."""
    async with small_world(client, tmp_path, three_documents()) as world:
        await filled(world)
        result = await world.command("rollback")
        assert not result.ok
        assert result.error == "RollbackRefused"


async def test_a_paused_source_collects_and_runs_when_resumed(
    client: Client, tmp_path: Path
) -> None:
    """No run starts while a source is paused, and no change is lost."""
    async with small_world(client, tmp_path, three_documents()) as world:
        seq = await filled(world)
        assert (await world.command("pause")).ok
        world.documents["b.md"] = b"# Beta\n\nThe beta paragraph tells of buoys.\n"
        await world.changed("b.md")
        # A command is obeyed after the signal, so the loop has passed the paused source.
        assert (await world.command("pause")).ok
        assert await world.newest() == seq
        assert await world.orchestrator.collected(world.source_id) == 1
        assert (await world.command("resume")).ok
        await world.ended(seq, RunState.PROMOTED)


async def waiting_run(world: World, seq: int) -> None:
    """A run that has begun and can't go on."""
    world.source.failures[""] = SourceUnavailable("the bucket does not answer")
    world.documents["b.md"] = b"# Beta\n\nThe beta paragraph tells of buoys.\n"
    await world.changed("b.md")
    await world.waiting(seq)


async def test_a_rollback_cancels_the_run_that_is_open(client: Client, tmp_path: Path) -> None:
    """It ends as cancelled and tells its coordinator; its keys and those of the withdrawn run are
    ingested after the resume."""
    async with small_world(client, tmp_path, three_documents()) as world:
        await filled(world)
        world.documents["a.md"] = b"# Alpha\n\nThe alpha paragraph tells of awnings.\n"
        await world.changed("a.md")
        second = await world.ended(1, RunState.PROMOTED)
        await waiting_run(world, second.seq)
        assert (await world.command("rollback")).ok
        cancelled = await world.ended(second.seq)
        assert cancelled.state is RunState.CANCELLED
        assert any("anchors" in text for text in await world.texts("anchors"))
        world.source.failures.clear()
        assert (await world.command("resume")).ok
        await world.ended(cancelled.seq, RunState.PROMOTED)
        assert any("awnings" in text for text in await world.texts("awnings"))
        assert any("buoys" in text for text in await world.texts("buoys"))


async def forgotten(client: Client, workflow_id: str) -> None:
    """Have the server forget a workflow, as it does when its retention is over."""
    name = WorkflowExecution(workflow_id=workflow_id)
    request = DeleteWorkflowExecutionRequest(namespace=client.namespace, workflow_execution=name)
    await client.workflow_service.delete_workflow_execution(request)
    async with asyncio.timeout(BOUND):
        while True:
            try:
                await client.get_workflow_handle(workflow_id).describe()
            except RPCError:
                return
            await asyncio.sleep(POLL)


async def test_a_run_that_goes_while_it_is_cancelled_takes_no_coordinator_along(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server refuses to cancel what it doesn't know; commands and changes go on all the
    same."""

    async def everything_runs(workflow_id: str) -> bool:
        return True

    async with small_world(client, tmp_path, three_documents()) as world:
        await filled(world)
        world.documents["a.md"] = b"# Alpha\n\nThe alpha paragraph tells of awnings.\n"
        await world.changed("a.md")
        second = await world.ended(1, RunState.PROMOTED)
        await waiting_run(world, second.seq)
        monkeypatch.setattr(world.ports.orchestrator, "is_running", everything_runs)
        run_id = f"source/{world.source_id}/run/{second.seq + 1}"
        await forgotten(client, run_id)
        before = await world.coordinator().describe()
        assert (await world.command("rollback")).ok
        assert (await world.command("pause")).ok
        after = await world.coordinator().describe()
        assert (after.run_id, after.status) == (before.run_id, WorkflowExecutionStatus.RUNNING)


@pytest.mark.parametrize("step", ["promote", "mark_source"])
async def test_a_removal_that_is_interrupted_is_finished(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Its next attempt goes on where the first one died."""
    async with small_world(client, tmp_path, three_documents()) as world:
        await filled(world)
        whole, failures = getattr(world.catalog, step), [StoreUnavailable("the disk is full")]

        async def fails_once(*arguments: object, **options: object) -> object:
            if failures:
                raise failures.pop()
            return await whole(*arguments, **options)

        monkeypatch.setattr(world.catalog, step, fails_once)
        assert (await world.command("remove")).ok
        assert await world.catalog.sources() == []
        await world.coordinator().result()
        for store in world.stores:
            assert (await store.census(View(source_id=world.source_id, generation=1, seq=2))) == (
                Census(frozenset(), frozenset(), 0)
            )


async def test_a_refused_removal_leaves_the_source_as_it_was(
    client: Client, tmp_path: Path
) -> None:
    """What a rollback holds stays held."""
    async with small_world(client, tmp_path, three_documents(), grace=600.0) as world:
        await filled(world)
        world.documents["a.md"] = b"# Alpha\n\nThe alpha paragraph tells of awnings.\n"
        await world.changed("a.md")
        await world.ended(1, RunState.PROMOTED)
        assert (await world.command("rollback")).ok
        refused = await world.command("remove")
        assert (refused.ok, refused.error) == (False, "RunError")
        state = await world.catalog.source_state(world.source_id)
        assert (state.pinned, state.retry_at) == (True, None)


async def test_a_crawl_forgets_failures_of_what_is_gone(client: Client, tmp_path: Path) -> None:
    """A document that was never served and is deleted without an event is listed no more."""
    documents = three_documents() | {"torn.md": b"torn"}
    async with small_world(client, tmp_path, documents) as world:
        world.source.failures["torn.md"] = CorruptDocument("torn")
        await filled(world)
        statuses = await world.catalog.statuses(world.source_id)
        assert "torn.md" in {status.doc_key for status in statuses}
        del documents["torn.md"], world.source.failures["torn.md"]
        await world.crawl()
        await world.ended(1, RunState.NO_CHANGE)
        statuses = await world.catalog.statuses(world.source_id)
        assert "torn.md" not in {status.doc_key for status in statuses}


async def test_a_removed_source_is_unknown_and_leaves_nothing(
    client: Client, tmp_path: Path
) -> None:
    """After the removal and its grace the stores hold none of its chunks."""
    async with small_world(client, tmp_path, three_documents()) as world:
        await filled(world)
        assert (await world.command("remove")).ok
        await world.coordinator().result()
        for store in world.stores:
            for seq in (1, 2):
                nothing = Census(frozenset(), frozenset(), 0)
                assert await store.census(world.view(seq)) == nothing
        assert await world.orchestrator.collected(world.source_id) == 0


async def test_whoever_takes_a_removed_source_s_name_begins_anew(
    client: Client, tmp_path: Path
) -> None:
    """Neither runs nor failures of the earlier one are shown, nor can it be rolled back to."""
    async with small_world(client, tmp_path, three_documents()) as world:
        await filled(world)
        world.source.failures["b.md"] = CorruptDocument("torn")
        world.documents["b.md"] = b"torn"
        await world.changed("b.md")
        failed = await world.ended(1)
        config = (await world.catalog.source(world.source_id)).config
        assert (await world.command("remove")).ok
        world.source.failures.clear()
        await world.catalog.put_source(config, "test")
        assert await world.catalog.runs(world.source_id) == []
        assert await world.catalog.statuses(world.source_id) == []
        await world.crawl()
        run = await world.ended(failed.seq, RunState.PROMOTED)
        assert run.counts.changed == 3
        assert (await world.command("rollback")).error == "RollbackRefused"


async def test_a_large_run_goes_through_the_window(client: Client, tmp_path: Path) -> None:
    """Many batches, few in flight: every document arrives, each counted once."""
    documents = {f"{n:03}.txt": f"Document {n} tells of item{n}.\n".encode() for n in range(57)}
    limits = Limits(batch_documents=5)
    async with small_world(client, tmp_path, documents, limits=limits) as world:
        await world.crawl()
        run = await world.ended(0, RunState.PROMOTED)
        assert run.counts.changed == 57
        assert run.counts.chunks_opened == 57
        assert any("item41" in text for text in await world.texts("item41"))


async def test_a_signal_that_does_not_validate_becomes_a_crawl(
    client: Client, tmp_path: Path
) -> None:
    """Nothing that a producer sends is lost: what can't be read makes everything dirty."""
    async with small_world(client, tmp_path, three_documents()) as world:
        seq = await filled(world)
        world.documents["d.txt"] = b"The delta text tells of davits.\n"
        await world.coordinator().signal("changed", {"keys": "not a list"})
        await world.ended(seq, RunState.PROMOTED)
        assert any("davits" in text for text in await world.texts("davits"))


async def test_a_terminated_run_is_found_and_purged(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run whose workflow is gone never blocks its source."""
    monkeypatch.setattr(coordinator, "RECONCILE_EVERY", 1.0)
    async with small_world(client, tmp_path, three_documents()) as world:
        seq = await filled(world)
        world.source.delay = 30.0
        world.documents["b.md"] = b"# Beta\n\nThe beta paragraph tells of buoys.\n"
        await world.changed("b.md")
        run_id = f"source/{world.source_id}/run/{seq + 1}"
        async with asyncio.timeout(BOUND):
            while not await world.orchestrator.is_running(run_id):
                await asyncio.sleep(POLL)
        await client.get_workflow_handle(run_id).terminate("test")
        world.source.delay = 0.0
        failed = await world.ended(seq, RunState.FAILED)
        assert "gone" in (failed.reason or "")
        await world.ended(failed.seq, RunState.PROMOTED)


async def test_outcomes_are_kept_by_document_and_stage(client: Client, tmp_path: Path) -> None:
    """Each document of a run has an outcome for each stage that it reached."""
    async with small_world(client, tmp_path, three_documents()) as world:
        seq = await filled(world)
        outcomes = await world.catalog.outcomes(world.source_id, seq)
        assert len(outcomes) == 9
        assert all(outcome.status is OutcomeStatus.DONE for outcome in outcomes)


def texts_of(history: WorkflowHistory) -> str:
    """Everything that a history holds, base64 payloads decoded."""
    found = [history.to_json()]

    def walk(value: object) -> None:
        if isinstance(value, dict):
            for name, inner in value.items():
                if name == "data" and isinstance(inner, str):
                    found.append(base64.b64decode(inner).decode("utf-8", "replace"))
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    walk(json.loads(history.to_json()))
    return "\n".join(found)


@pytest.mark.parametrize("whole", [False, True], ids=["queues", "one process"])
async def test_histories_hold_no_content(client: Client, tmp_path: Path, whole: bool) -> None:
    """A canary in the documents is in no decoded payload of any workflow of the source."""
    documents = three_documents()
    documents["canary.md"] = f"# Canary\n\nThis says {CANARY}.\n".encode()
    limits = Limits(batch_documents=2)
    async with small_world(client, tmp_path, documents, limits=limits, whole=whole) as world:
        seq = await filled(world)
        documents["canary.md"] = f"# Canary\n\nIt still says {CANARY} today.\n".encode()
        await world.changed("canary.md")
        await world.ended(seq, RunState.PROMOTED)
        assert any(CANARY in text for text in await world.texts(CANARY))
        ids = [f"source/{world.source_id}"]
        ids += [f"source/{world.source_id}/run/{n}" for n in (seq, seq + 1)]
        ids += [f"source/{world.source_id}/run/{seq}/batch/{n}" for n in (0, 1)]
        seen = ""
        for workflow_id in ids:
            seen += texts_of(await client.get_workflow_handle(workflow_id).fetch_history())
        assert "canary.md" in seen
        assert CANARY not in seen
