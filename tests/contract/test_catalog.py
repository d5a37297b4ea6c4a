"""The catalog: sequences, pointer, intervals, pending keys; in a file and in memory."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from contracts.documents import EmbeddingSpace, PackAddress, PreparedChunk, PreparedDocument
from contracts.errors import Fenced, PromotionRefused, RollbackRefused, UnknownSource
from contracts.events import DirtyKey
from contracts.runs import DocumentOutcome, OutcomeStatus, RunCounts, RunState, RunTicket, Stage
from contracts.sources import SourceConfig
from contracts.visibility import View
from storage.catalog.repository import SqlCatalog, open_catalog, sqlite_url

NOW = datetime(2026, 3, 4, tzinfo=UTC)
LATER = NOW + timedelta(seconds=11)
MUCH_LATER = NOW + timedelta(minutes=11)
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
            await catalog.pin(ticket, "a", "v")


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
        keys, _ = await catalog.pending_keys.take(ticket, [], crawl=False)
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


async def test_retirement_deletes_what_nobody_can_reach(url: str) -> None:
    """After the grace, chunks closed at or before the oldest retained sequence go, and so do the
    packs that only they were in."""
    async with opened(url) as catalog:
        for n in range(1, 4):
            await ran(catalog, str(n), document("a", f"a{n}"), document("b", "b1"))
        assert (await catalog.due_sweep(SOURCE, NOW)).retire is None
        retire = (await catalog.due_sweep(SOURCE, LATER)).retire
        assert retire is not None
        assert retire.seq == 2
        assert await catalog.retire(retire) == ["pack of a1"]
        assert await visible(catalog, 3) == {"a3", "b1"}
        assert await visible(catalog, 2) == {"a2", "b1"}
        assert (await catalog.due_sweep(SOURCE, LATER)).retire is None


async def test_pending_keys_go_round_until_they_are_promoted(url: str) -> None:
    """Keys of a failed run start one again with backoff; those of a rejected one wait."""
    async with opened(url) as catalog:
        pending = catalog.pending_keys
        ticket = await ticket_of(catalog, "1")
        await pending.take(ticket, [DirtyKey(key="a")], crawl=True)
        await catalog.fence(SOURCE, ticket.seq)
        await catalog.forget(view(1), NOW)
        await pending.release(SOURCE, 1, starts_run=True, now=NOW)
        state = await catalog.source_state(SOURCE)
        assert state.retry_at == NOW.timestamp() + 30
        again = await ticket_of(catalog, "2")
        keys, crawl = await pending.take(again, [], crawl=False)
        assert ([key.key for key in keys], crawl) == (["a"], True)
        await pending.release(SOURCE, 2, starts_run=False, now=NOW)
        assert (await catalog.source_state(SOURCE)).retry_at is None
        assert await pending.pending(SOURCE) == 2


async def test_a_promoted_run_keeps_the_keys_that_may_still_succeed(url: str) -> None:
    """Retryable failures stay pending, others are settled."""
    async with opened(url) as catalog:
        ticket = await ticket_of(catalog, "1")
        keys = [DirtyKey(key=key) for key in ("good", "later", "never")]
        await catalog.pending_keys.take(ticket, keys, crawl=False)
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
        assert await catalog.pin(ticket, "a", "v1") == "v1"
        assert await catalog.pin(ticket, "a", "v2") == "v1"


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
