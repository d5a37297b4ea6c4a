"""Who decides on a run: a person, a policy, or the clock."""

from pathlib import Path

import pytest
from temporalio.client import Client
from world import World, small_world

from console.local_desk import LocalDesk
from console.services import Services
from console.views import DocumentKeys, Judgement
from contracts.errors import ConfigurationError, CorruptDocument, RunError
from contracts.gate import Verdict
from contracts.runs import RunRecord, RunState

pytestmark = pytest.mark.asyncio(loop_scope="session")


def documents() -> dict[str, bytes]:
    return {
        "a.md": b"# Alpha\n\nThe alpha paragraph tells of anchors.\n",
        "b.md": b"# Beta\n\nThe beta paragraph tells of bollards.\n",
    }


def desk(world: World) -> LocalDesk:
    return LocalDesk(
        Services(
            catalog=world.catalog,
            search=world.search,
            kind=lambda _name: pytest.fail("no kind is asked for"),
            orchestrator=world.orchestrator,
        )
    )


async def waiting(world: World) -> RunRecord:
    """The run that waits, after a first crawl of a source whose gate is a person's."""
    await world.crawl()
    run = await world.waiting(0)
    assert run.state is RunState.WAITING
    return run


async def actions(world: World) -> list[tuple[str, str, str]]:
    entries = await world.catalog.entries(world.source_id)
    return [(entry.action, entry.actor, entry.reason) for entry in entries]


@pytest.mark.parametrize("whole", [False, True], ids=["queues", "one process"])
async def test_a_run_waits_until_a_person_approves(
    client: Client, tmp_path: Path, whole: bool
) -> None:
    """Nothing of it is live before, what it staged can be searched, and the flip answers."""
    async with small_world(client, tmp_path, documents(), whole=whole, gate="manual") as world:
        run = await waiting(world)
        assert "waits for a decision until" in (run.reason or "")
        assert await world.live() == 0
        assert (await world.ask("anchors")).hits == ()
        staged = await world.ask("anchors", at=run.seq)
        assert any("anchors" in hit.text for hit in staged.hits)
        said = await desk(world).decide(
            world.source_id, None, Judgement(approve=True, actor="ann", reason="looks right")
        )
        assert (said.message, said.seq) == (f"run {run.seq} is live", run.seq)
        assert await world.live() == run.seq
        assert ("promote", "ann", "looks right") in await actions(world)


async def test_a_rejected_run_leaves_the_live_version_and_its_keys(
    client: Client, tmp_path: Path
) -> None:
    """Its changes are pending, start no run, and join the next one."""
    async with small_world(client, tmp_path, documents(), gate="manual") as world:
        first = await waiting(world)
        await desk(world).decide(world.source_id, first.seq, Judgement(approve=True))
        world.documents["a.md"] = b"# Alpha\n\nThe alpha paragraph tells of awnings.\n"
        await world.changed("a.md")
        second = await world.waiting(first.seq)
        await desk(world).decide(
            world.source_id, None, Judgement(approve=False, actor="bob", reason="wrong text")
        )
        rejected = await world.ended(first.seq)
        assert (rejected.state, rejected.reason) == (
            RunState.REJECTED,
            "rejected by bob: wrong text",
        )
        assert ("reject", "bob", "rejected by bob: wrong text") in await actions(world)
        assert any("anchors" in text for text in await world.texts("anchors"))
        state = await world.catalog.source_state(world.source_id)
        assert (state.unresolved, state.retry_at) == (None, None)
        assert await world.catalog.pending_keys.pending(world.source_id) == 1
        world.documents["b.md"] = b"# Beta\n\nThe beta paragraph tells of buoys.\n"
        await world.changed("b.md")
        third = await world.waiting(second.seq)
        await desk(world).decide(world.source_id, None, Judgement(approve=True))
        assert await world.live() == third.seq
        assert any("awnings" in text for text in await world.texts("awnings"))
        assert any("buoys" in text for text in await world.texts("buoys"))


async def test_a_verdict_on_something_else_is_refused(client: Client, tmp_path: Path) -> None:
    """It names the digest that was looked at; a run that doesn't wait has nothing to decide."""
    async with small_world(client, tmp_path, documents(), gate="manual") as world:
        with pytest.raises(RunError, match=r"no run of .* waits"):
            await desk(world).decide(world.source_id, None, Judgement(approve=True))
        run = await waiting(world)
        with pytest.raises(ConfigurationError, match="was looked at: look at it again"):
            await desk(world).decide(
                world.source_id, run.seq, Judgement(approve=True, manifest_digest="other")
            )
        assert await world.live() == 0
        await desk(world).decide(world.source_id, run.seq, Judgement(approve=True))
        with pytest.raises(RunError, match="doesn't wait: it is promoted"):
            await desk(world).decide(world.source_id, run.seq, Judgement(approve=False))
        assert await world.live() == run.seq


async def test_a_signal_decides_too(client: Client, tmp_path: Path) -> None:
    """One that names another digest is left out, as is one that isn't a verdict."""
    async with small_world(client, tmp_path, documents(), gate="manual") as world:
        run = await waiting(world)
        handle = client.get_workflow_handle(f"source/{world.source_id}/run/{run.seq}")
        await handle.signal("decided", {"approve": "perhaps"})
        await handle.signal("decided", Verdict(approve=False, manifest_digest="other", actor="eve"))
        await handle.signal(
            "decided", Verdict(approve=True, manifest_digest=run.manifest_digest or "", actor="ci")
        )
        await world.ended(0, RunState.PROMOTED)


async def test_nobody_deciding_rejects(client: Client, tmp_path: Path) -> None:
    """After the source's time the run ends, and says why."""
    async with small_world(
        client, tmp_path, documents(), gate="manual", approval_timeout=0.5
    ) as world:
        await world.crawl()
        run = await world.ended(0)
        assert run.state is RunState.REJECTED
        assert "nobody decided" in (run.reason or "")


async def test_what_changed_after_it_was_looked_at_is_not_promoted(
    client: Client, tmp_path: Path
) -> None:
    """The stores are compared again before the flip: what a store lost meanwhile is restaged."""
    async with small_world(client, tmp_path, documents(), gate="manual") as world:
        run = await waiting(world)
        view = world.view(run.seq)
        await world.stores[1].purge(view)
        await desk(world).decide(world.source_id, None, Judgement(approve=True))
        assert await world.live() == run.seq
        expected = await world.catalog.census(view)
        assert [await store.census(view) for store in world.stores] == [expected, expected]


async def test_changes_queue_while_a_run_waits(client: Client, tmp_path: Path) -> None:
    """They come after it, in a run of their own."""
    async with small_world(client, tmp_path, documents(), gate="manual") as world:
        first = await waiting(world)
        world.documents["a.md"] = b"# Alpha\n\nThe alpha paragraph tells of awnings.\n"
        await world.changed("a.md")
        assert await world.newest() == first.seq
        await desk(world).decide(world.source_id, None, Judgement(approve=True))
        second = await world.waiting(first.seq)
        assert any("anchors" in text for text in await world.texts("anchors"))
        await desk(world).decide(world.source_id, second.seq, Judgement(approve=True))
        assert any("awnings" in text for text in await world.texts("awnings"))


async def test_a_rollback_ends_a_run_that_waits(client: Client, tmp_path: Path) -> None:
    """What it staged is purged; its keys wait with those of the withdrawn run."""
    async with small_world(client, tmp_path, documents()) as world:
        await world.crawl()
        await world.ended(0, RunState.PROMOTED)
        world.documents["a.md"] = b"# Alpha\n\nThe alpha paragraph tells of awnings.\n"
        await world.changed("a.md")
        second = await world.ended(1, RunState.PROMOTED)
        await world.configure(gate="manual")
        world.documents["b.md"] = b"# Beta\n\nThe beta paragraph tells of buoys.\n"
        await world.changed("b.md")
        third = await world.waiting(second.seq)
        assert (await world.command("rollback")).ok
        assert (await world.ended(second.seq)).state is RunState.CANCELLED
        for store in world.stores:
            assert not (await store.census(world.view(third.seq))).opened
        with pytest.raises(RunError, match=r"no run of .* waits"):
            await desk(world).decide(world.source_id, None, Judgement(approve=True))


async def test_a_strict_gate_accepts_only_acknowledged_failures(
    client: Client, tmp_path: Path
) -> None:
    """A run with a failure is rejected by name; once a person accepts it, the rest is live."""
    async with small_world(client, tmp_path, documents(), gate="strict") as world:
        world.source.failures["b.md"] = CorruptDocument("torn")
        await world.crawl()
        rejected = await world.ended(0)
        assert rejected.state is RunState.REJECTED
        assert "1 documents fail and nobody has accepted that (b.md" in (rejected.reason or "")
        accepted = DocumentKeys(keys=("b.md",), actor="ann", reason="known to be torn")
        assert await desk(world).acknowledge(world.source_id, accepted) == 1
        run = await world.ended(rejected.seq, RunState.PROMOTED)
        assert run.counts.changed == 1
        assert ("acknowledge", "ann", "known to be torn") in await actions(world)
        [failed] = [s for s in await world.catalog.statuses(world.source_id) if s.error]
        assert (failed.doc_key, failed.acknowledged_by) == ("b.md", "ann")


async def test_an_acknowledgement_holds_for_one_version(client: Client, tmp_path: Path) -> None:
    """A new version that fails too is a new failure."""
    async with small_world(client, tmp_path, documents(), gate="strict") as world:
        world.source.failures["b.md"] = CorruptDocument("torn")
        await world.crawl()
        rejected = await world.ended(0)
        await desk(world).acknowledge(world.source_id, DocumentKeys(keys=("b.md",)))
        run = await world.ended(rejected.seq, RunState.PROMOTED)
        world.documents["b.md"] = b"torn again"
        world.documents["a.md"] = b"# Alpha\n\nThe alpha paragraph tells of awnings.\n"
        await world.changed("a.md", "b.md")
        assert (await world.ended(run.seq)).state is RunState.REJECTED


async def test_a_document_is_tried_again_when_a_person_asks(client: Client, tmp_path: Path) -> None:
    """Though neither it nor what works on it has changed."""
    async with small_world(client, tmp_path, documents()) as world:
        world.source.failures["b.md"] = CorruptDocument("torn")
        await world.crawl()
        first = await world.ended(0, RunState.PROMOTED)
        del world.source.failures["b.md"]
        await world.crawl()
        unchanged = await world.ended(first.seq)
        assert unchanged.state is RunState.NO_CHANGE
        assert await desk(world).retry(world.source_id, DocumentKeys(keys=("b.md",))) == 1
        await world.ended(unchanged.seq, RunState.PROMOTED)
        assert any("bollards" in text for text in await world.texts("bollards"))


async def test_a_source_is_emptied_on_purpose(client: Client, tmp_path: Path) -> None:
    """The gate refuses to empty it by itself; the command does it, and a rollback undoes it."""
    async with small_world(client, tmp_path, documents()) as world:
        await world.crawl()
        first = await world.ended(0, RunState.PROMOTED)
        world.documents.clear()
        await world.crawl()
        rejected = await world.ended(first.seq)
        assert rejected.state is RunState.REJECTED
        assert (await world.command("empty")).ok
        assert (await world.ask("anchors")).hits == ()
        assert (await world.command("empty")).message == "nothing of it is served"
        assert (await world.command("rollback")).ok
        assert any("anchors" in text for text in await world.texts("anchors"))
