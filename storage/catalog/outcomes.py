"""Outcomes by document and stage, pins, and failures for good."""

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import and_, delete, select, union
from sqlalchemy.ext.asyncio import AsyncConnection

from contracts.runs import (
    DocumentOutcome,
    DocumentStatus,
    KnownFailure,
    OutcomeStatus,
    RunTicket,
    Stage,
)
from contracts.visibility import View
from storage.catalog import schema
from storage.catalog.database import Database, slices
from storage.catalog.intervals import visible_row
from storage.catalog.tickets import check_ticket


class Outcomes:
    """The port `OutcomeCatalog`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def record(
        self, ticket: RunTicket, outcomes: Sequence[DocumentOutcome], now: datetime
    ) -> None:
        """Write outcomes, and what they mean for later runs."""
        dated = [outcome.model_copy(update={"at": now}) for outcome in outcomes]
        async with self._database.write() as connection:
            await check_ticket(connection, ticket)
            for some in slices(dated, 100):
                await self._upsert(connection, ticket, some)
                await self._upsert_last(connection, ticket, some)
            await self._note_failures(connection, ticket, dated)

    async def _upsert(
        self, connection: AsyncConnection, ticket: RunTicket, outcomes: Sequence[DocumentOutcome]
    ) -> None:
        statement = self._database.insert(schema.outcomes).values(
            [
                {
                    "source_id": ticket.source_id,
                    "seq": ticket.seq,
                    "doc_key": outcome.doc_key,
                    "stage": outcome.stage.value,
                    "status": outcome.status.value,
                    "retryable": outcome.retryable,
                    "outcome": outcome.model_dump_json(),
                }
                for outcome in outcomes
            ]
        )
        await connection.execute(
            statement.on_conflict_do_update(
                index_elements=["source_id", "seq", "doc_key", "stage"],
                set_={
                    name: statement.excluded[name] for name in ("status", "retryable", "outcome")
                },
            )
        )

    async def _upsert_last(
        self, connection: AsyncConnection, ticket: RunTicket, outcomes: Sequence[DocumentOutcome]
    ) -> None:
        statement = self._database.insert(schema.last_outcomes).values(
            [
                {
                    "source_id": ticket.source_id,
                    "doc_key": outcome.doc_key,
                    "seq": ticket.seq,
                    "status": outcome.status.value,
                    "outcome": outcome.model_dump_json(),
                }
                for outcome in outcomes
            ]
        )
        await connection.execute(
            statement.on_conflict_do_update(
                index_elements=["source_id", "doc_key"],
                set_={name: statement.excluded[name] for name in ("seq", "status", "outcome")},
            )
        )

    async def _note_failures(
        self, connection: AsyncConnection, ticket: RunTicket, outcomes: Sequence[DocumentOutcome]
    ) -> None:
        """A failure for good is known from now on; a success clears it."""
        table = schema.known_failures
        cleared = [o.doc_key for o in outcomes if o.status is not OutcomeStatus.FAILED]
        for keys in slices(cleared):
            await connection.execute(
                delete(table).where(
                    table.c.source_id == ticket.source_id, table.c.doc_key.in_(keys)
                )
            )
        for outcome in outcomes:
            if outcome.status is not OutcomeStatus.FAILED or outcome.retryable:
                continue
            if outcome.source_version is None:
                continue
            statement = self._database.insert(table).values(
                source_id=ticket.source_id,
                doc_key=outcome.doc_key,
                source_version=outcome.source_version,
                fingerprint=outcome.fingerprint or "",
                error=outcome.error or "",
                message=outcome.message or "",
                seq=ticket.seq,
            )
            names = ("source_version", "fingerprint", "error", "message", "seq")
            await connection.execute(
                statement.on_conflict_do_update(
                    index_elements=["source_id", "doc_key"],
                    set_={name: statement.excluded[name] for name in names},
                )
            )

    async def outcomes(
        self, source_id: str, seq: int, stage: Stage | None = None, doc_keys: Collection[str] = ()
    ) -> list[DocumentOutcome]:
        """Outcomes of a run, by document and stage."""
        table = schema.outcomes
        statement = (
            select(table.c.outcome)
            .where(table.c.source_id == source_id, table.c.seq == seq)
            .order_by(table.c.doc_key, table.c.stage)
        )
        if stage is not None:
            statement = statement.where(table.c.stage == stage.value)
        found: list[DocumentOutcome] = []
        async with self._database.read() as connection:
            parts = [statement]
            if doc_keys:
                parts = [
                    statement.where(table.c.doc_key.in_(keys)) for keys in slices(list(doc_keys))
                ]
            for part in parts:
                texts = await connection.scalars(part)
                found.extend(DocumentOutcome.model_validate_json(text) for text in texts)
        return found

    async def pin(self, ticket: RunTicket, doc_key: str, source_version: str) -> str:
        """Put-if-absent; answers the version that stays."""
        table = schema.pins
        statement = self._database.insert(table).values(
            source_id=ticket.source_id,
            seq=ticket.seq,
            doc_key=doc_key,
            source_version=source_version,
        )
        async with self._database.write() as connection:
            await check_ticket(connection, ticket)
            await connection.execute(statement.on_conflict_do_nothing())
            pinned = await connection.scalar(
                select(table.c.source_version).where(
                    table.c.source_id == ticket.source_id,
                    table.c.seq == ticket.seq,
                    table.c.doc_key == doc_key,
                )
            )
        return pinned or source_version

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

    async def statuses(
        self, source_id: str, after: str = "", limit: int = 1_000
    ) -> list[DocumentStatus]:
        """Documents that are served or that failed, ascending by key."""
        pointer, last = schema.live_pointers, schema.last_outcomes
        versions, pending = schema.document_versions, schema.pending
        async with self._database.read() as connection:
            row = (
                await connection.execute(select(pointer).where(pointer.c.source_id == source_id))
            ).one_or_none()
            if row is None:
                return []
            view = View(source_id=source_id, generation=row.generation, seq=row.seq)
            served = select(versions.c.doc_key).where(
                visible_row(versions, view), versions.c.doc_key > after
            )
            failed = select(last.c.doc_key).where(
                last.c.source_id == source_id,
                last.c.status == OutcomeStatus.FAILED.value,
                last.c.doc_key > after,
            )
            keys = union(served, failed).order_by("doc_key").limit(limit).subquery()
            live = visible_row(versions, view)
            joined = (
                keys.outerjoin(versions, and_(versions.c.doc_key == keys.c.doc_key, live))
                .outerjoin(
                    last, and_(last.c.doc_key == keys.c.doc_key, last.c.source_id == source_id)
                )
                .outerjoin(
                    pending,
                    and_(pending.c.doc_key == keys.c.doc_key, pending.c.source_id == source_id),
                )
            )
            rows = await connection.execute(
                select(
                    keys.c.doc_key,
                    versions.c.source_version,
                    versions.c.from_seq,
                    versions.c.chunks,
                    versions.c.title,
                    last.c.seq,
                    last.c.outcome,
                    pending.c.doc_key.label("pending_key"),
                )
                .select_from(joined)
                .order_by(keys.c.doc_key)
            )
            return [_status(*found) for found in rows]


def _status(
    doc_key: str,
    version: str | None,
    from_seq: int | None,
    chunks: int | None,
    title: str | None,
    seq: int | None,
    text: str | None,
    pending_key: str | None,
) -> DocumentStatus:
    outcome = DocumentOutcome.model_validate_json(text) if text is not None else None
    return DocumentStatus(
        doc_key=doc_key,
        live_version=version,
        live_from_seq=from_seq,
        chunks=chunks or 0,
        title=title,
        last_seq=seq,
        stage=outcome.stage if outcome else None,
        status=outcome.status if outcome else None,
        error=outcome.error if outcome else None,
        message=outcome.message if outcome else None,
        retryable=outcome.retryable if outcome else False,
        pending=pending_key is not None,
    )
