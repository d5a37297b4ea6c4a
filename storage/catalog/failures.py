"""Failures for good: what isn't tried again until something changes or a person asks."""

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import and_, case, delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from contracts.runs import AuditEntry, DocumentOutcome, KnownFailure, OutcomeStatus, RunTicket
from storage.catalog import schema
from storage.catalog.audit import insert_audit
from storage.catalog.database import Database, slices


class Failures:
    """The port `FailureCatalog`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def known_failures(
        self, source_id: str, doc_keys: Collection[str] | None = None
    ) -> dict[str, KnownFailure]:
        """Failures for good, by key."""
        table = schema.known_failures
        found: dict[str, KnownFailure] = {}
        statement = select(table).where(table.c.source_id == source_id)
        parts = [statement]
        if doc_keys is not None:
            parts = [statement.where(table.c.doc_key.in_(keys)) for keys in slices(list(doc_keys))]
        async with self._database.read() as connection:
            for part in parts:
                for row in await connection.execute(part):
                    found[row.doc_key] = KnownFailure(
                        doc_key=row.doc_key,
                        source_version=row.source_version,
                        fingerprint=row.fingerprint,
                        error=row.error,
                        message=row.message,
                        seq=row.seq,
                        acknowledged_by=row.acknowledged_by,
                    )
        return found

    async def forget_failures(self, source_id: str, doc_keys: Collection[str]) -> None:
        """Drop what is known of failures of documents that are gone."""
        async with self._database.write() as connection:
            for table in (schema.known_failures, schema.last_outcomes):
                for keys in slices(list(doc_keys)):
                    await connection.execute(
                        delete(table).where(
                            table.c.source_id == source_id, table.c.doc_key.in_(keys)
                        )
                    )

    async def retry(self, source_id: str, doc_keys: Collection[str]) -> None:
        """Forget what would keep them from being tried."""
        table = schema.known_failures
        async with self._database.write() as connection:
            for keys in slices(list(doc_keys)):
                await connection.execute(
                    delete(table).where(table.c.source_id == source_id, table.c.doc_key.in_(keys))
                )

    async def acknowledge(
        self, source_id: str, doc_keys: Collection[str], actor: str, reason: str, now: datetime
    ) -> list[str]:
        """Note who accepts the failures, and an audit line for each."""
        table = schema.known_failures
        found: list[str] = []
        async with self._database.write() as connection:
            for keys in slices(list(doc_keys)):
                mine = and_(table.c.source_id == source_id, table.c.doc_key.in_(keys))
                rows = (await connection.execute(select(table).where(mine))).all()
                await connection.execute(update(table).where(mine).values(acknowledged_by=actor))
                for row in rows:
                    details = {
                        "document": row.doc_key,
                        "version": row.source_version,
                        "error": row.error,
                    }
                    entry = AuditEntry(
                        source_id=source_id,
                        actor=actor,
                        action="acknowledge",
                        reason=reason,
                        details=details,
                    )
                    await insert_audit(connection, entry, now.timestamp())
                    found.append(row.doc_key)
        return found

    async def unacknowledged(self, source_id: str, examples: int) -> tuple[int, list[str]]:
        """A count, and the first keys."""
        table = schema.known_failures
        open_ = and_(table.c.source_id == source_id, table.c.acknowledged_by.is_(None))
        async with self._database.read() as connection:
            count = await connection.scalar(select(func.count()).select_from(table).where(open_))
            keys = await connection.scalars(
                select(table.c.doc_key).where(open_).order_by(table.c.doc_key).limit(examples)
            )
            return count or 0, list(keys)


async def note_failures(
    database: Database,
    connection: AsyncConnection,
    ticket: RunTicket,
    outcomes: Sequence[DocumentOutcome],
) -> None:
    """A failure for good is known from now on; a success clears it."""
    table = schema.known_failures
    cleared = [o.doc_key for o in outcomes if o.status is not OutcomeStatus.FAILED]
    for keys in slices(cleared):
        await connection.execute(
            delete(table).where(table.c.source_id == ticket.source_id, table.c.doc_key.in_(keys))
        )
    for outcome in outcomes:
        if outcome.status is not OutcomeStatus.FAILED or outcome.retryable:
            continue
        if outcome.source_version is None:
            continue
        statement = database.insert(table).values(
            source_id=ticket.source_id,
            doc_key=outcome.doc_key,
            source_version=outcome.source_version,
            fingerprint=outcome.fingerprint or "",
            error=outcome.error or "",
            message=outcome.message or "",
            seq=ticket.seq,
        )
        new = statement.excluded
        names = ("source_version", "fingerprint", "error", "message", "seq")
        # What a person accepted was that version with that error.
        same = and_(table.c.source_version == new.source_version, table.c.error == new.error)
        await connection.execute(
            statement.on_conflict_do_update(
                index_elements=["source_id", "doc_key"],
                set_={
                    **{name: new[name] for name in names},
                    "acknowledged_by": case((same, table.c.acknowledged_by)),
                },
            )
        )
