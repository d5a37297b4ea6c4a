"""Provenance in the catalog: what each run did with a document, what is kept, what is where."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Table, func, select

from contracts.documents import PackAddress, PreparedChunk, PreparedDocument
from contracts.events import DirtyKey, EventTrace
from contracts.provenance import Result
from contracts.runs import (
    DocumentOutcome,
    DocumentStatus,
    OutcomeStatus,
    Place,
    RunCounts,
    RunState,
    RunTicket,
    Stage,
)
from contracts.sources import SourceConfig
from contracts.visibility import View
from storage.catalog import retirement, schema
from storage.catalog.forgetting import KEPT_OF_A_DOCUMENT
from storage.catalog.repository import SqlCatalog, open_catalog, sqlite_url

NOW = datetime(2026, 3, 4, tzinfo=UTC)
GRACE = timedelta(seconds=11)
SOURCE = "s"
PUT = EventTrace(origin="s3", name="ObjectCreated:Put", occurred_at=NOW, message_id="m1")


@pytest.fixture(params=["file", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return sqlite_url(tmp_path / "catalog.sqlite")
    return "sqlite+aiosqlite://"


@asynccontextmanager
async def opened(url: str, **config: object) -> AsyncIterator["Life"]:
    catalog = await open_catalog(url)
    try:
        settings = {"source_id": SOURCE, "kind": "folder", "container": "/x", **config}
        await catalog.put_source(SourceConfig.model_validate(settings), "test")
        yield Life(catalog)
    finally:
        await catalog.close()


def view(seq: int) -> View:
    return View(source_id=SOURCE, generation=1, seq=seq)


def document(key: str, *chunks: str) -> PreparedDocument:
    return PreparedDocument(
        doc_key=key,
        source_version=f"version of {chunks}",
        content_hash=f"hash of {chunks}",
        fingerprint="f",
        title="A title",
        parser="text/1",
        size=7,
        chunks=tuple(
            PreparedChunk(
                chunk_key=chunk,
                text_hash=f"text of {chunk}",
                prefix_length=0,
                tokens=1,
                char_start=0,
                char_end=5,
                address=PackAddress(pack=f"pack of {chunk}", offset=0, length=1),
            )
            for chunk in chunks
        ),
        deleted=not chunks,
    )


def outcome(key: str, stage: Stage, **fields: object) -> DocumentOutcome:
    known = {"doc_key": key, "stage": stage, "status": OutcomeStatus.DONE, "source_version": "v"}
    return DocumentOutcome.model_validate(known | fields)


def failed(key: str, *, retryable: bool) -> DocumentOutcome:
    return outcome(
        key,
        Stage.PARSE,
        status=OutcomeStatus.FAILED,
        error="CorruptDocument",
        message="broken",
        retryable=retryable,
        fingerprint="f",
    )


@dataclass
class Life:
    """A source's life in the catalog, on a clock of its own."""

    catalog: SqlCatalog
    now: datetime = NOW
    requests: int = field(default=0)

    async def opens(self, cause: str = "change") -> RunTicket:
        self.requests += 1
        answer = await self.catalog.open_run(SOURCE, str(self.requests), cause, self.now)
        assert answer.ticket is not None, answer.refused
        return answer.ticket

    async def works(self, ticket: RunTicket, *documents: PreparedDocument) -> None:
        """Stage the documents, with an outcome of each stage that they go through."""
        delta = await self.catalog.stage(ticket, documents)
        await self.catalog.settle(ticket, delta)
        outcomes = []
        for each in documents:
            change = delta.documents[each.doc_key]
            seen = {"source_version": each.source_version if each.chunks else None}
            numbers = {"added": change.added, "kept": change.kept, "removed": change.removed}
            if each.chunks:
                outcomes.append(outcome(each.doc_key, Stage.PARSE, chunks=len(each.chunks)))
            outcomes.append(outcome(each.doc_key, Stage.EMBED, embedded=change.added, **seen))
            outcomes.append(outcome(each.doc_key, Stage.INDEX, **seen, **numbers))
        await self.catalog.record(ticket, outcomes, self.now)

    async def flips(self, ticket: RunTicket) -> None:
        await self.catalog.promote(ticket, RunCounts(), "digest", self.now)
        await self.catalog.pending_keys.settle(ticket, self.now)

    async def runs(self, *documents: PreparedDocument) -> int:
        ticket = await self.opens()
        await self.works(ticket, *documents)
        await self.flips(ticket)
        return ticket.seq

    async def sweeps(self) -> None:
        """Retire what is due after the grace."""
        self.now += GRACE
        due = (await self.catalog.due_sweep(SOURCE, self.now)).retire
        if due is not None:
            await self.catalog.retire(due, self.now)

    async def ends(self, ticket: RunTicket, state: RunState) -> None:
        """End the run unpromoted, and purge it."""
        await self.catalog.fence(SOURCE, ticket.seq)
        await self.catalog.forget(view(ticket.seq), self.now)
        await self.catalog.end_run(ticket, state, "because", RunCounts(), self.now)

    async def seqs(self, key: str) -> list[int]:
        return [run.seq for run in await self.catalog.history(SOURCE, key, limit=200)]

    async def status(self, key: str) -> DocumentStatus:
        [status] = [s for s in await self.catalog.statuses(SOURCE) if s.doc_key == key]
        return status

    async def rows(self, table: Table) -> int:
        async with self.catalog._database.read() as connection:
            return await connection.scalar(select(func.count()).select_from(table)) or 0


async def test_a_run_s_part_in_a_document_is_told_whole(url: str) -> None:
    """What named it, what made it, how each stage went, and what became of its chunks."""
    async with opened(url) as life:
        await life.runs(document("a", "a1", "a2"), document("b", "b1"))
        ticket = await life.opens()
        made_by = {"parser": "text/3", "chunker": "chunking/2", "cached": True, "events": (PUT,)}
        await life.works(ticket, document("a", "a1", "a3", "a4"))
        parsed = outcome("a", Stage.PARSE, chunks=3, fingerprint="f2", seconds=0.5, **made_by)
        embedded = outcome("a", Stage.EMBED, embedded=1, reused=1, embedder="space/1", attempt=2)
        await life.catalog.record(ticket, [parsed, embedded], life.now)
        await life.flips(ticket)
        run = (await life.catalog.history(SOURCE, "a"))[0]
        assert (run.seq, run.run_id, run.cause, run.state) == (2, "s.2", "change", "promoted")
        assert (run.result, run.served, run.retained) == (Result.INGESTED, True, True)
        assert (run.events, run.title, run.size) == ((PUT,), "A title", 7)
        assert (run.parser, run.chunker, run.parsed_before) == ("text/3", "chunking/2", True)
        assert (run.embedder, run.fingerprint, run.source_version) == ("space/1", "f2", "v")
        assert (run.chunks, run.chunks_added, run.chunks_kept, run.chunks_removed) == (3, 2, 1, 1)
        assert (run.vectors_bought, run.vectors_reused) == (1, 1)
        assert [trace.stage for trace in run.stages] == list(Stage)
        assert [trace.attempts for trace in run.stages] == [1, 2, 1]
        assert run.stages[0].ended_at == life.now
        assert await life.seqs("b") == [1]


async def test_history_is_told_newest_first_and_in_pages(url: str) -> None:
    """A page goes on below a sequence; a document that no run touched has none."""
    async with opened(url) as life:
        for n in range(5):
            await life.runs(document("a", f"a{n}"))
        first = await life.catalog.history(SOURCE, "a", limit=2)
        rest = await life.catalog.history(SOURCE, "a", before=first[-1].seq, limit=9)
        assert [run.seq for run in (*first, *rest)] == [5, 4, 3, 2, 1]
        assert await life.catalog.history(SOURCE, "none") == []
        assert await life.catalog.history("none", "a") == []


async def test_each_result_is_told_apart(url: str) -> None:
    """Ingested, unchanged, failed, rejected, deleted, withdrawn: each with its run's state."""
    async with opened(url, retain_versions=9) as life:
        await life.runs(document("a", "a1"))
        ticket = await life.opens()
        same = outcome("a", Stage.PARSE, status=OutcomeStatus.UNCHANGED)
        await life.catalog.record(ticket, [same], life.now)
        await life.ends(ticket, RunState.NO_CHANGE)
        ticket = await life.opens()
        await life.catalog.record(ticket, [failed("a", retryable=False)], life.now)
        await life.flips(ticket)
        ticket = await life.opens()
        await life.works(ticket, document("a", "a2"))
        unfinished = await life.catalog.history(SOURCE, "a", limit=1)
        await life.ends(ticket, RunState.REJECTED)
        await life.runs(document("a"))
        told = {run.seq: run for run in await life.catalog.history(SOURCE, "a")}
        assert (unfinished[0].state, unfinished[0].served) == (RunState.PLANNING, False)
        assert [(run.result.value, run.state.value) for run in reversed(told.values())] == [
            ("ingested", "promoted"),
            ("unchanged", "no_change"),
            ("failed", "promoted"),
            ("ingested", "rejected"),
            ("deleted", "promoted"),
        ]
        assert not any(run.served for run in told.values())
        assert (told[1].retained, told[4].retained) == (True, False)
        await life.catalog.roll_back(SOURCE, None, "me", "bad", life.now)
        after = {run.seq: run for run in await life.catalog.history(SOURCE, "a")}
        assert after[5].state is RunState.WITHDRAWN
        assert after[1].served


async def test_a_run_without_stages_is_told_too(url: str) -> None:
    """Emptying a source stages its deletions at once: the versions that it closed tell of it."""
    async with opened(url) as life:
        await life.runs(document("a", "a1"))
        ticket = await life.opens("empty")
        await life.catalog.stage(ticket, [document("a")])
        await life.flips(ticket)
        emptied, made = await life.catalog.history(SOURCE, "a")
        assert (emptied.cause, emptied.result) == ("empty", Result.DELETED)
        assert (made.result, made.served) == (Result.INGESTED, False)


async def test_what_made_what_is_served_is_never_forgotten(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many runs came since: the run that made the version, and those that made its kept
    chunks. Of a document that goes on changing the newest runs are kept, of a deleted one nothing.
    """
    monkeypatch.setattr(retirement, "KEPT_RUNS", 2)
    async with opened(url) as life:
        await life.runs(document("quiet", "q1"), document("gone", "g1"), document("busy", "kept"))
        await life.runs(document("gone"))
        for n in range(KEPT_OF_A_DOCUMENT + 9):
            await life.runs(document("busy", "kept", f"b{n}"))
            await life.sweeps()
        assert await life.seqs("quiet") == [1]
        assert await life.seqs("gone") == []
        busy = await life.seqs("busy")
        assert busy[-1] == 1
        newest = 2 + KEPT_OF_A_DOCUMENT + 9
        assert busy[0] == newest
        assert KEPT_OF_A_DOCUMENT < len(busy) <= KEPT_OF_A_DOCUMENT + 5
        [made] = await life.catalog.history(SOURCE, "quiet")
        assert [trace.stage for trace in made.stages] == list(Stage)
        assert await life.rows(schema.last_outcomes) == 2


async def test_what_failed_and_never_was_served_is_forgotten_in_the_end(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its outcomes go with the source's newest runs; that it fails stays listed."""
    monkeypatch.setattr(retirement, "KEPT_RUNS", 2)
    async with opened(url) as life:
        ticket = await life.opens()
        await life.catalog.record(ticket, [failed("bad", retryable=False)], life.now)
        await life.flips(ticket)
        for n in range(6):
            await life.runs(document("a", f"a{n}"))
            await life.sweeps()
        assert await life.seqs("bad") == []
        assert (await life.status("bad")).place is Place.FAILED


async def test_a_key_that_is_given_back_keeps_what_named_it(url: str) -> None:
    """The run that takes it again is told the same event, until something new names it."""
    async with opened(url) as life:
        pending = life.catalog.pending_keys
        ticket = await life.opens()
        await pending.take(ticket, [DirtyKey(key="a", events=(PUT,))], NOW, crawl=False)
        await life.ends(ticket, RunState.REJECTED)
        await pending.release(SOURCE, ticket.seq, starts_run=False, now=NOW)
        again = await life.opens()
        [key], _ = await pending.take(again, [DirtyKey(key="a")], NOW, crawl=False)
        assert key.events == (PUT,)
        newer = PUT.model_copy(update={"message_id": "m2"})
        [key], _ = await pending.take(again, [DirtyKey(key="a", events=(newer,))], NOW, crawl=False)
        assert key.events == (newer,)


async def test_every_document_says_where_it_is_since_when_and_why(url: str) -> None:
    """In a run by its stage, outside by what it waits for, else served or failed."""
    async with opened(url) as life:
        await life.runs(document("served", "s1"))
        life.now += timedelta(minutes=1)
        ticket = await life.opens()
        hinted = DirtyKey(key="planned", hinted_at=NOW.timestamp())
        await life.catalog.pending_keys.take(ticket, [hinted], life.now, crawl=False)
        late = life.now + timedelta(seconds=5)
        outcomes = [
            outcome("parsed", Stage.PARSE),
            outcome("embedded", Stage.EMBED),
            outcome("indexed", Stage.INDEX),
            failed("again", retryable=True),
            failed("never", retryable=False),
        ]
        await life.catalog.record(ticket, outcomes, late)
        found = {s.doc_key: (s.place, s.since, s.why) for s in await life.catalog.statuses(SOURCE)}
        assert found == {
            "again": (Place.PARSE, late, "attempt 1 failed: CorruptDocument: broken"),
            "embedded": (Place.INDEX, late, None),
            "indexed": (Place.GATE, late, "run 2 is planning"),
            "never": (Place.FAILED, late, "CorruptDocument: broken"),
            "parsed": (Place.EMBED, late, None),
            "planned": (Place.PARSE, life.now, "run 2 has not come to it yet"),
            "served": (Place.SERVED, NOW, None),
        }
        await life.catalog.update_run(ticket, RunState.WAITING, None, "a person decides")
        assert (await life.status("indexed")).why == "a person decides"


async def test_a_document_that_waits_says_for_what(url: str) -> None:
    """For the next run, for the end of its backoff, for the source's resumption."""
    async with opened(url) as life:
        pending = life.catalog.pending_keys
        ticket = await life.opens()
        hinted = DirtyKey(key="a", hinted_at=NOW.timestamp())
        await pending.take(ticket, [hinted], NOW, crawl=False)
        await life.ends(ticket, RunState.REJECTED)
        await pending.release(SOURCE, ticket.seq, starts_run=False, now=NOW)
        status = await life.status("a")
        assert (status.place, status.since) == (Place.WAITING, NOW)
        assert status.why == "the next run takes it"
        again = await life.opens()
        await pending.take(again, [], NOW, crawl=False)
        await life.catalog.record(again, [failed("a", retryable=True)], NOW)
        await life.flips(again)
        await life.catalog.mark_source(SOURCE, paused=True)
        assert (await life.status("a")).why == (
            "CorruptDocument: broken; it is tried again after 2026-03-04 00:00:30 UTC; "
            "the source is paused"
        )


async def test_a_source_says_how_far_its_run_is_and_what_waits(url: str) -> None:
    """Counts by stage of the open run, and the oldest hint that no run has."""
    async with opened(url) as life:
        assert (await life.catalog.progress(SOURCE)).run is None
        pending = life.catalog.pending_keys
        ticket = await life.opens()
        old = DirtyKey(key="old", hinted_at=NOW.timestamp())
        await pending.take(ticket, [old, DirtyKey(key="b")], NOW, crawl=False)
        await life.ends(ticket, RunState.FAILED)
        await pending.release(SOURCE, ticket.seq, starts_run=True, now=NOW)
        ticket = await life.opens()
        await pending.take(ticket, [DirtyKey(key="c")], NOW, crawl=False)
        outcomes = [
            outcome("c", Stage.PARSE),
            outcome("c", Stage.EMBED),
            failed("d", retryable=True),
            failed("e", retryable=False),
        ]
        await life.catalog.record(ticket, outcomes, NOW)
        found = await life.catalog.progress(SOURCE)
        assert found.run is not None
        assert (found.run.seq, found.taken, found.waiting) == (2, 1, 2)
        assert (found.waiting_since, found.next_try_at) == (NOW, NOW + timedelta(seconds=30))
        counts: Sequence[tuple[int, int, int]] = [
            (count.done, count.failed, count.retryable) for count in found.stages
        ]
        assert counts == [(1, 2, 1), (1, 0, 0), (0, 0, 0)]
