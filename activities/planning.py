"""The plan of a run: look at the source, compare with the catalog, write batches of references."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from temporalio import activity

from activities.heartbeat import Progress, heartbeats
from activities.ports import Ports
from activities.references import get_list, put_list, run_prefix
from contracts.activities import (
    BATCH_LIST,
    INLINE_BATCHES,
    PLAN_RUN,
    SPILL_KEYS,
    BatchList,
    BatchListRequest,
    PlanReport,
    PlanRequest,
    Segment,
    SpillRequest,
)
from contracts.events import DirtyKey, EventTrace
from contracts.ids import digest
from contracts.ports import Source
from contracts.runs import BatchRef, KnownFailure, PlanAction, PlanEntry, RunTicket
from contracts.sources import DocumentStat, SourceConfig
from contracts.visibility import View
from documents.fingerprints import document_fingerprint

RECENT = 30.0  # seconds; a younger hint that shows no change is looked at once more
MAX_RECHECKS = 50  # keys of one run, about 4 KB in its report
NAMED_RECHECKS = 10  # keys that still fit with what named them
KEYS_PER_PAGE = 1_000
KEYS_PER_RANGE = 2_000  # of the catalog, beside a page of a listing


@dataclass
class _Draft:
    """The plan while it grows: entries not yet written, figures, references."""

    ticket: RunTicket
    entries: list[PlanEntry] = field(default_factory=list)
    size: int = 0  # bytes of the documents among the entries
    batches: list[BatchRef] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    events: dict[str, tuple[EventTrace, ...]] = field(default_factory=dict)  # by key
    recheck: list[DirtyKey] = field(default_factory=list)
    changed: int = 0
    deleted: int = 0
    unchanged: int = 0
    known_failed: int = 0
    listed: int | None = None
    more: bool = False


class Planning:
    """Activities that decide nothing and look at everything."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    @activity.defn(name=SPILL_KEYS)
    async def spill_keys(self, request: SpillRequest) -> Segment:
        """Keys of a coordinator, as a segment named by what is in it."""
        name = digest(*(key.model_dump_json() for key in request.keys))
        key = f"segments/{request.source_id}/{name}.json"
        return Segment(key=await put_list(self._ports.objects, key, request.keys))

    @activity.defn(name=BATCH_LIST)
    async def batch_list(self, request: BatchListRequest) -> BatchList:
        """Some references of a long plan."""
        batches = await get_list(self._ports.objects, request.index, BatchRef)
        return BatchList(batches=tuple(batches[request.first : request.first + request.limit]))

    @activity.defn(name=PLAN_RUN)
    async def plan_run(self, request: PlanRequest) -> PlanReport:
        """Look at each key that the run has taken (or at everything), and write the batches."""
        ports, ticket = self._ports, request.ticket
        async with heartbeats("planning") as progress:
            record = await ports.catalog.source(ticket.source_id)
            keys, crawl = await ports.catalog.pending_keys.take(
                ticket, (), ports.now(), crawl=False
            )
            source = ports.open_source(record.config)
            planner = _Planner(ports, record.config, source, _Draft(ticket), progress)
            try:
                await planner.plan(keys, crawl=crawl)
            finally:
                await source.close()
            return await planner.report()


@dataclass
class _Planner:
    """One planning of one run."""

    ports: Ports
    config: SourceConfig
    source: Source
    draft: _Draft
    progress: Progress

    def __post_init__(self) -> None:
        ticket = self.draft.ticket
        self.base = View(
            source_id=ticket.source_id, generation=ticket.generation, seq=ticket.base_seq
        )
        self.fingerprint = document_fingerprint(
            self.ports.parser.fingerprint, self.ports.embedder.space
        )

    async def plan(self, keys: Sequence[DirtyKey], *, crawl: bool) -> None:
        """Changed keys first, then everything if this is a crawl."""
        for start in range(0, len(keys), KEYS_PER_PAGE):
            await self._plan_keys(keys[start : start + KEYS_PER_PAGE])
        if crawl:
            await self._crawl()
        await self._flush()

    async def report(self) -> PlanReport:
        """What the workflow has to know."""
        draft = self.draft
        index = None
        if len(draft.batches) > INLINE_BATCHES:
            prefix = run_prefix(self.config.source_id, draft.ticket.seq)
            index = await put_list(self.ports.objects, f"{prefix}/plan/index.json", draft.batches)
        live_documents = 0
        if draft.listed == 0:
            live_documents, _ = await self.ports.catalog.counts(self.base)
        return PlanReport(
            batches=() if index else tuple(draft.batches),
            index=index,
            total_batches=len(draft.batches),
            changed=draft.changed,
            deleted=draft.deleted,
            unchanged=draft.unchanged,
            known_failed=draft.known_failed,
            live_documents=live_documents,
            listed=draft.listed,
            more=draft.more,
            recheck=self._rechecks(),
            gate=self.config.gate,
            approval_timeout=self.config.approval_timeout,
        )

    def _rechecks(self) -> tuple[DirtyKey, ...]:
        """Which keys matters more than what named them: there is room for few events."""
        recheck = self.draft.recheck[:MAX_RECHECKS]
        few = len(recheck) <= NAMED_RECHECKS
        return tuple(
            key.model_copy(update={"events": key.events[-1:] if few else ()}) for key in recheck
        )

    # --- keys ----------------------------------------------------------------------------------

    async def _plan_keys(self, keys: Sequence[DirtyKey]) -> None:
        names = [key.key for key in keys]
        stats = await self._look(names)
        versions = await self.ports.catalog.versions(self.base, names)
        failures = await self.ports.catalog.known_failures(self.config.source_id, names)
        now = self.ports.now().timestamp()
        gone = [
            name
            for name, stat in zip(names, stats, strict=True)
            if stat is None and name not in versions
        ]
        if gone:
            await self.ports.catalog.forget_failures(self.config.source_id, gone)
        for key, stat in zip(keys, stats, strict=True):
            if key.key in self.draft.seen:
                continue
            self.draft.seen.add(key.key)
            if key.events:
                self.draft.events[key.key] = key.events
            version = versions.get(key.key)
            known = version.source_version if version is not None else None
            changes = await self._weigh(key.key, stat, known, failures.get(key.key))
            hinted = key.hinted_at
            if not changes and not key.recheck and hinted is not None and now - hinted < RECENT:
                self.draft.recheck.append(key.model_copy(update={"recheck": True}))

    async def _look(self, names: Sequence[str]) -> list[DocumentStat | None]:
        gate = asyncio.Semaphore(self.ports.limits.concurrent_looks)

        async def look(name: str) -> DocumentStat | None:
            async with gate:
                stat = await self.source.stat(name)
            self.progress.done += 1
            return stat

        return await asyncio.gather(*(look(name) for name in names))

    async def _weigh(
        self,
        name: str,
        stat: DocumentStat | None,
        known: str | None,
        failure: KnownFailure | None,
    ) -> bool:
        """Add the document to the plan if it differs from the source version that is known of it;
        answers whether it did."""
        if stat is None:
            if known is not None:
                await self._add(self._entry(PlanAction.DELETE, name))
            return known is not None
        if known == stat.source_version:
            self.draft.unchanged += 1
            return False
        if self._failed_before(stat, failure):
            self.draft.known_failed += 1
            return False
        await self._add(self._entry(PlanAction.INGEST, name, stat))
        return True

    def _entry(self, action: PlanAction, name: str, stat: DocumentStat | None = None) -> PlanEntry:
        events = self.draft.events.get(name, ())
        return PlanEntry(action=action, doc_key=name, stat=stat, events=events)

    def _failed_before(self, stat: DocumentStat, failure: KnownFailure | None) -> bool:
        return (
            failure is not None
            and failure.source_version == stat.source_version
            and failure.fingerprint == self.fingerprint
        )

    # --- crawl ---------------------------------------------------------------------------------

    async def _crawl(self) -> None:
        """Every document of the source, in order, beside every key of the catalog, in order."""
        draft, after = self.draft, ""
        draft.listed = 0
        failures = await self.ports.catalog.known_failures(self.config.source_id)
        gone = set(failures)
        async with aclosing(self.source.list_pages()) as pages:
            async for page in pages:
                if not page:
                    continue
                draft.listed += len(page)
                gone.difference_update(stat.doc_key for stat in page)
                names = {stat.doc_key for stat in page}
                known = await self._plan_missing(after, page[-1].doc_key, names)
                await self._plan_page(page, known, failures)
                after = page[-1].doc_key
                if self._full():
                    draft.more, draft.listed = True, None
                    return
        if draft.listed == 0:
            return  # the gate's zero-document rule, not a deletion of everything
        await self._plan_missing(after, None, set())
        await self._forget_gone(gone)

    def _full(self) -> bool:
        """Whether a later crawl has as much as one run takes; a first ingest is one run."""
        planned = self.draft.changed + self.draft.deleted
        return self.base.seq > 0 and planned >= self.config.max_run_documents

    async def _plan_page(
        self,
        page: Sequence[DocumentStat],
        known: Mapping[str, str],
        failures: Mapping[str, KnownFailure],
    ) -> None:
        for stat in page:
            self.progress.done += 1
            name = stat.doc_key
            if name not in self.draft.seen:
                await self._weigh(name, stat, known.get(name), failures.get(name))

    async def _plan_missing(
        self, after: str, until: str | None, listed: set[str]
    ) -> dict[str, str]:
        """Keys of the catalog that the listing leaves out, each confirmed by a look. Answers the
        source versions that are known of those that are listed."""
        known: dict[str, str] = {}
        catalog = self.ports.catalog
        while True:
            some = await catalog.source_versions(self.base, after, until, KEYS_PER_RANGE)
            known.update({key: version for key, version in some.items() if key in listed})
            missing = [key for key in some if key not in listed and key not in self.draft.seen]
            for key, stat in zip(missing, await self._look(missing), strict=True):
                if stat is None:
                    await self._add(PlanEntry(action=PlanAction.DELETE, doc_key=key))
            if len(some) < KEYS_PER_RANGE:
                return known
            after = next(reversed(some))

    async def _forget_gone(self, unlisted: Collection[str]) -> None:
        """Failures of documents that the whole listing left out, and a look too."""
        names = sorted(unlisted)
        for start in range(0, len(names), KEYS_PER_PAGE):
            some = names[start : start + KEYS_PER_PAGE]
            looks = zip(some, await self._look(some), strict=True)
            gone = [name for name, stat in looks if stat is None]
            await self.ports.catalog.forget_failures(self.config.source_id, gone)

    # --- batches -------------------------------------------------------------------------------

    async def _add(self, entry: PlanEntry) -> None:
        """Put an entry into the batch that fits: small ones by the hundred, a large one alone."""
        limits, draft = self.ports.limits, self.draft
        size = entry.stat.size if entry.stat is not None else 0
        if entry.action is PlanAction.DELETE:
            draft.deleted += 1
        else:
            draft.changed += 1
        if size > limits.large_document:
            await self._write([entry])
            return
        full = len(draft.entries) >= limits.batch_documents
        if full or (draft.entries and draft.size + size > limits.batch_bytes):
            await self._flush()
        draft.entries.append(entry)
        draft.size += size

    async def _flush(self) -> None:
        if self.draft.entries:
            await self._write(self.draft.entries)
        self.draft.entries, self.draft.size = [], 0

    async def _write(self, entries: Sequence[PlanEntry]) -> None:
        draft = self.draft
        number = len(draft.batches)
        prefix = run_prefix(self.config.source_id, draft.ticket.seq)
        key = await put_list(self.ports.objects, f"{prefix}/plan/{number:06}.json", entries)
        size = sum(entry.stat.size for entry in entries if entry.stat is not None)
        draft.batches.append(BatchRef(number=number, plan=key, documents=len(entries), size=size))
