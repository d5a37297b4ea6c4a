"""The audit trail."""

import time

from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from contracts.runs import AuditEntry
from storage.catalog import schema
from storage.catalog.database import Database
from storage.catalog.intervals import moment


async def insert_audit(connection: AsyncConnection, entry: AuditEntry, now: float) -> None:
    """Add a line in the transaction of what it tells."""
    await connection.execute(
        insert(schema.audit).values(
            source_id=entry.source_id,
            seq=entry.seq,
            actor=entry.actor,
            action=entry.action,
            reason=entry.reason,
            details=entry.details,
            at=entry.at.timestamp() if entry.at is not None else now,
        )
    )


class Audit:
    """The port `AuditTrail`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def append(self, entry: AuditEntry) -> None:
        """Add a line."""
        async with self._database.write() as connection:
            await insert_audit(connection, entry, time.time())

    async def entries(self, source_id: str, limit: int = 100) -> list[AuditEntry]:
        """The newest lines, newest first."""
        table = schema.audit
        statement = (
            select(table)
            .where(table.c.source_id == source_id)
            .order_by(table.c.id.desc())
            .limit(limit)
        )
        async with self._database.read() as connection:
            return [
                AuditEntry(
                    source_id=row.source_id,
                    seq=row.seq,
                    actor=row.actor,
                    action=row.action,
                    reason=row.reason,
                    details=row.details,
                    at=moment(row.at),
                )
                for row in await connection.execute(statement)
            ]
