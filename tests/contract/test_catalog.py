"""The catalog: sequences, pointer, intervals, pending keys; in a file and in memory."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import select

from contracts.documents import EmbeddingSpace, PackAddress, PreparedChunk, PreparedDocument
from contracts.errors import (
    Fenced,
    PromotionRefused,
    RollbackRefused,
    StageMismatch,
    UnknownSource,
)
from contracts.events import DirtyKey
from contracts.runs import (
    REMOVAL,
    AuditEntry,
    DocumentOutcome,
    OutcomeStatus,
    RunCounts,
    RunState,
    RunTicket,
    Stage,
)
from contracts.sources import SourceConfig
from contracts.visibility import View
from storage.catalog import schema
from storage.catalog.repository import SqlCatalog, open_catalog, sqlite_url

NOW = datetime(2026, 3, 4, tzinfo=UTC)
LATER = NOW + timedelta(seconds=11)
MUCH_LATER = NOW + timedelta(minutes=11)
HOUR = timedelta(hours=1)
SOURCE = "s"


@pytest.fixture(params=["file", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return (
        sqlite_url(tmp_path / "catalog.sqlite")
        if request.param == "file"
        else ("sqlite+aiosqlite://")
    )


@asynccontextmanager
async def opened(url: str, **config: int) -> AsyncIterator[SqlCatalog]:
    catalog = await open_catalog(url)
    try:
        settings = {"source_id": SOURCE, "kind": "folder", "container": "/x", **config}
        await catalog.put_source(SourceConfig.model_validate(settings), "test")
        yield catalog
    finally:
        await catalog.close()


def document(key: str, *chunks: str, version: str = "v") -> PreparedDocument:
    return PreparedDocument(
        doc_key=key,
        source_version=version,
        content_hash=f"hash of {chunks}",
        fingerprint="f",
        chunks=tuple(
            PreparedChunk(
                chunk_key=chunk,
                text_hash=f"text of {chunk}",
                prefix_length=0,
                tokens=1,
                char_start=10 * n,
                char_end=10 * n + 5,
                address=PackAddress(pack=f"pack of {chunk}", offset=0, length=1),
            )
            for n, chunk in enumerate(chunks)
        ),
    )


def deleted(key: str) -> PreparedDocument:
    return PreparedDocument(doc_key=key, deleted=True)


async def ticket_of(catalog: SqlCatalog, request: str) -> RunTicket:
    answer = await catalog.open_run(SOURCE, request, "change", NOW)
    assert answer.ticket is not None, answer.refused
    return answer.ticket


async def stage(catalog: SqlCatalog, ticket: RunTicket, *documents: PreparedDocument) -> None:
    await catalog.settle(ticket, await catalog.stage(ticket, documents))


async def promote(catalog: SqlCatalog, ticket: RunTicket, now: datetime = NOW) -> None:
    await catalog.promote(ticket, RunCounts(), "digest", now)


async def ran(catalog: SqlCatalog, request: str, *documents: PreparedDocument) -> RunTicket:
    ticket = await ticket_of(catalog, request)
    await stage(catalog, ticket, *documents)
    await promote(catalog, ticket)
    return ticket


def view(seq: int) -> View:
    return View(source_id=SOURCE, generation=1, seq=seq)


async def visible(catalog: SqlCatalog, seq: int) -> set[str]:
    """Chunk keys that are visible at a sequence, found by judging everything ever staged."""
    names = {}
    for n in range(1, 12):
        census = await catalog.census(view(n))
        for chunk_id in census.opened:
            names[chunk_id] = chunk_id
    located = await catalog.locate(list(names), [view(seq)])
    return {place.text_hash.removeprefix("text of ") for place in located.values()}


async def test_a_sequence_is_never_used_again(url: str) -> None:
    """Also not after its run failed, nor after the source was removed and came back."""
    async with opened(url) as catalog:
        first = await ticket_of(catalog, "1")
        await catalog.fence(SOURCE, first.seq)
        await catalog.forget(view(first.seq), NOW)
        await catalog.mark_source(SOURCE, removed=True)
        with pytest.raises(UnknownSource):
            await catalog.source(SOURCE)
        await catalog.put_source(
            SourceConfig(source_id=SOURCE, kind="folder", container="/x"), "test"
        )
        assert (await ticket_of(catalog, "2")).seq == first.seq + 1


async def test_the_same_request_gets_the_same_ticket(url: str) -> None:
    """A repeated request is answered alike; another one is refused while the run is open."""
    async with opened(url) as catalog:
        ticket = await ticket_of(catalog, "1")
        assert await ticket_of(catalog, "1") == ticket
        assert (await catalog.open_run(SOURCE, "2", "change", NOW)).ticket is None


async def test_two_requests_at_once_open_one_run(url: str) -> None:
    """Whoever comes second is refused."""
    async with opened(url) as catalog:
        answers = await asyncio.gather(
            *(catalog.open_run(SOURCE, str(n), "change", NOW) for n in range(5))
        )
        assert sum(answer.ticket is not None for answer in answers) == 1


async def test_readers_see_a_run_at_its_promotion(url: str) -> None:
    """Staging changes nothing at the live sequence; the flip shows the staged state."""
    async with opened(url) as catalog:
        await ran(catalog, "1", document("a", "a1", "a2"), document("b", "b1"))
        ticket = await ticket_of(catalog, "2")
        await stage(catalog, ticket, document("a", "a1", "a3"), deleted("b"))
        assert await visible(catalog, 1) == {"a1", "a2", "b1"}
        assert await visible(catalog, 2) == {"a1", "a3"}
        await promote(catalog, ticket)
        pointer = (await catalog.pointers([SOURCE]))[SOURCE]
        assert (pointer.seq, pointer.run_id, pointer.open_seq) == (2, "s.2", None)


async def test_promotion_is_refused_to_whoever_was_fenced(url: str) -> None:
    """After a fence neither promotion nor any other write of the run is taken."""
    async with opened(url) as catalog:
        ticket = await ticket_of(catalog, "1")
        await stage(catalog, ticket, document("a", "a1"))
        await catalog.fence(SOURCE, ticket.seq)
        with pytest.raises(PromotionRefused):
            await promote(catalog, ticket)
        with pytest.raises(Fenced):
            await catalog.stage(ticket, [document("a", "a1")])
        with pytest.raises(Fenced):
            await catalog.update_run(ticket, RunState.WORKING)
        with pytest.raises(Fenced):
            await catalog.pin(ticket, {"a": "v"})


async def test_promoting_twice_is_promoting_once(url: str) -> None:
    """A repeated promotion of the same ticket answers the same pointer."""
    async with opened(url) as catalog:
        ticket = await ran(catalog, "1", document("a", "a1"))
        again = await catalog.promote(ticket, RunCounts(), "digest", NOW)
        assert again.seq == 1


async def test_a_retry_that_saw_another_version_leaves_nothing_behind(url: str) -> None:
    """Reconciling closes, reopens and removes so that the last version stands alone."""
    async with opened(url) as catalog:
        await ran(catalog, "1", document("a", "a1", "a2"))
        ticket = await ticket_of(catalog, "2")
        await stage(catalog, ticket, document("a", "a3", "a4"))
        delta = await catalog.stage(ticket, [document("a", "a1", "a4")])
        assert len(delta.reopens) == 1
        assert len(delta.removes) == 1
        assert await catalog.stage(ticket, [document("a", "a1", "a4")]) == delta
        await catalog.settle(ticket, delta)
        assert await visible(catalog, 2) == {"a1", "a4"}
        census = await catalog.census(view(2))
        assert (len(census.opened), len(census.closed), census.visible) == (1, 1, 2)


async def test_forgetting_a_sequence_restores_what_was(url: str) -> None:
    """After the purge the catalog is as before the run, and one more purge is owed."""
    async with opened(url) as catalog:
        await ran(catalog, "1", document("a", "a1"), document("b", "b1"))
        ticket = await ticket_of(catalog, "2")
        await stage(catalog, ticket, document("a", "a2"), deleted("b"), document("c", "c1"))
        await catalog.fence(SOURCE, ticket.seq)
        assert (await catalog.source_state(SOURCE)).unswept
        await catalog.forget(view(2), NOW)
        assert not (await catalog.source_state(SOURCE)).unswept
        assert await visible(catalog, 1) == {"a1", "b1"}
        assert set(await catalog.versions(view(9), ["a", "b", "c"])) == {"a", "b"}
        assert not (await catalog.due_sweep(SOURCE, LATER)).purge
        await catalog.forget(view(2), LATER)  # as a repeated end of the run does
        assert [v.seq for v in (await catalog.due_sweep(SOURCE, MUCH_LATER)).purge] == [2]
        await catalog.forget(view(2), MUCH_LATER)
        assert not (await catalog.due_sweep(SOURCE, MUCH_LATER)).purge


async def test_rollback_shows_what_was_and_resume_gives_the_keys_back(url: str) -> None:
    """The withdrawn run's keys come back at the resume, after its purge."""
    async with opened(url) as catalog:
        await ran(catalog, "1", document("a", "a1"))
        await ran(catalog, "2", document("a", "a2"), document("b", "b1"))
        pointer = await catalog.roll_back(SOURCE, None, "me", "bad", NOW)
        assert pointer.seq == 1
        assert await visible(catalog, 1) == {"a1"}
        state = await catalog.source_state(SOURCE)
        assert state.pinned
        assert state.unswept
        assert (await catalog.open_run(SOURCE, "3", "change", NOW)).ticket is None
        [due] = (await catalog.due_sweep(SOURCE, LATER)).purge
        await catalog.forget(due, LATER)
        await catalog.unpin(SOURCE)
        ticket = await ticket_of(catalog, "4")
        keys, _ = await catalog.pending_keys.take(ticket, [], NOW, crawl=False)
        assert {key.key for key in keys} == {"a", "b"}
        assert ticket.base_seq == 1


async def test_rollback_below_what_is_retained_is_refused(url: str) -> None:
    """One earlier sequence is kept by default."""
    async with opened(url) as catalog:
        for n in range(1, 4):
            await ran(catalog, str(n), document("a", f"a{n}"))
        with pytest.raises(RollbackRefused):
            await catalog.roll_back(SOURCE, 1, "me", "", NOW)
        assert (await catalog.roll_back(SOURCE, 2, "me", "", NOW)).seq == 2


async def retired(catalog: SqlCatalog, seq: int, packs: list[str]) -> None:
    """Retire whatever comes due until the sequence, and see that just these packs go."""
    now, found = NOW, []
    while (await catalog.pointers([SOURCE]))[SOURCE].oldest_retained <= seq:
        now += timedelta(seconds=11)
        due = (await catalog.due_sweep(SOURCE, now)).retire
        assert due is not None
        found += await catalog.unreachable_packs(due)
        await catalog.retire(due, now)
        if due.seq == seq:
            break
    assert found == packs


async def test_retirement_deletes_what_nobody_can_reach(url: str) -> None:
    """After the grace, chunks closed at or before the oldest retained sequence go, and so do the
    packs that only they were in."""
    async with opened(url) as catalog:
        for n in range(1, 4):
            await ran(catalog, str(n), document("a", f"a{n}"), document("b", "b1"))
        assert (await catalog.due_sweep(SOURCE, NOW)).retire is None
        await retired(catalog, 2, ["pack of a1"])
        assert await visible(catalog, 3) == {"a3", "b1"}
        assert await visible(catalog, 2) == {"a2", "b1"}
        assert (await catalog.due_sweep(SOURCE, MUCH_LATER)).retire is None


async def test_pending_keys_go_round_until_they_are_promoted(url: str) -> None:
    """Keys of a failed run start one again with backoff; those of a rejected one wait."""
    async with opened(url) as catalog:
        pending = catalog.pending_keys
        ticket = await ticket_of(catalog, "1")
        await pending.take(ticket, [DirtyKey(key="a")], NOW, crawl=True)
        await catalog.fence(SOURCE, ticket.seq)
        await catalog.forget(view(1), NOW)
        await pending.release(SOURCE, 1, starts_run=True, now=NOW)
        state = await catalog.source_state(SOURCE)
        assert state.retry_at == NOW.timestamp() + 30
        again = await ticket_of(catalog, "2")
        assert await pending.take(again, [], NOW, crawl=False) == ([], False)
        keys, crawl = await pending.take(again, [], NOW + timedelta(seconds=30), crawl=False)
        assert ([key.key for key in keys], crawl) == (["a"], True)
        await pending.release(SOURCE, 2, starts_run=False, now=NOW)
        assert (await catalog.source_state(SOURCE)).retry_at is None
        assert await pending.pending(SOURCE) == 2


async def test_a_promoted_run_keeps_the_keys_that_may_still_succeed(url: str) -> None:
    """Retryable failures stay pending, others are settled."""
    async with opened(url) as catalog:
        ticket = await ticket_of(catalog, "1")
        keys = [DirtyKey(key=key) for key in ("good", "later", "never")]
        await catalog.pending_keys.take(ticket, keys, NOW, crawl=False)
        outcomes = [
            DocumentOutcome(doc_key="good", stage=Stage.INDEX, status=OutcomeStatus.DONE),
            failure("later", retryable=True),
            failure("never", retryable=False),
        ]
        await catalog.record(ticket, outcomes, NOW)
        await promote(catalog, ticket)
        assert await catalog.pending_keys.settle(ticket, NOW) == 1
        assert await catalog.pending_keys.pending(SOURCE) == 1
        assert set(await catalog.known_failures(SOURCE, ["good", "later", "never"])) == {"never"}
        statuses = {status.doc_key: status for status in await catalog.statuses(SOURCE)}
        assert statuses["later"].pending
        assert statuses["never"].error == "CorruptDocument"


def failure(key: str, *, retryable: bool) -> DocumentOutcome:
    return DocumentOutcome(
        doc_key=key,
        stage=Stage.PARSE,
        status=OutcomeStatus.FAILED,
        error="CorruptDocument",
        message="broken",
        retryable=retryable,
        source_version="v",
        fingerprint="f",
    )


async def test_the_first_version_of_a_document_in_a_run_is_pinned(url: str) -> None:
    """A later attempt is told the version of the first."""
    async with opened(url) as catalog:
        ticket = await ticket_of(catalog, "1")
        assert await catalog.pin(ticket, {"a": "v1", "b": "v1"}) == {"a": "v1", "b": "v1"}
        assert await catalog.pin(ticket, {"c": "v2", "a": "v2"}) == {"a": "v1", "c": "v2"}


async def test_vectors_are_kept_by_space(url: str) -> None:
    """The first vector of a hash stays; another space knows nothing of it."""
    async with opened(url) as catalog:
        space = EmbeddingSpace(name="one", dimension=2)
        first, second = np.array([1, 0], np.float32), np.array([0, 1], np.float32)
        await catalog.keep(space, {"h": first})
        await catalog.keep(space, {"h": second})
        found = await catalog.vectors(space, ["h", "unknown"])
        assert list(found) == ["h"]
        assert np.array_equal(found["h"], first)
        assert not await catalog.vectors(EmbeddingSpace(name="two", dimension=2), ["h"])


async def test_what_is_kept_is_there_after_a_new_start(tmp_path: Path) -> None:
    """A catalog in a file is opened again at the same schema with everything in it."""
    url = sqlite_url(tmp_path / "catalog.sqlite")
    async with opened(url) as catalog:
        await ran(catalog, "1", document("a", "a1"))
    async with opened(url) as catalog:
        assert (await catalog.pointers([SOURCE]))[SOURCE].seq == 1
        assert await visible(catalog, 1) == {"a1"}


def bare(key: str, *chunks: str) -> PreparedDocument:
    """The document without addresses: its chunks are already open."""
    whole = document(key, *chunks)
    there = tuple(chunk.model_copy(update={"address": None}) for chunk in whole.chunks)
    return whole.model_copy(update={"chunks": there})


async def everything(catalog: SqlCatalog) -> dict[str, list[tuple[object, ...]]]:
    """All rows of all tables but the audit trail's, which says how often something was said."""
    found = {}
    async with catalog._database.read() as connection:
        for table in schema.metadata.sorted_tables:
            if table is not schema.audit:
                columns = [column for column in table.c if column.name not in HIDDEN]
                rows = await connection.execute(select(*columns))
                found[table.name] = sorted((tuple(row) for row in rows), key=repr)
    return found


# Numbers of rows, which a repetition may count on.
HIDDEN = {"id", "document_version_id"}


async def test_every_write_of_an_old_ticket_is_fenced(url: str) -> None:
    """Whatever carries it changes nothing."""
    async with opened(url) as catalog:
        await ran(catalog, "1", document("a", "a1"))
        ticket = await ticket_of(catalog, "2")
        delta = await catalog.stage(ticket, [document("a", "a2")])
        reopening = delta.model_copy(update={"reopens": delta.closes})
        await catalog.fence(SOURCE, ticket.seq)
        before = await everything(catalog)
        done = DocumentOutcome(doc_key="a", stage=Stage.PARSE, status=OutcomeStatus.DONE)
        for write in (
            catalog.stage(ticket, [document("a", "a3")]),
            catalog.settle(ticket, reopening),
            catalog.record(ticket, [done], NOW),
            catalog.pin(ticket, {"a": "v"}),
            catalog.update_run(ticket, RunState.WORKING),
            catalog.pending_keys.take(ticket, [DirtyKey(key="a")], NOW, crawl=True),
        ):
            with pytest.raises(Fenced, match="no longer the open one"):
                await write
        assert await everything(catalog) == before


async def test_every_step_twice_is_every_step_once(url: str) -> None:
    """A repeated activity finds its work done, and leaves the tables as they are."""
    async with opened(url) as catalog:
        await ran(catalog, "1", document("a", "a1", "a2"), document("b", "b1"))
        ticket = await ticket_of(catalog, "2")
        staged = [document("a", "a2", "a3"), deleted("b"), document("c", "c1")]
        delta = await catalog.stage(ticket, staged)
        steps: tuple[Callable[[], Awaitable[object]], ...] = (
            lambda: catalog.pending_keys.take(ticket, [DirtyKey(key="a")], NOW, crawl=True),
            lambda: catalog.pin(ticket, {"a": "v"}),
            lambda: catalog.stage(ticket, staged),
            lambda: catalog.settle(ticket, delta),
            lambda: catalog.record(ticket, [failure("c", retryable=False)], NOW),
            lambda: catalog.update_run(ticket, RunState.CHECKING, RunCounts(changed=2)),
            lambda: catalog.observe(view(2), {"a": "v2"}),
            lambda: catalog.promote(ticket, RunCounts(), "digest", NOW),
            lambda: catalog.pending_keys.settle(ticket, NOW),
            lambda: catalog.fence(SOURCE, ticket.seq),
            lambda: catalog.end_run(ticket, RunState.FAILED, "late", RunCounts(), NOW),
            lambda: catalog.retire(view(1), NOW),
            lambda: catalog.unpin(SOURCE),
        )
        for number, step in enumerate(steps):
            await step()
            once = await everything(catalog)
            await step()
            assert await everything(catalog) == once, number
        record = await catalog.run(SOURCE, 2)
        assert record is not None
        assert record.state is RunState.PROMOTED


async def test_a_chunk_that_is_kept_needs_no_pack_record(url: str) -> None:
    """It is neither opened nor closed, keeps its id, and shows its new place."""
    async with opened(url) as catalog:
        first = await ran(catalog, "1", document("a", "a1", "a2"))
        kept = {"a1": "text of a1", "a2": "text of a2"}
        ticket = await ticket_of(catalog, "2")
        assert await catalog.open_chunk_keys(ticket, ["a", "none"]) == {"a": kept}
        delta = await catalog.stage(ticket, [bare("a", "a2")])
        assert (len(delta.opens), len(delta.closes)) == (0, 1)
        await promote(catalog, ticket)
        [[chunk_id, place]] = (
            await catalog.locate([*(await catalog.census(view(1))).opened], [view(2)])
        ).items()
        assert (place.run_id, place.from_seq) == (first.run_id, 1)
        assert (place.ordinal, place.char_start) == (0, 0)
        before = (await catalog.locate([chunk_id], [view(1)]))[chunk_id]
        assert (before.ordinal, before.char_start) == (1, 10)


async def test_a_chunk_without_a_record_must_be_open(url: str) -> None:
    """A document that was prepared against another state is refused as a whole."""
    async with opened(url) as catalog:
        ticket = await ticket_of(catalog, "1")
        before = await everything(catalog)
        with pytest.raises(StageMismatch, match="prepared against another state"):
            await catalog.stage(ticket, [document("a", "a1"), bare("b", "b1")])
        assert await everything(catalog) == before


async def test_a_chunk_that_was_removed_before_comes_back_beside_its_old_self(url: str) -> None:
    """The same text has another id in another sequence: the retained one stays as it was."""
    async with opened(url, retain_versions=5) as catalog:
        await ran(catalog, "1", document("a", "a1"))
        await ran(catalog, "2", document("a", "a2"))
        await ran(catalog, "3", document("a", "a1"))
        one, three = (await catalog.census(view(1))).opened, (await catalog.census(view(3))).opened
        assert len(one | three) == 2
        assert [await visible(catalog, seq) for seq in (1, 2, 3)] == [{"a1"}, {"a2"}, {"a1"}]


async def test_a_chunk_that_is_wanted_unwanted_and_wanted_again_is_there(url: str) -> None:
    """Whatever the attempts before had in mind, before or after the stores took it."""
    async with opened(url) as catalog:
        ticket = await ticket_of(catalog, "1")
        await stage(catalog, ticket, document("a", "a1"))
        unwanted = await catalog.stage(ticket, [document("a", "a2")])
        assert (await catalog.census(view(1))).visible == 1
        again = await catalog.stage(ticket, [document("a", "a1")])
        # The delta of the attempt in the middle arrives late: its chunk is wanted now.
        await catalog.settle(ticket, unwanted)
        await catalog.settle(ticket, again)
        assert await visible(catalog, 1) == {"a1"}
        assert {chunk.text_hash for chunk in (await catalog.staged(view(1))).opens} == {
            "text of a1"
        }


async def test_an_empty_document_is_a_document_and_a_deleted_one_is_none(url: str) -> None:
    """Both have no chunks; only one has a version."""
    async with opened(url) as catalog:
        await ran(catalog, "1", document("a", "a1"), document("b", "b1"))
        await ran(catalog, "2", document("a"), deleted("b"), deleted("never"))
        assert await catalog.counts(view(1)) == (2, 2)
        assert await catalog.counts(view(2)) == (1, 0)
        assert await catalog.has_documents(view(2))
        assert not await catalog.has_documents(view(0))
        assert list(await catalog.versions(view(2), ["a", "b", "never"])) == ["a"]


async def test_keys_ascend_by_their_bytes_and_are_paged(url: str) -> None:
    """Between two keys of a listing nothing is left out (UTF-8 order, not UTF-16's)."""
    async with opened(url) as catalog:
        names = ["B", "a", "a/b", "é", "\uffee", "🙂"]
        await ran(catalog, "1", *(document(name, f"{name}1") for name in reversed(names)))
        assert list(await catalog.source_versions(view(1), "", None, 10)) == names
        assert list(await catalog.source_versions(view(1), "a", "é", 10)) == ["a/b", "é"]
        assert list(await catalog.source_versions(view(1), "a", None, 2)) == ["a/b", "é"]
        assert await catalog.source_versions(view(0), "", None, 10) == {}


async def test_statuses_are_paged_by_key(url: str) -> None:
    """What is served and what failed, each once, in one order."""
    async with opened(url) as catalog:
        ticket = await ticket_of(catalog, "1")
        await stage(catalog, ticket, *(document(f"d{n}", f"c{n}") for n in (0, 2, 4)))
        await catalog.record(ticket, [failure(f"d{n}", retryable=False) for n in (1, 2, 3)], NOW)
        await promote(catalog, ticket)
        pages, after = [], ""
        while page := await catalog.statuses(SOURCE, after, 2):
            assert len(page) <= 2
            pages.extend(page)
            after = page[-1].doc_key
        assert [status.doc_key for status in pages] == ["d0", "d1", "d2", "d3", "d4"]
        served = [status.doc_key for status in pages if status.live_version]
        failed = [status.doc_key for status in pages if status.status is OutcomeStatus.FAILED]
        assert (served, failed) == (["d0", "d2", "d4"], ["d1", "d2", "d3"])


async def test_unchanged_content_takes_its_new_source_version(url: str) -> None:
    """Only the version that is seen is noted; neither interval nor chunks move."""
    async with opened(url) as catalog:
        await ran(catalog, "1", document("a", "a1"), document("b", "b1"))
        before = (await catalog.versions(view(1), ["a"]))["a"]
        await catalog.observe(view(1), {"a": "v2", "none": "v"})
        found = await catalog.versions(view(1), ["a", "b"])
        assert found["a"] == before.model_copy(update={"source_version": "v2"})
        assert found["b"].source_version == "v"


async def test_hits_are_judged_by_source_and_interval(url: str) -> None:
    """An id that is not visible in the view of its own source is left out, as is an unknown one."""
    async with opened(url) as catalog:
        await ran(catalog, "1", document("a", "a1"))
        await ran(catalog, "2", document("a", "a2"))
        ids = [*(await catalog.census(view(1))).opened, *(await catalog.census(view(2))).opened]
        other = View(source_id="other", generation=1, seq=1)
        rebuilt = View(source_id=SOURCE, generation=2, seq=1)
        assert set(await catalog.locate([*ids, "none"], [view(1), other])) == {ids[0]}
        assert set(await catalog.locate(ids, [view(2)])) == {ids[1]}
        assert await catalog.locate(ids, [other, rebuilt, view(0)]) == {}
        assert await catalog.locate(ids, []) == {}
        assert await catalog.visible([view(2), other], 10) == 1
        assert await catalog.visible([view(2), other], 1) == 1


async def test_a_flip_between_two_runs_is_all_or_nothing_under_load(url: str) -> None:
    """Readers that come at any moment see the one state or the other."""
    async with opened(url) as catalog:
        await ran(catalog, "1", *(document(f"d{n}", f"old{n}") for n in range(20)))
        ticket = await ticket_of(catalog, "2")
        await stage(catalog, ticket, *(document(f"d{n}", f"new{n}") for n in range(20)))
        ids = [*(await catalog.census(view(1))).opened, *(await catalog.census(view(2))).opened]

        async def seen() -> frozenset[str]:
            pointer = (await catalog.pointers([SOURCE]))[SOURCE]
            located = await catalog.locate(ids, [view(pointer.seq)])
            return frozenset(place.text_hash[8:11] for place in located.values())

        *states, _ = await asyncio.gather(*(seen() for _ in range(10)), promote(catalog, ticket))
        assert set(states) <= {frozenset({"old"}), frozenset({"new"})}
        assert await seen() == {"new"}


async def test_of_two_holders_of_a_ticket_none_undoes_the_other(url: str) -> None:
    """A promotion and a fence at once: the run is live, or it is fenced and owes a purge."""
    async with opened(url) as catalog:
        ticket = await ticket_of(catalog, "1")
        await stage(catalog, ticket, document("a", "a1"))
        answers = await asyncio.gather(
            promote(catalog, ticket), catalog.fence(SOURCE, ticket.seq), return_exceptions=True
        )
        live = (await catalog.pointers([SOURCE]))[SOURCE].seq
        refused = isinstance(answers[0], PromotionRefused)
        assert live == (0 if refused else 1)
        assert (await catalog.source_state(SOURCE)).unswept is refused


@pytest.mark.parametrize("flag", ["paused", "removed"])
async def test_a_source_that_is_held_runs_nothing(url: str, flag: str) -> None:
    """The refusal says why."""
    async with opened(url) as catalog:
        await catalog.mark_source(SOURCE, **{flag: True})
        answer = await catalog.open_run(SOURCE, "1", "change", NOW)
        assert answer.ticket is None
        assert flag in (answer.refused or "")


async def test_a_source_that_never_was_is_unknown(url: str) -> None:
    """Everywhere that needs one."""
    async with opened(url) as catalog:
        for asked in (
            catalog.source("none"),
            catalog.pointers([SOURCE, "none"]),
            catalog.open_run("none", "1", "change", NOW),
            catalog.fence("none", 1),
        ):
            with pytest.raises(UnknownSource):
                await asked
        assert not (await catalog.source_state("none")).exists
        assert await catalog.statuses("none") == []


async def test_a_configuration_is_replaced_and_its_revision_rises(url: str) -> None:
    """Pointer and sequence stay."""
    async with opened(url) as catalog:
        await ran(catalog, "1", document("a", "a1"))
        before = await catalog.source(SOURCE)
        config = before.config.model_copy(update={"prefix": "p/", "retain_versions": 3})
        after = await catalog.put_source(config, "me")
        assert (after.config, after.revision) == (config, before.revision + 1)
        assert after.created_at == before.created_at
        assert (await catalog.pointers([SOURCE]))[SOURCE].seq == 1
        assert [record.config.source_id for record in await catalog.sources()] == [SOURCE]


async def test_the_first_end_of_a_run_stays(url: str) -> None:
    """A later one says nothing new; the run is found with what it was."""
    async with opened(url) as catalog:
        ticket = await ticket_of(catalog, "1")
        counts = RunCounts(planned=3)
        await catalog.update_run(ticket, RunState.WORKING, counts)
        await catalog.fence(SOURCE, ticket.seq)
        await catalog.end_run(ticket, RunState.CANCELLED, "asked for", counts, NOW)
        await catalog.end_run(ticket, RunState.FAILED, "late", RunCounts(), LATER)
        record = await catalog.run(SOURCE, 1)
        assert record is not None
        assert (record.state, record.reason, record.counts, record.ended_at) == (
            RunState.CANCELLED,
            "asked for",
            counts,
            NOW,
        )
        assert await catalog.runs(SOURCE) == [record]
        assert await catalog.run(SOURCE, 2) is None


async def test_backoff_doubles_to_its_bound(url: str) -> None:
    """Thirty seconds, a minute, … an hour; and a new change doesn't wait for it."""
    waits = []
    async with opened(url) as catalog:
        for n in range(1, 11):
            ticket = await ticket_of(catalog, str(n))
            await catalog.pending_keys.take(
                ticket, [DirtyKey(key="a")] if n == 1 else [], NOW + n * HOUR, crawl=False
            )
            await catalog.fence(SOURCE, n)
            await catalog.forget(view(n), NOW)
            await catalog.pending_keys.release(SOURCE, n, starts_run=True, now=NOW)
            retry_at = (await catalog.source_state(SOURCE)).retry_at
            assert retry_at is not None
            waits.append(retry_at - NOW.timestamp())
    assert waits == [30, 60, 120, 240, 480, 960, 1_920, 3_600, 3_600, 3_600]


async def test_a_paused_source_retries_nothing(url: str) -> None:
    """Keys that wait start a run when it goes on."""
    async with opened(url) as catalog:
        ticket = await ticket_of(catalog, "1")
        await catalog.pending_keys.take(ticket, [DirtyKey(key="a")], NOW, crawl=False)
        await catalog.fence(SOURCE, 1)
        await catalog.pending_keys.release(SOURCE, 1, starts_run=True, now=NOW)
        await catalog.mark_source(SOURCE, paused=True)
        assert (await catalog.source_state(SOURCE)).retry_at is None
        await catalog.mark_source(SOURCE, paused=False)
        assert (await catalog.source_state(SOURCE)).retry_at is not None


async def test_releasing_a_run_twice_counts_one_attempt(url: str) -> None:
    """A repeated activity doesn't double the wait."""
    async with opened(url) as catalog:
        ticket = await ticket_of(catalog, "1")
        await catalog.pending_keys.take(ticket, [DirtyKey(key="a")], NOW, crawl=False)
        await catalog.fence(SOURCE, 1)
        for _ in range(2):
            await catalog.pending_keys.release(SOURCE, 1, starts_run=True, now=NOW)
        assert (await catalog.source_state(SOURCE)).retry_at == NOW.timestamp() + 30


async def test_a_failure_is_known_until_the_document_succeeds(url: str) -> None:
    """With the version and the fingerprint that it failed at; a success clears it."""
    async with opened(url) as catalog:
        ticket = await ticket_of(catalog, "1")
        await catalog.record(ticket, [failure("a", retryable=False)], NOW)
        known = (await catalog.known_failures(SOURCE, ["a", "b"]))["a"]
        assert (known.source_version, known.fingerprint, known.seq) == ("v", "f", 1)
        done = DocumentOutcome(doc_key="a", stage=Stage.PARSE, status=OutcomeStatus.DONE)
        await catalog.record(ticket, [done], NOW)
        assert await catalog.known_failures(SOURCE, ["a"]) == {}
        [outcome] = await catalog.outcomes(SOURCE, 1, Stage.PARSE, ["a"])
        assert outcome == done.model_copy(update={"at": NOW})
        assert await catalog.outcomes(SOURCE, 1, Stage.EMBED) == []


async def test_runs_and_outcomes_are_read_in_pages(url: str) -> None:
    """Runs below a sequence, and outcomes of so many documents behind a key."""
    async with opened(url) as catalog:
        for n in range(1, 4):
            ticket = await ran(catalog, str(n))
        assert [run.seq for run in await catalog.runs(SOURCE, 1, before=3)] == [2]
        assert await catalog.runs(SOURCE, before=1) == []
        ticket = await ticket_of(catalog, "4")
        outcomes = [
            DocumentOutcome(doc_key=key, stage=stage, status=OutcomeStatus.DONE)
            for key in ("a", "b", "c")
            for stage in (Stage.PARSE, Stage.EMBED)
        ]
        await catalog.record(ticket, outcomes, NOW)
        page = await catalog.outcomes(SOURCE, ticket.seq, after="a", documents=1)
        assert [(each.doc_key, each.stage) for each in page] == [
            ("b", Stage.EMBED),
            ("b", Stage.PARSE),
        ]
        rest = await catalog.outcomes(SOURCE, ticket.seq, Stage.PARSE, after="b", documents=5)
        assert [each.doc_key for each in rest] == ["c"]


async def test_without_retained_versions_nothing_can_be_rolled_back_to(url: str) -> None:
    """What was before goes at the next retirement."""
    async with opened(url, retain_versions=0) as catalog:
        await ran(catalog, "1", document("a", "a1"))
        await ran(catalog, "2", document("a", "a2"))
        with pytest.raises(RollbackRefused, match="nothing to roll back to"):
            await catalog.roll_back(SOURCE, None, "me", "", NOW)
        await retired(catalog, 2, ["pack of a1"])
        assert await visible(catalog, 2) == {"a2"}


async def test_a_run_that_is_open_at_a_rollback_is_fenced_and_purged(url: str) -> None:
    """Its sequence is withdrawn with those above the target, the highest first."""
    async with opened(url) as catalog:
        await ran(catalog, "1", document("a", "a1"))
        await ran(catalog, "2", document("a", "a2"))
        ticket = await ticket_of(catalog, "3")
        await stage(catalog, ticket, document("a", "a3"))
        await catalog.roll_back(SOURCE, 1, "me", "bad", NOW)
        with pytest.raises(PromotionRefused):
            await promote(catalog, ticket)
        with pytest.raises(Fenced):
            await catalog.stage(ticket, [document("a", "a4")])
        due = (await catalog.due_sweep(SOURCE, LATER)).purge
        assert [purge.seq for purge in due] == [3, 2]
        for purge in due:
            await catalog.forget(purge, LATER)
        assert await visible(catalog, 1) == {"a1"}
        assert (await catalog.census(view(9))).visible == 1
        states = {record.seq: record.state for record in await catalog.runs(SOURCE)}
        assert (states[1], states[2]) == (RunState.PROMOTED, RunState.WITHDRAWN)


async def test_packs_that_other_documents_share_stay(url: str) -> None:
    """A pack is answered when the last chunk in it is gone, and not before."""
    shared = PackAddress(pack="shared", offset=0, length=1)

    def in_shared(key: str, chunk: str) -> PreparedDocument:
        whole = document(key, chunk)
        moved = tuple(each.model_copy(update={"address": shared}) for each in whole.chunks)
        return whole.model_copy(update={"chunks": moved})

    async with opened(url, retain_versions=0) as catalog:
        await ran(catalog, "1", in_shared("a", "a1"), in_shared("b", "b1"))
        await ran(catalog, "2", deleted("a"))
        assert await catalog.unreachable_packs(view(2)) == []
        await catalog.retire(view(2), LATER)
        await ran(catalog, "3", deleted("b"))
        assert await catalog.unreachable_packs(view(3)) == ["shared"]


async def test_who_did_what_is_told_newest_first(url: str) -> None:
    """By source, with reasons; commands leave their own lines."""
    async with opened(url) as catalog:
        await ran(catalog, "1", document("a", "a1"))
        await ran(catalog, "2", document("a", "a2"))
        await catalog.roll_back(SOURCE, None, "me", "bad chunks", NOW)
        entry = AuditEntry(
            source_id=SOURCE, seq=1, actor="you", action="approve", details={"k": "v"}, at=NOW
        )
        await catalog.append(entry)
        lines = await catalog.entries(SOURCE)
        assert lines[0] == entry
        assert [(line.actor, line.action) for line in lines] == [
            ("you", "approve"),
            ("me", "rollback"),
            ("test", "configure"),
        ]
        assert lines[1].reason == "bad chunks"
        assert await catalog.entries(SOURCE, 1) == [entry]
        assert await catalog.entries("other") == []


async def test_a_rollback_that_is_repeated_is_done_once(url: str) -> None:
    """A second attempt at the same request answers what the first did; another goes further."""
    async with opened(url, retain_versions=5) as catalog:
        for n in range(1, 4):
            await ran(catalog, str(n), document("a", f"a{n}"))
        for _ in range(2):
            pointer = await catalog.roll_back(SOURCE, None, "me", "bad", NOW, "one")
            assert pointer.seq == 2
        assert len([e for e in await catalog.entries(SOURCE) if e.action == "rollback"]) == 1
        assert (await catalog.roll_back(SOURCE, None, "me", "bad", NOW, "two")).seq == 1


async def test_a_run_that_a_rollback_overtakes_keeps_no_key_of_it(url: str) -> None:
    """What the withdrawn run had changed stays pending, though the open run held the key too."""
    async with opened(url) as catalog:
        await ran(catalog, "1", document("a", "a1"))
        await ran(catalog, "2", document("a", "a2"))
        ticket = await ticket_of(catalog, "3")
        await catalog.pending_keys.take(ticket, [DirtyKey(key="a")], NOW, crawl=False)
        await catalog.roll_back(SOURCE, 1, "me", "bad", NOW)
        with pytest.raises(Fenced):
            await catalog.pending_keys.settle(ticket, NOW)
        assert await catalog.pending_keys.pending(SOURCE) == 1
        await catalog.unpin(SOURCE)
        assert (await catalog.source_state(SOURCE)).retry_at == 0.0


async def test_steady_promotions_put_no_retirement_off(url: str) -> None:
    """A retirement comes a grace after it became due; what grew old meanwhile has its own."""
    async with opened(url) as catalog:
        times = [NOW + timedelta(seconds=5 * n) for n in range(6)]
        for n, time in enumerate(times, 1):
            ticket = await ticket_of(catalog, str(n))
            await stage(catalog, ticket, document("a", f"a{n}"))
            await promote(catalog, ticket, time)
        # Sequence 1 became the oldest at the second promotion.
        due = times[1] + timedelta(seconds=10)
        assert (await catalog.due_sweep(SOURCE, due - timedelta(seconds=1))).retire is None
        assert (await catalog.due_sweep(SOURCE, due)).retire == view(1)
        await catalog.retire(view(1), due)
        assert (await catalog.due_sweep(SOURCE, due + timedelta(seconds=9))).retire is None
        assert (await catalog.due_sweep(SOURCE, due + timedelta(seconds=10))).retire == view(5)


async def test_a_run_s_request_is_good_for_one_run(url: str) -> None:
    """A repetition after the run's end is refused with a sentence, not a second run."""
    async with opened(url) as catalog:
        await ran(catalog, "1", document("a", "a1"))
        answer = await catalog.open_run(SOURCE, "1", "change", NOW)
        assert (answer.ticket, answer.refused) == (None, "that run has ended")


async def test_only_a_removal_runs_on_a_held_source(url: str) -> None:
    """A paused source takes no run but its last."""
    async with opened(url) as catalog:
        await catalog.mark_source(SOURCE, paused=True)
        assert (await catalog.open_run(SOURCE, "1", "change", NOW)).ticket is None
        assert (await catalog.open_run(SOURCE, "2", REMOVAL, NOW)).ticket is not None
