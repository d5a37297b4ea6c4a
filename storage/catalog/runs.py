"""Runs: sequence numbers, states, figures."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row, exists, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from contracts.activities import OpenRunAnswer
from contracts.errors import UnknownSource
from contracts.ids import run_id
from contracts.runs import EMPTYING, REMOVAL, RunCounts, RunRecord, RunState, RunTicket
from storage.catalog import schema
from storage.catalog.database import Database
from storage.catalog.intervals import moment
from storage.catalog.tickets import check_ticket, ticket_of, waits_for_purge


class Runs:
    """The port `RunCatalog`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def open_run(
        self, source_id: str, request: str, cause: str, now: datetime
    ) -> OpenRunAnswer:
        """Allocate the next sequence and a token; the same request gets the same ticket."""
        sources, pointer = schema.sources, schema.live_pointers
        async with self._database.write() as connection:
            row = (
                await connection.execute(
                    select(sources, pointer)
                    .select_from(sources.join(pointer, pointer.c.source_id == sources.c.source_id))
                    .where(sources.c.source_id == source_id)
                    .with_for_update()
                )
            ).one_or_none()
            if row is None:
                raise UnknownSource(f"there is no source {source_id!r}")
            if row.open_seq is not None:
                return await self._resumed(connection, source_id, row.open_seq, request)
            refused = _refusal(row, cause)
            if refused is None and await self._is_known(connection, source_id, request):
                refused = "that run has ended"
            if refused is None and await waits_for_purge(connection, source_id):
                refused = "withdrawn sequences wait for their purge"
            if refused is not None:
                return OpenRunAnswer(refused=refused)
            ticket = RunTicket(
                source_id=source_id,
                seq=row.last_seq + 1,
                run_id=run_id(source_id, row.last_seq + 1),
                generation=row.generation,
                base_seq=row.seq,
                token=row.token + 1,
            )
            await self._insert(connection, ticket, request, cause, now)
        return OpenRunAnswer(ticket=ticket)

    async def _is_known(self, connection: AsyncConnection, source_id: str, request: str) -> bool:
        runs = schema.runs
        statement = select(exists().where(runs.c.source_id == source_id, runs.c.request == request))
        return bool(await connection.scalar(statement))

    async def _resumed(
        self, connection: AsyncConnection, source_id: str, seq: int, request: str
    ) -> OpenRunAnswer:
        runs = schema.runs
        known = await connection.scalar(
            select(runs.c.request).where(runs.c.source_id == source_id, runs.c.seq == seq)
        )
        if known == request:
            return OpenRunAnswer(ticket=await ticket_of(connection, source_id, seq))
        return OpenRunAnswer(refused=f"run {seq} is unresolved")

    async def _insert(
        self,
        connection: AsyncConnection,
        ticket: RunTicket,
        request: str,
        cause: str,
        now: datetime,
    ) -> None:
        pointer = schema.live_pointers
        await connection.execute(
            update(pointer)
            .where(pointer.c.source_id == ticket.source_id)
            .values(open_seq=ticket.seq, last_seq=ticket.seq, token=ticket.token)
        )
        await connection.execute(
            insert(schema.runs).values(
                source_id=ticket.source_id,
                seq=ticket.seq,
                run_id=ticket.run_id,
                request=request,
                generation=ticket.generation,
                base_seq=ticket.base_seq,
                token=ticket.token,
                state=RunState.PLANNING.value,
                cause=cause,
                counts=RunCounts().model_dump_json(),
                started_at=now.timestamp(),
            )
        )

    async def update_run(
        self,
        ticket: RunTicket,
        state: RunState | None,
        counts: RunCounts | None = None,
        reason: str | None = None,
        manifest_digest: str | None = None,
    ) -> None:
        """Say where the run is, why it waits and on what."""
        runs = schema.runs
        values: dict[str, str | None] = {"reason": reason}
        if state is not None:
            values["state"] = state.value
        if manifest_digest is not None:
            values["manifest_digest"] = manifest_digest
        if counts is not None:
            values["counts"] = counts.model_dump_json()
        async with self._database.write() as connection:
            await check_ticket(connection, ticket)
            await connection.execute(
                update(runs)
                .where(runs.c.source_id == ticket.source_id, runs.c.seq == ticket.seq)
                .values(values)
            )

    async def end_run(
        self, ticket: RunTicket, state: RunState, reason: str, counts: RunCounts, now: datetime
    ) -> None:
        """Close a run that wasn't promoted; the first end of a run stays."""
        runs = schema.runs
        async with self._database.write() as connection:
            await connection.execute(
                update(runs)
                .where(
                    runs.c.source_id == ticket.source_id,
                    runs.c.seq == ticket.seq,
                    runs.c.ended_at.is_(None),
                )
                .values(
                    state=state.value,
                    reason=reason,
                    counts=counts.model_dump_json(),
                    ended_at=now.timestamp(),
                )
            )

    async def run(self, source_id: str, seq: int) -> RunRecord | None:
        """One run."""
        runs = schema.runs
        async with self._database.read() as connection:
            row = (
                await connection.execute(
                    select(runs).where(runs.c.source_id == source_id, runs.c.seq == seq)
                )
            ).one_or_none()
        return None if row is None else record_of(row)

    async def runs(
        self, source_id: str, limit: int = 50, before: int | None = None
    ) -> list[RunRecord]:
        """The newest runs, newest first; of those below a sequence, if one is named."""
        runs = schema.runs
        statement = (
            select(runs)
            .where(runs.c.source_id == source_id)
            .order_by(runs.c.seq.desc())
            .limit(limit)
        )
        if before is not None:
            statement = statement.where(runs.c.seq < before)
        async with self._database.read() as connection:
            return [record_of(row) for row in await connection.execute(statement)]


def _refusal(row: Row[Any], cause: str) -> str | None:
    if row.removed:
        return "the source is removed"
    if cause in {REMOVAL, EMPTYING}:
        return None  # a person's own order goes past what holds the source
    if row.paused:
        return "the source is paused"
    if row.pinned:
        return "the source is pinned by a rollback until it is resumed"
    return None


def record_of(row: Row[Any]) -> RunRecord:
    """The run of a row."""
    return RunRecord(
        source_id=row.source_id,
        seq=row.seq,
        run_id=row.run_id,
        generation=row.generation,
        base_seq=row.base_seq,
        state=RunState(row.state),
        cause=row.cause,
        counts=RunCounts.model_validate_json(row.counts),
        reason=row.reason,
        manifest_digest=row.manifest_digest,
        started_at=datetime.fromtimestamp(row.started_at, UTC),
        ended_at=moment(row.ended_at),
        promoted_at=moment(row.promoted_at),
    )
