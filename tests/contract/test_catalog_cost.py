"""A change costs the catalog the same in a small and in a large source.

SQLite chooses its plans without statistics, and a wrong choice shows only in large sources; so the
steps of its virtual machine are counted, which are the same on every machine.
"""

import sqlite3
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from contracts.documents import PackAddress, PreparedChunk, PreparedDocument
from contracts.events import DirtyKey
from contracts.runs import DocumentOutcome, OutcomeStatus, RunCounts, RunState, RunTicket, Stage
from contracts.sources import SourceConfig
from contracts.visibility import View
from storage.catalog import retirement
from storage.catalog.repository import SqlCatalog, open_catalog, sqlite_url

NOW = datetime(2026, 3, 4, tzinfo=UTC)
LATER = NOW + timedelta(minutes=11)
SMALL, LARGE = 100, 2_000  # documents
GRAIN = 10  # steps that one count stands for
TOLERANCE = 600  # steps: B-trees of a larger source are deeper, caches are filled otherwise


class Steps:
    """Counts what every connection of a catalog executes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.total = 0
        connect = sqlite3.connect

        def counted(path: str) -> sqlite3.Connection:
            connection = connect(path)
            connection.set_progress_handler(self._count, GRAIN)
            return connection

        monkeypatch.setattr(sqlite3, "connect", counted)

    def _count(self) -> int:
        self.total += GRAIN
        return 0


def document(number: int, *chunks: str) -> PreparedDocument:
    return PreparedDocument(
        doc_key=f"{number:05}.md",
        source_version="v",
        content_hash=f"hash of {chunks}",
        fingerprint="f",
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
    )


def outcome(key: str, stage: Stage) -> DocumentOutcome:
    return DocumentOutcome(doc_key=key, stage=stage, status=OutcomeStatus.DONE)


async def opened(catalog: SqlCatalog, request: str) -> RunTicket:
    answer = await catalog.open_run("s", request, "change", NOW)
    assert answer.ticket is not None
    return answer.ticket


async def filled(catalog: SqlCatalog, documents: int) -> None:
    """A source of documents with two chunks each, after its first run."""
    await catalog.put_source(SourceConfig(source_id="s", kind="folder", container="/x"), "test")
    ticket = await opened(catalog, "first")
    whole = [document(n, f"{n}a", f"{n}b") for n in range(documents)]
    await catalog.stage(ticket, whole)
    for stage in Stage:
        await catalog.record(ticket, [outcome(d.doc_key, stage) for d in whole], NOW)
    await catalog.promote(ticket, RunCounts(), "digest", NOW)
    await catalog.pending_keys.settle(ticket, NOW)


async def steps_of_a_change(catalog: SqlCatalog, steps: Steps) -> dict[str, int]:
    """Steps of each call that one document's change needs, from its run to its retirement."""
    costs: dict[str, int] = {}

    async def counted(name: str, call: Callable[[], Awaitable[object]]) -> None:
        before = steps.total
        await call()
        costs[name] = steps.total - before

    key, changed = "00007.md", document(7, "7a", "7c")
    ticket = await opened(catalog, "second")
    base = View(source_id="s", generation=1, seq=ticket.base_seq)
    view = base.model_copy(update={"seq": ticket.seq})
    pending = catalog.pending_keys
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "take": lambda: pending.take(ticket, [DirtyKey(key=key)], NOW, crawl=False),
        "versions": lambda: catalog.versions(base, [key]),
        "source_versions": lambda: catalog.source_versions(base, key, "00009.md", 10),
        "known_failures": lambda: catalog.known_failures("s", [key]),
        "update_run": lambda: catalog.update_run(ticket, RunState.WORKING),
        "outcomes": lambda: catalog.outcomes("s", ticket.seq, None, [key]),
        "pin": lambda: catalog.pin(ticket, {key: "v2"}),
        "observe": lambda: catalog.observe(base, {key: "v"}),
        "record": lambda: catalog.record(ticket, [outcome(key, Stage.PARSE)], NOW),
        "open_chunk_keys": lambda: catalog.open_chunk_keys(ticket, [key]),
        "stage": lambda: catalog.stage(ticket, [changed]),
        "staged": lambda: catalog.staged(view),
        "has_documents": lambda: catalog.has_documents(view),
        "promote": lambda: catalog.promote(ticket, RunCounts(), "digest", NOW),
        "settle": lambda: pending.settle(ticket, NOW),
        "history": lambda: catalog.history("s", key),
        "progress": lambda: catalog.progress("s"),
        "source_state": lambda: catalog.source_state("s"),
        "pointers": lambda: catalog.pointers(["s"]),
        "visible": lambda: catalog.visible([view], 10),
    }
    for name, call in calls.items():
        await counted(name, call)
    found = [chunk.chunk_id for chunk in (await catalog.staged(view)).opens]
    await counted("locate", lambda: catalog.locate(found, [view]))
    assert len(await catalog.locate(found, [view])) == 1
    await counted("due_sweep", lambda: catalog.due_sweep("s", LATER))
    await counted("retire", lambda: catalog.retire(base, LATER))
    return costs


async def test_a_change_costs_the_same_in_a_large_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No call on the way of one document walks its source."""
    costs = []
    for documents in (SMALL, LARGE):
        with monkeypatch.context() as patch:
            steps = Steps(patch)
            catalog = await open_catalog(sqlite_url(tmp_path / f"{documents}.sqlite"))
            await filled(catalog, documents)
            costs.append(await steps_of_a_change(catalog, steps))
            await catalog.close()
    small, large = costs
    assert not {
        name: (small[name], cost) for name, cost in large.items() if cost > small[name] + TOLERANCE
    }
    assert sum(small.values()) > GRAIN  # the steps were counted


async def test_forgetting_follows_the_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that leaves the newest ones costs by the documents that it touched, though an earlier
    one touched all of them."""
    monkeypatch.setattr(retirement, "KEPT_RUNS", 0)
    costs = []
    for documents in (SMALL, LARGE):
        with monkeypatch.context() as patch:
            steps = Steps(patch)
            catalog = await open_catalog(sqlite_url(tmp_path / f"{documents}.sqlite"))
            await filled(catalog, documents)
            for n in range(2, 5):
                # A chunk of the first run is kept: what made it is looked for, and found.
                await changed_once(catalog, str(n), document(7, "7a", f"7 {n}"))
                before = steps.total
                await catalog.retire(View(source_id="s", generation=1, seq=n - 1), LATER)
            costs.append(steps.total - before)
            assert [run.seq for run in await catalog.history("s", "00007.md")] == [4, 3, 2, 1]
            await catalog.close()
    small, large = costs
    assert large <= small + TOLERANCE


async def changed_once(catalog: SqlCatalog, request: str, changed: PreparedDocument) -> None:
    ticket = await opened(catalog, request)
    await catalog.stage(ticket, [changed])
    await catalog.record(ticket, [outcome(changed.doc_key, stage) for stage in Stage], NOW)
    await catalog.promote(ticket, RunCounts(), "digest", NOW)
