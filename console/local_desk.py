"""The desk on ports: it serves the API of a stack, and the command line where no stack runs."""

import asyncio
from collections.abc import Sequence

from console.problems import error_class
from console.services import Services
from console.views import (
    AddedSource,
    DocumentKeys,
    DocumentView,
    Judgement,
    ParkedMessage,
    SourceView,
    StackStatus,
)
from contracts.activities import Command, CommandResult
from contracts.documents import DocumentVersion
from contracts.errors import (
    ConfigurationError,
    NotReachable,
    RunError,
    SourceUnavailable,
    UnknownDocument,
    UnknownRun,
    UnknownSource,
)
from contracts.events import ChangeSignal, DirtyKey, EventTrace
from contracts.gate import Verdict
from contracts.ports import Orchestrator
from contracts.provenance import DocumentRun, SourceProgress
from contracts.runs import (
    AuditEntry,
    DocumentOutcome,
    DocumentStatus,
    RunRecord,
    RunState,
    Stage,
)
from contracts.search import SearchAnswer, SearchQuestion
from contracts.sources import SourceConfig, SourceRecord
from contracts.visibility import LivePointer

PAGE = 1_000  # documents of one look at the catalog
LAST_CODE_POINT = "\U0010ffff"
SURROGATES = range(0xD800, 0xE000)


class LocalDesk:
    """Every operation, carried out here. See `console.desk.Desk`."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._catalog = services.catalog

    async def sources(self, after: str = "", limit: int | None = None) -> list[SourceView]:
        """Sources, by id."""
        known = await self._catalog.sources()
        records = [record for record in known if record.config.source_id > after][:limit]
        if not records:
            return []
        pointers = await self._catalog.pointers([record.config.source_id for record in records])
        return [await self._view(record, pointers[record.config.source_id]) for record in records]

    async def add(self, config: SourceConfig, actor: str) -> AddedSource:
        """Check, store, ask for a crawl."""
        kind = self._services.kind(config.kind)
        valid = kind.validate(config)
        await self._refuse_another_place(valid)
        source = kind.open(valid)
        try:
            async with asyncio.timeout(self._services.check_bound):
                await source.check()
        except TimeoutError as error:
            raise SourceUnavailable(
                f"{valid.container} didn't answer within {self._services.check_bound:g} s: see "
                "whether it is there, and whether the address is right"
            ) from error
        finally:
            await source.close()
        await self._catalog.put_source(valid, actor)
        orchestrator = self._services.orchestrator
        if orchestrator is not None:
            await orchestrator.signal_changed(valid.source_id, ChangeSignal(crawl=True))
        view = await self.show(valid.source_id)
        return AddedSource(source=view, crawling=orchestrator is not None)

    async def show(self, source_id: str) -> SourceView:
        """One source."""
        record = await self._catalog.source(source_id)
        return await self._view(record, await self._pointer(source_id))

    async def command(self, source_id: str, command: Command) -> CommandResult:
        """Have the coordinator obey; a refusal is raised as the class that it names."""
        await self._catalog.source(source_id)
        orchestrator = self._orchestrator(f"{command.verb!r} needs the source's coordinator")
        result = await orchestrator.command(source_id, command)
        if not result.ok:
            raise error_class(result.error)(result.message)
        return result

    async def runs(
        self, source_id: str, limit: int = 50, after: int | None = None
    ) -> list[RunRecord]:
        """The newest runs, newest first."""
        await self._catalog.source(source_id)
        return await self._catalog.runs(source_id, limit, before=after)

    async def run(self, source_id: str, seq: int) -> RunRecord:
        """One run."""
        await self._catalog.source(source_id)
        run = await self._catalog.run(source_id, seq)
        if run is None:
            raise UnknownRun(
                f"{source_id} has no run {seq}: `sluice run list {source_id}` shows them"
            )
        return run

    async def decide(self, source_id: str, seq: int | None, verdict: Judgement) -> CommandResult:
        """Hand the verdict to the run; what it was made on is the run as it is shown."""
        await self._catalog.source(source_id)
        run = await self._waiting(source_id, seq)
        given = Verdict(
            approve=verdict.approve,
            manifest_digest=verdict.manifest_digest or run.manifest_digest or "",
            actor=verdict.actor,
            reason=verdict.reason,
        )
        orchestrator = self._orchestrator("a decision needs the run's workflow")
        result = await orchestrator.decide(source_id, run.seq, given)
        if not result.ok:
            raise RunError(result.message)
        return result

    async def _waiting(self, source_id: str, seq: int | None) -> RunRecord:
        if seq is not None:
            run = await self.run(source_id, seq)
            if run.state is RunState.WAITING:
                return run
            raise RunError(f"run {seq} of {source_id} doesn't wait: it is {run.state.value}")
        for run in await self._catalog.runs(source_id, 1):
            if run.state is RunState.WAITING:
                return run
        raise RunError(f"no run of {source_id} waits for a decision")

    async def outcomes(
        self, source_id: str, seq: int, after: str = "", limit: int | None = None
    ) -> list[DocumentOutcome]:
        """How each document left each stage of a run."""
        await self.run(source_id, seq)
        found = await self._catalog.outcomes(source_id, seq, after=after, documents=limit)
        return _in_order(found)

    async def documents(
        self, source_id: str, after: str = "", limit: int | None = None
    ) -> list[DocumentStatus]:
        """Documents that there is something to say of, ascending by key."""
        await self._catalog.source(source_id)
        if limit is not None:
            return await self._catalog.statuses(source_id, after, limit)
        found: list[DocumentStatus] = []
        while True:
            page = await self._catalog.statuses(source_id, after, PAGE)
            found += page
            if len(page) < PAGE:
                return found
            after = page[-1].doc_key

    async def document(self, source_id: str, doc_key: str) -> DocumentView:
        """One document."""
        await self._catalog.source(source_id)
        pointer = await self._pointer(source_id)
        live = await self._catalog.versions(pointer.view, [doc_key])
        page = await self._catalog.statuses(source_id, _just_before(doc_key), PAGE)
        status = next((line for line in page if line.doc_key == doc_key), None)
        latest = next(iter(await self._catalog.history(source_id, doc_key, limit=1)), None)
        if status is None and doc_key not in live and latest is None:
            raise UnknownDocument(
                f"{source_id} knows no document {doc_key!r}: `sluice document list {source_id}` "
                "shows what it knows"
            )
        outcomes: list[DocumentOutcome] = []
        if status is not None and status.last_seq is not None:
            outcomes = await self._catalog.outcomes(source_id, status.last_seq, doc_keys=[doc_key])
        return DocumentView(
            source_id=source_id,
            doc_key=doc_key,
            status=status,
            live=live.get(doc_key),
            outcomes=tuple(_in_order(outcomes)),
            made=await self._made(source_id, live.get(doc_key), latest),
            latest=latest,
        )

    async def _made(
        self, source_id: str, live: DocumentVersion | None, latest: DocumentRun | None
    ) -> DocumentRun | None:
        """The run that made what is served."""
        if live is None:
            return None
        if latest is not None and latest.served:
            return latest
        before = live.from_seq + 1
        return next(iter(await self._catalog.history(source_id, live.doc_key, before, 1)), None)

    async def history(
        self, source_id: str, doc_key: str, limit: int = 20, after: int | None = None
    ) -> list[DocumentRun]:
        """The newest runs that touched the document, newest first."""
        await self._catalog.source(source_id)
        found = await self._catalog.history(source_id, doc_key, before=after, limit=limit)
        if not found:
            await self.document(source_id, doc_key)  # which no run may have touched yet
        return found

    async def progress(self, source_id: str) -> SourceProgress:
        """What the source is doing now, and what waits."""
        await self._catalog.source(source_id)
        return await self._catalog.progress(source_id)

    async def retry(self, source_id: str, request: DocumentKeys) -> int:
        """Forget why they weren't tried again, and say that they may have changed."""
        await self._catalog.source(source_id)
        orchestrator = self._orchestrator("a retry needs the source's coordinator")
        keys = tuple(dict.fromkeys(request.keys))
        live = await self._catalog.versions((await self._pointer(source_id)).view, keys)
        failing = await self._catalog.known_failures(source_id, keys)
        for key in keys:
            # A look at one document is dear, and few are neither served nor known to fail.
            if key not in live and key not in failing:
                await self.document(source_id, key)
        await self._catalog.retry(source_id, keys)
        await self._audit(source_id, request, "retry")
        asked = EventTrace(origin="person", name="retry", taken_at=self._services.now())
        await orchestrator.signal_changed(source_id, _changed(keys, asked))
        return len(keys)

    async def acknowledge(self, source_id: str, request: DocumentKeys) -> int:
        """Note who accepts the failures; a run that they held back may come now."""
        await self._catalog.source(source_id)
        keys = tuple(dict.fromkeys(request.keys))
        failing = await self._catalog.known_failures(source_id, keys)
        for key in keys:
            if key not in failing:
                raise UnknownDocument(
                    f"{key!r} of {source_id} doesn't fail for good: "
                    f"`sluice document list {source_id} --failed` shows those that do"
                )
        done = await self._catalog.acknowledge(
            source_id, keys, request.actor, request.reason, self._services.now()
        )
        if self._services.orchestrator is not None:
            asked = EventTrace(origin="person", name="acknowledge", taken_at=self._services.now())
            await self._services.orchestrator.signal_changed(source_id, _changed(done, asked))
        return len(done)

    async def _audit(self, source_id: str, request: DocumentKeys, action: str) -> None:
        entry = AuditEntry(
            source_id=source_id,
            actor=request.actor,
            action=action,
            reason=request.reason,
            details={"documents": ", ".join(request.keys)},
            at=self._services.now(),
        )
        await self._catalog.append(entry)

    async def search(self, question: SearchQuestion) -> SearchAnswer:
        """The best chunks of the sources."""
        if not question.sources:
            raise ConfigurationError("a search needs a source: name one or more")
        for source_id in question.sources:
            await self._catalog.source(source_id)
        return await self._services.search.ask(question)

    async def parked(self, after: str = "", limit: int | None = None) -> list[ParkedMessage]:
        """Messages that no decoder understands."""
        return await self._services.parked(after, limit)

    async def status(self) -> StackStatus:
        """What runs."""
        return StackStatus(
            running=self._services.orchestrator is not None,
            versions=dict(self._services.versions),
            bridge=dict(self._services.bridge_status()),
            sources=len(await self._catalog.sources()),
        )

    async def _view(self, record: SourceRecord, pointer: LivePointer) -> SourceView:
        source_id = record.config.source_id
        documents, chunks = await self._catalog.counts(pointer.view)
        return SourceView(
            config=record.config,
            revision=record.revision,
            created_at=record.created_at,
            paused=record.paused,
            pinned=record.pinned,
            pointer=pointer,
            documents=documents,
            chunks=chunks,
            pending=await self._pending(record),
            last_run=next(iter(await self._catalog.runs(source_id, 1)), None),
        )

    async def _pending(self, record: SourceRecord) -> int:
        """Keys that no run has settled; those of a source that may not run are with its
        coordinator still."""
        source_id = record.config.source_id
        settled = await self._catalog.pending_keys.pending(source_id)
        orchestrator = self._services.orchestrator
        if orchestrator is None or not (record.paused or record.pinned):
            return settled
        return settled + await orchestrator.collected(source_id)

    async def _pointer(self, source_id: str) -> LivePointer:
        return (await self._catalog.pointers([source_id]))[source_id]

    async def _refuse_another_place(self, config: SourceConfig) -> None:
        """A source that suddenly looks elsewhere would lose all its documents; one that has none
        yet may still be corrected."""
        try:
            known = (await self._catalog.source(config.source_id)).config
        except UnknownSource:
            return
        pointer = await self._pointer(config.source_id)
        if not pointer.seq and pointer.open_seq is None:
            return
        if (known.kind, known.container, known.prefix) == (
            config.kind,
            config.container,
            config.prefix,
        ):
            return
        raise ConfigurationError(
            f"the source {config.source_id} exists and reads {known.kind} {known.container}"
            f"{'/' + known.prefix if known.prefix else ''}: take another name, or remove it first"
        )

    def _orchestrator(self, why: str) -> Orchestrator:
        if self._services.orchestrator is None:
            raise NotReachable(f"{why}: start the stack with `sluice up`")
        return self._services.orchestrator


def _changed(keys: Sequence[str], asked: EventTrace) -> ChangeSignal:
    return ChangeSignal(keys=tuple(DirtyKey(key=key, events=(asked,)) for key in keys))


def _in_order(outcomes: list[DocumentOutcome]) -> list[DocumentOutcome]:
    """By document, and there by stage as the stages follow each other."""
    stages = list(Stage)
    return sorted(outcomes, key=lambda each: (each.doc_key, stages.index(each.stage)))


def _just_before(key: str) -> str:
    """A text that sorts below the key by UTF-8 bytes, with next to nothing in between."""
    last = ord(key[-1])
    if last == 0:
        return key[:-1]
    before = SURROGATES.start - 1 if last - 1 in SURROGATES else last - 1
    return key[:-1] + chr(before) + LAST_CODE_POINT
