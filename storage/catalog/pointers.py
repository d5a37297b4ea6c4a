"""Live pointers: the only thing that switches."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import Row, bindparam, select, union, update
from sqlalchemy.ext.asyncio import AsyncConnection

from contracts.errors import PromotionRefused, RollbackRefused, UnknownSource
from contracts.ids import run_id
from contracts.runs import AuditEntry, RunCounts, RunState, RunTicket
from contracts.sources import SourceConfig
from contracts.visibility import LivePointer
from storage.catalog import schema
from storage.catalog.audit import insert_audit
from storage.catalog.database import Database
from storage.catalog.intervals import moment

ROLLBACK = "rollback"  # the action in the audit trail


# Built once: every question reads them twice.
_POINTERS: Final = (
    select(schema.live_pointers)
    .select_from(
        schema.live_pointers.join(
            schema.sources, schema.sources.c.source_id == schema.live_pointers.c.source_id
        )
    )
    .where(
        schema.live_pointers.c.source_id.in_(bindparam("ids", expanding=True)),
        schema.sources.c.removed.is_(False),
    )
)


class Pointers:
    """The port `PointerCatalog`.

    Args:
        database: where the rows are.
        reader_grace: longer than any query; what readers may still use is kept so long.
    """

    def __init__(self, database: Database, reader_grace: timedelta) -> None:
        self._database = database
        self._grace = reader_grace.total_seconds()

    async def pointers(self, source_ids: Collection[str]) -> dict[str, LivePointer]:
        """The pointers, in one statement."""
        async with self._database.read() as connection:
            rows = await connection.execute(_POINTERS, {"ids": list(source_ids)})
            found = {row.source_id: _pointer(row) for row in rows}
        for source_id in source_ids:
            if source_id not in found:
                raise UnknownSource(
                    f"there is no source {source_id!r}: `sluice source list` shows those that are"
                )
        return found

    async def promote(
        self, ticket: RunTicket, counts: RunCounts, manifest_digest: str, now: datetime
    ) -> LivePointer:
        """One compare-and-set; the run's row follows in the same transaction."""
        pointer = schema.live_pointers
        async with self._database.write() as connection:
            before = await _row(connection, ticket.source_id)
            if before.seq == ticket.seq and before.run_id == ticket.run_id:
                return _pointer(before)
            oldest = await self._oldest(connection, ticket)
            due = oldest > before.oldest_retained and before.retire_at is None
            result = await connection.execute(
                update(pointer)
                .where(
                    pointer.c.source_id == ticket.source_id,
                    pointer.c.generation == ticket.generation,
                    pointer.c.seq == ticket.base_seq,
                    pointer.c.open_seq == ticket.seq,
                    pointer.c.token == ticket.token,
                )
                .values(
                    seq=ticket.seq,
                    run_id=ticket.run_id,
                    promoted_at=now.timestamp(),
                    open_seq=None,
                    oldest_retained=max(oldest, before.oldest_retained),
                    # A retirement that is due already isn't put off by the next promotion.
                    retire_at=now.timestamp() + self._grace if due else before.retire_at,
                    retire_to=oldest if due else before.retire_to,
                )
            )
            if result.rowcount != 1:
                raise PromotionRefused(
                    f"run {ticket.seq} of {ticket.source_id} started from {ticket.base_seq}; "
                    f"now {before.seq} is live and the open run is {before.open_seq}"
                )
            await self._close_run(connection, ticket, counts, manifest_digest, now)
            return _pointer(await _row(connection, ticket.source_id))

    async def _oldest(self, connection: AsyncConnection, ticket: RunTicket) -> int:
        """The oldest sequence that stays, once this one is live."""
        sources, runs = schema.sources, schema.runs
        text = await connection.scalar(
            select(sources.c.config).where(sources.c.source_id == ticket.source_id)
        )
        retain = SourceConfig.model_validate_json(text or "").retain_versions
        if retain == 0:
            return ticket.seq
        earlier = (
            await connection.scalars(
                select(runs.c.seq)
                .where(
                    runs.c.source_id == ticket.source_id,
                    runs.c.state == RunState.PROMOTED.value,
                    runs.c.seq < ticket.seq,
                )
                .order_by(runs.c.seq.desc())
                .limit(retain)
            )
        ).all()
        return earlier[-1] if len(earlier) == retain else 0

    async def _close_run(
        self,
        connection: AsyncConnection,
        ticket: RunTicket,
        counts: RunCounts,
        manifest_digest: str,
        now: datetime,
    ) -> None:
        runs = schema.runs
        await connection.execute(
            update(runs)
            .where(runs.c.source_id == ticket.source_id, runs.c.seq == ticket.seq)
            .values(
                state=RunState.PROMOTED.value,
                reason=None,
                counts=counts.model_dump_json(),
                manifest_digest=manifest_digest,
                ended_at=now.timestamp(),
                promoted_at=now.timestamp(),
            )
        )

    async def fence(self, source_id: str, seq: int) -> None:
        """Raise the token and clear the open run, if it is this one. Its purge is due at once."""
        pointer = schema.live_pointers
        async with self._database.write() as connection:
            row = await _row(connection, source_id)
            if row.open_seq != seq:
                return
            await connection.execute(
                update(pointer)
                .where(pointer.c.source_id == source_id)
                .values(token=pointer.c.token + 1, open_seq=None)
            )
            await self._owe_purge(connection, source_id, row.generation, seq, 0.0)

    async def roll_back(
        self,
        source_id: str,
        to_seq: int | None,
        actor: str,
        reason: str,
        now: datetime,
        request: str | None = None,
    ) -> LivePointer:
        """Set the pointer to a retained sequence, withdraw those above, pin the source."""
        pointer, runs, sources = schema.live_pointers, schema.runs, schema.sources
        async with self._database.write() as connection:
            before = await _row(connection, source_id)
            if request is not None and request == await self._last_rollback(connection, source_id):
                return _pointer(before)
            target = await self._target(connection, before, to_seq)
            withdrawn = (
                await connection.scalars(
                    select(runs.c.seq).where(
                        runs.c.source_id == source_id,
                        runs.c.seq > target,
                        runs.c.state == RunState.PROMOTED.value,
                    )
                )
            ).all()
            due = now.timestamp() + self._grace
            for seq in withdrawn:
                await self._owe_purge(connection, source_id, before.generation, seq, due)
            if before.open_seq is not None:
                await self._owe_purge(
                    connection, source_id, before.generation, before.open_seq, due
                )
            await self._keep_keys(connection, before, withdrawn)
            await connection.execute(
                update(runs)
                .where(runs.c.source_id == source_id, runs.c.seq.in_(withdrawn))
                .values(state=RunState.WITHDRAWN.value, reason=reason or f"rolled back to {target}")
            )
            await connection.execute(
                update(pointer)
                .where(pointer.c.source_id == source_id)
                .values(
                    seq=target,
                    run_id=run_id(source_id, target) if target else "",
                    token=pointer.c.token + 1,
                    open_seq=None,
                    promoted_at=now.timestamp(),
                )
            )
            await connection.execute(
                update(sources).where(sources.c.source_id == source_id).values(pinned=True)
            )
            entry = AuditEntry(
                source_id=source_id,
                seq=target,
                actor=actor,
                action=ROLLBACK,
                reason=reason,
                details={"request": request} if request is not None else {},
            )
            await insert_audit(connection, entry, now.timestamp())
            return _pointer(await _row(connection, source_id))

    async def _last_rollback(self, connection: AsyncConnection, source_id: str) -> str | None:
        """The request of the newest rollback: a repeated activity must not roll back twice."""
        table = schema.audit
        statement = (
            select(table.c.details)
            .where(table.c.source_id == source_id, table.c.action == ROLLBACK)
            .order_by(table.c.id.desc())
            .limit(1)
        )
        details: dict[str, str] = await connection.scalar(statement) or {}
        return details.get("request")

    async def _target(
        self, connection: AsyncConnection, before: Row[Any], to_seq: int | None
    ) -> int:
        runs = schema.runs
        retained = (
            await connection.scalars(
                select(runs.c.seq)
                .where(
                    runs.c.source_id == before.source_id,
                    runs.c.state == RunState.PROMOTED.value,
                    runs.c.seq < before.seq,
                    runs.c.seq >= before.oldest_retained,
                )
                .order_by(runs.c.seq.desc())
            )
        ).all()
        if not retained:
            raise RollbackRefused(
                f"no sequence of {before.source_id} before {before.seq} is retained: "
                "there is nothing to roll back to"
            )
        if to_seq is None:
            return int(retained[0])
        if to_seq not in retained:
            known = ", ".join(str(seq) for seq in retained)
            raise RollbackRefused(
                f"sequence {to_seq} of {before.source_id} can't be rolled back to: "
                f"below the live {before.seq} these are retained: {known}"
            )
        return to_seq

    async def _keep_keys(
        self, connection: AsyncConnection, before: Row[Any], withdrawn: Collection[int]
    ) -> None:
        """What the withdrawn runs had changed is pending; it starts no run until the resume."""
        table, pending = schema.document_versions, schema.pending
        changed = [
            select(table.c.doc_key).where(
                table.c.source_id == before.source_id,
                table.c.generation == before.generation,
                column.in_(list(withdrawn)),
            )
            for column in (table.c.from_seq, table.c.to_seq)
        ]
        keys = (await connection.scalars(union(*changed))).all()
        for key in keys:
            statement = self._database.insert(pending).values(
                source_id=before.source_id, doc_key=key, recheck=False, starts_run=False, attempts=0
            )
            # The open run may hold the key, and would settle it when it finds no change.
            await connection.execute(
                statement.on_conflict_do_update(
                    index_elements=["source_id", "doc_key"], set_={"taken_by": None}
                )
            )

    async def _owe_purge(
        self, connection: AsyncConnection, source_id: str, generation: int, seq: int, due: float
    ) -> None:
        statement = self._database.insert(schema.purges).values(
            source_id=source_id, generation=generation, seq=seq, due_at=due, first=True
        )
        await connection.execute(
            statement.on_conflict_do_update(
                index_elements=["source_id", "generation", "seq"],
                set_={"due_at": due, "first": True},
            )
        )

    async def unpin(self, source_id: str) -> None:
        """The source may run again, and what was given back starts a run."""
        sources, pending = schema.sources, schema.pending
        async with self._database.write() as connection:
            await connection.execute(
                update(sources).where(sources.c.source_id == source_id).values(pinned=False)
            )
            await connection.execute(
                update(pending)
                .where(pending.c.source_id == source_id, pending.c.taken_by.is_(None))
                .values(starts_run=True, not_before=0.0)
            )


async def _row(connection: AsyncConnection, source_id: str) -> Row[Any]:
    pointer = schema.live_pointers
    row = (
        await connection.execute(
            select(pointer).where(pointer.c.source_id == source_id).with_for_update()
        )
    ).one_or_none()
    if row is None:
        raise UnknownSource(f"there is no source {source_id!r}")
    return row


def _pointer(row: Row[Any]) -> LivePointer:
    return LivePointer(
        source_id=row.source_id,
        generation=row.generation,
        seq=row.seq,
        run_id=row.run_id,
        oldest_retained=row.oldest_retained,
        token=row.token,
        open_seq=row.open_seq,
        promoted_at=moment(row.promoted_at),
    )
