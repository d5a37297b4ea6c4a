"""The documents of a batch that a stage still has to do, and how their outcomes are reported."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from activities.ports import Ports
from activities.references import get_list
from activities.together import Together
from contracts import bitmap
from contracts.activities import StageReport, StageRequest
from contracts.errors import EmbeddingUnavailable, SluiceError
from contracts.ports import ObjectRange
from contracts.runs import (
    DocumentOutcome,
    EarlierAttempt,
    OutcomeStatus,
    PlanAction,
    PlanEntry,
    RunTicket,
    Stage,
)

LONGEST_MESSAGE: Final = 300  # characters that are kept of why an earlier attempt failed


@dataclass
class BatchWork:
    """One attempt at one stage of a batch."""

    ports: Ports
    ticket: RunTicket
    stage: Stage
    attempt: int
    entries: dict[str, PlanEntry]  # all that this attempt is about, by key
    todo: dict[int, PlanEntry]  # those of them without an outcome, by place in the batch
    earlier: dict[str, DocumentOutcome]  # of the stage before, by key
    places: dict[str, int]  # in the batch, by key, of all that this attempt is about
    before: dict[str, DocumentOutcome] = field(default_factory=dict)  # failures of this stage
    outcomes: dict[str, DocumentOutcome] = field(default_factory=dict)
    retry_after: float | None = None

    def __post_init__(self) -> None:
        """Documents that are done at once are recorded, and pinned, together."""
        self._fetching: set[str] = set()  # documents that will be pinned
        self._working: set[str] = set()  # documents that will have an outcome
        self._began = self.ports.now()
        self._started: dict[str, datetime] = {}  # documents that didn't start with the batch
        self._recording: Together[DocumentOutcome, None] = Together(
            self._record_some, lambda: len(self._working)
        )
        self._finding: Together[str, bytes | None] = Together(self._find_some)
        self._pinning: Together[tuple[str, str], str] = Together(
            self._pin_some, lambda: len(self._fetching)
        )

    @classmethod
    async def load(cls, ports: Ports, stage: Stage, request: StageRequest) -> "BatchWork":
        """What the batch still has to do: what failed retryably before, or what has no outcome.

        A document with an outcome of this stage is done, whoever wrote it: so an attempt after a
        worker's death goes on where the dead one was.
        """
        ticket, batch = request.ticket, request.batch
        entries = await get_list(ports.objects, batch.plan, PlanEntry)
        wanted = range(len(entries)) if request.only is None else bitmap.decode(request.only)
        keys = [entries[place].doc_key for place in wanted]
        known = await ports.catalog.outcomes(ticket.source_id, ticket.seq, None, keys)
        before = {o.doc_key: o for o in known if o.stage is _stage_before(stage)}
        mine = {o.doc_key: o for o in known if o.stage is stage}
        mentioned = {entries[place].doc_key: entries[place] for place in wanted}
        places = {entries[place].doc_key: place for place in wanted}
        work = cls(ports, ticket, stage, request.attempt, mentioned, {}, before, places)
        for place in wanted:
            entry = entries[place]
            outcome = mine.get(entry.doc_key)
            if outcome is not None and not work._again(outcome):
                work.outcomes[entry.doc_key] = outcome
            elif work._reaches(entry, before):
                work.todo[place] = entry
                if outcome is not None:
                    work.before[entry.doc_key] = outcome
        return work

    def _again(self, outcome: DocumentOutcome) -> bool:
        failed = outcome.status is OutcomeStatus.FAILED and outcome.retryable
        return failed and outcome.attempt < self.attempt

    def _reaches(self, entry: PlanEntry, before: dict[str, DocumentOutcome]) -> bool:
        """Whether the document comes to this stage at all."""
        deletion = entry.action is PlanAction.DELETE
        if self.stage is Stage.PARSE:
            return not deletion
        if self.stage is Stage.EMBED and deletion:
            return True
        outcome = before.get(entry.doc_key)
        return outcome is not None and outcome.status is OutcomeStatus.DONE

    def start(self, doc_key: str) -> None:
        """The document is on its way through the stage: it may be pinned, and is recorded."""
        self._fetching.add(doc_key)
        self._working.add(doc_key)
        self._started[doc_key] = self.ports.now()

    async def record(self, outcomes: Sequence[DocumentOutcome]) -> None:
        """Make outcomes durable."""
        if not outcomes:
            return
        now = self.ports.now()
        whole = [self._traced(outcome, now) for outcome in outcomes]
        await self.ports.catalog.record(self.ticket, whole, now)
        self.outcomes.update({outcome.doc_key: outcome for outcome in whole})

    def _traced(self, outcome: DocumentOutcome, now: datetime) -> DocumentOutcome:
        """The outcome with what came before it: its start, the attempts before, and at a document's
        first stage the events that named it."""
        key = outcome.doc_key
        started = self._started.get(key, self._began)
        known: dict[str, object] = {
            "started_at": started,
            "seconds": outcome.seconds or round((now - started).total_seconds(), 3),
        }
        if key in self.before:
            known["earlier"] = _attempts(self.before[key])
        if key not in self.earlier and key in self.entries:
            known["events"] = self.entries[key].events
        return outcome.model_copy(update=known)

    async def record_one(self, outcome: DocumentOutcome) -> None:
        """Make an outcome durable, with others that come meanwhile."""
        self._fetching.discard(outcome.doc_key)
        self._working.discard(outcome.doc_key)
        await self._recording.add(outcome)

    async def pin(self, doc_key: str, source_version: str) -> str:
        """The version of the document that this run stays with: that of its first fetch."""
        self._fetching.discard(doc_key)
        return await self._pinning.add((doc_key, source_version))

    async def find(self, key: str) -> bytes | None:
        """An object, if it is there; looked for with others that come meanwhile."""
        return await self._finding.add(key)

    async def _find_some(self, keys: Sequence[str]) -> Sequence[bytes | None]:
        return await self.ports.objects.get_many([ObjectRange(key) for key in keys])

    async def _record_some(self, outcomes: Sequence[DocumentOutcome]) -> Sequence[None]:
        await self.record(outcomes)
        return [None] * len(outcomes)

    async def _pin_some(self, fetched: Sequence[tuple[str, str]]) -> Sequence[str]:
        pinned = await self.ports.catalog.pin(self.ticket, dict(fetched))
        return [pinned[key] for key, _ in fetched]

    def failure(self, doc_key: str, error: SluiceError, **known: str | None) -> DocumentOutcome:
        """The outcome of a document that failed here."""
        if isinstance(error, EmbeddingUnavailable) and error.retry_after is not None:
            self.retry_after = max(self.retry_after or 0.0, error.retry_after)
        return DocumentOutcome(
            doc_key=doc_key,
            stage=self.stage,
            status=OutcomeStatus.FAILED,
            attempt=self.attempt,
            error=error.name,
            message=str(error),
            retryable=error.retryable,
            **known,
        )

    def report(self) -> StageReport:
        """Counts over the outcomes, and the bitmap of what may be tried again.

        Figures of documents that an earlier attempt of this activity finished are in it, those of
        an earlier `attempt` of the batch are not: they were reported then.
        """
        # Those too that failed before this activity's earlier attempt died.
        retry = [place for key, place in self.places.items() if self._retryable(key)]
        outcomes = self.outcomes.values()
        done = [key for key, o in self.outcomes.items() if o.status is OutcomeStatus.DONE]
        deletions = [k for k, e in self.entries.items() if e.action is PlanAction.DELETE]
        if self.stage is Stage.PARSE:
            done.extend(deletions)  # nothing to parse: they go on as they are
        return StageReport(
            done=len(done),
            deleted=len(set(done) & set(deletions)) if self.stage is Stage.INDEX else 0,
            unchanged=sum(o.status is OutcomeStatus.UNCHANGED for o in outcomes),
            failed=sum(o.status is OutcomeStatus.FAILED and not o.retryable for o in outcomes),
            embedded=sum(o.embedded for o in outcomes) if self.stage is Stage.EMBED else 0,
            embedded_tokens=sum(o.embedded_tokens for o in outcomes),
            retry=bitmap.encode(retry),
            retry_after=self.retry_after,
        )

    def _retryable(self, doc_key: str) -> bool:
        outcome = self.outcomes.get(doc_key)
        return outcome is not None and outcome.retryable


def _stage_before(stage: Stage) -> Stage | None:
    stages = list(Stage)
    place = stages.index(stage)
    return stages[place - 1] if place else None


def _attempts(failed: DocumentOutcome) -> tuple[EarlierAttempt, ...]:
    """The attempts at a stage up to the one that ended so."""
    last = EarlierAttempt(
        attempt=failed.attempt,
        error=failed.error,
        message=failed.message[:LONGEST_MESSAGE] if failed.message else None,
        embedded=failed.embedded,
        started_at=failed.started_at,
        ended_at=failed.at,
    )
    return (*failed.earlier, last)
