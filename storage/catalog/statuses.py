"""What a person is shown of each document: where it is, since when, why; what is served of it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, and_, select, union
from sqlalchemy.ext.asyncio import AsyncConnection

from contracts.runs import (
    DocumentOutcome,
    DocumentStatus,
    OutcomeStatus,
    Place,
    RunState,
    Stage,
)
from contracts.visibility import View
from storage.catalog import schema
from storage.catalog.database import Database
from storage.catalog.intervals import moment, visible_row

NOTHING = -1  # a sequence that no run has

NEXT = {Stage.PARSE: Place.EMBED, Stage.EMBED: Place.INDEX, Stage.INDEX: Place.GATE}


@dataclass(frozen=True)
class _Source:
    """What the places of all documents of a source depend on."""

    view: View
    held: str | None  # why no run starts
    open_seq: int = NOTHING
    state: RunState = RunState.PLANNING  # of the open run
    reason: str | None = None  # why it waits
    started_at: datetime | None = None


class Statuses:
    """A part of the port `OutcomeCatalog`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def statuses(
        self, source_id: str, after: str = "", limit: int = 1_000
    ) -> list[DocumentStatus]:
        """Documents that are served, failed, on their way or waiting, ascending by key."""
        async with self._database.read() as connection:
            source = await _source(connection, source_id)
            if source is None:
                return []
            rows = await connection.execute(_statement(source, after, limit))
            return [_status(row, source) for row in rows]


async def _source(connection: AsyncConnection, source_id: str) -> _Source | None:
    pointer, sources, runs = schema.live_pointers, schema.sources, schema.runs
    joined = pointer.join(sources, sources.c.source_id == pointer.c.source_id).outerjoin(
        runs, and_(runs.c.source_id == pointer.c.source_id, runs.c.seq == pointer.c.open_seq)
    )
    row = (
        await connection.execute(
            select(
                pointer.c.generation,
                pointer.c.seq,
                pointer.c.open_seq,
                sources.c.paused,
                sources.c.pinned,
                runs.c.state,
                runs.c.reason,
                runs.c.started_at,
            )
            .select_from(joined)
            .where(pointer.c.source_id == source_id)
        )
    ).one_or_none()
    if row is None:
        return None
    held = "the source is paused" if row.paused else None
    if row.pinned:
        held = "the source is pinned by a rollback until it is resumed"
    view = View(source_id=source_id, generation=row.generation, seq=row.seq)
    if row.open_seq is None or row.state is None:
        return _Source(view, held)
    state = RunState(row.state)
    return _Source(view, held, row.open_seq, state, row.reason, moment(row.started_at))


def _statement(source: _Source, after: str, limit: int) -> Select[Any]:
    versions, last, runs = schema.document_versions, schema.last_outcomes, schema.runs
    pending, known = schema.pending, schema.known_failures
    source_id = source.view.source_id
    keys = _keys(source, after).order_by("doc_key").limit(limit).subquery()

    def of_key(table: Any, *more: ColumnElement[bool]) -> ColumnElement[bool]:
        return and_(table.c.source_id == source_id, table.c.doc_key == keys.c.doc_key, *more)

    joined = (
        keys.outerjoin(
            versions,
            and_(versions.c.doc_key == keys.c.doc_key, visible_row(versions, source.view)),
        )
        .outerjoin(runs, and_(runs.c.source_id == source_id, runs.c.seq == versions.c.from_seq))
        .outerjoin(last, of_key(last))
        .outerjoin(pending, of_key(pending))
        .outerjoin(known, of_key(known))
    )
    return (
        select(
            keys.c.doc_key,
            versions.c.source_version,
            versions.c.from_seq,
            versions.c.chunks,
            versions.c.title,
            runs.c.promoted_at,
            last.c.seq.label("last_seq"),
            last.c.outcome,
            pending.c.doc_key.label("pending_key"),
            pending.c.hinted_at,
            pending.c.taken_by,
            pending.c.not_before,
            known.c.acknowledged_by,
        )
        .select_from(joined)
        .order_by(keys.c.doc_key)
    )


def _keys(source: _Source, after: str) -> Any:
    """Every key that there is something to say of."""
    versions, last = schema.document_versions, schema.last_outcomes
    outcomes, pending = schema.outcomes, schema.pending
    source_id = source.view.source_id
    return union(
        select(versions.c.doc_key).where(
            visible_row(versions, source.view), versions.c.doc_key > after
        ),
        select(last.c.doc_key).where(
            last.c.source_id == source_id,
            last.c.status == OutcomeStatus.FAILED.value,
            last.c.doc_key > after,
        ),
        select(outcomes.c.doc_key).where(
            outcomes.c.source_id == source_id,
            outcomes.c.seq == source.open_seq,
            outcomes.c.doc_key > after,
        ),
        # Behind "" is every key but that of a crawl.
        select(pending.c.doc_key).where(
            pending.c.source_id == source_id, pending.c.doc_key > after
        ),
    )


def _status(row: Row[Any], source: _Source) -> DocumentStatus:
    outcome = DocumentOutcome.model_validate_json(row.outcome) if row.outcome is not None else None
    place, since, why = _place(row, outcome, source)
    return DocumentStatus(
        doc_key=row.doc_key,
        live_version=row.source_version,
        live_from_seq=row.from_seq,
        chunks=row.chunks or 0,
        title=row.title,
        last_seq=row.last_seq,
        stage=outcome.stage if outcome else None,
        status=outcome.status if outcome else None,
        error=outcome.error if outcome else None,
        message=outcome.message if outcome else None,
        retryable=outcome.retryable if outcome else False,
        pending=row.pending_key is not None,
        acknowledged_by=row.acknowledged_by,
        place=place,
        since=since,
        why=why,
    )


Found = tuple[Place | None, datetime | None, str | None]  # place, since, why


def _place(row: Row[Any], outcome: DocumentOutcome | None, source: _Source) -> Found:
    """The furthest that it has come: in the open run, else in the queue for one, else as it is."""
    if outcome is not None and row.last_seq == source.open_seq:
        found = _in_run(outcome, source)
        if found is not None:
            return found
    elif row.pending_key is not None and row.taken_by == source.open_seq:
        return Place.PARSE, source.started_at, f"run {source.open_seq} has not come to it yet"
    elif row.pending_key is not None:
        return Place.WAITING, moment(row.hinted_at), _why_waiting(row, outcome, source)
    if outcome is not None and outcome.status is OutcomeStatus.FAILED:
        return Place.FAILED, outcome.at, _failure(outcome)
    if row.from_seq is not None:
        return Place.SERVED, moment(row.promoted_at), None
    return None, None, None


def _in_run(outcome: DocumentOutcome, source: _Source) -> Found | None:
    """Where it is in the open run; None if that is done with it."""
    if outcome.status is OutcomeStatus.UNCHANGED:
        return None
    if outcome.status is OutcomeStatus.FAILED:
        if not outcome.retryable:
            return None
        why = f"attempt {outcome.attempt} failed: {_failure(outcome)}"
        return Place(outcome.stage.value), outcome.at, why
    place = NEXT[outcome.stage]
    if place is not Place.GATE:
        return place, outcome.at, None
    why = source.reason or f"run {source.open_seq} is {source.state.value}"
    return place, outcome.at, why


def _why_waiting(row: Row[Any], outcome: DocumentOutcome | None, source: _Source) -> str:
    reasons = []
    if outcome is not None and outcome.status is OutcomeStatus.FAILED:
        reasons.append(_failure(outcome))
    if row.not_before is not None:
        time = moment(row.not_before)
        reasons.append(f"it is tried again after {time:%Y-%m-%d %H:%M:%S} UTC")
    reasons.append(source.held or "the next run takes it")
    return "; ".join(reasons)


def _failure(outcome: DocumentOutcome) -> str:
    return f"{outcome.error}: {outcome.message}"
