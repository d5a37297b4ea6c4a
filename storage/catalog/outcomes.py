"""Outcomes by document and stage, and pins."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import cached_property

from sqlalchemy import select

from contracts.runs import DocumentOutcome, RunTicket, Stage
from storage.catalog import schema
from storage.catalog.database import Database, Insert, slices
from storage.catalog.failures import note_failures
from storage.catalog.tickets import check_ticket


class Outcomes:
    """The port `OutcomeCatalog`, with `Statuses`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # To build a statement takes as long as to execute it for one document: each is built once.

    @cached_property
    def _upsert(self) -> Insert:
        return self._database.upsert(
            schema.outcomes,
            ("source_id", "seq", "doc_key", "stage"),
            ("status", "retryable", "outcome"),
        )

    @cached_property
    def _upsert_last(self) -> Insert:
        return self._database.upsert(
            schema.last_outcomes, ("source_id", "doc_key"), ("seq", "status", "outcome")
        )

    @cached_property
    def _pin(self) -> Insert:
        return self._database.insert(schema.pins).on_conflict_do_nothing()

    async def record(
        self, ticket: RunTicket, outcomes: Sequence[DocumentOutcome], now: datetime
    ) -> None:
        """Write outcomes, and what they mean for later runs."""
        dated = [outcome.model_copy(update={"at": now}) for outcome in outcomes]
        rows = [_row(ticket, outcome) for outcome in dated]
        async with self._database.write() as connection:
            await check_ticket(connection, ticket)
            if rows:
                await connection.execute(self._upsert, rows)
                await connection.execute(self._upsert_last, rows)
            await note_failures(self._database, connection, ticket, dated)

    async def outcomes(
        self,
        source_id: str,
        seq: int,
        stage: Stage | None = None,
        doc_keys: Collection[str] = (),
        *,
        after: str = "",
        documents: int | None = None,
    ) -> list[DocumentOutcome]:
        """Outcomes of a run, by document and stage."""
        table = schema.outcomes
        of_run = table.c.source_id == source_id, table.c.seq == seq, table.c.doc_key > after
        statement = select(table.c.outcome).where(*of_run).order_by(table.c.doc_key, table.c.stage)
        if documents is not None:
            keys = select(table.c.doc_key).where(*of_run).distinct()
            page = keys.order_by(table.c.doc_key).limit(documents).subquery()
            statement = statement.where(table.c.doc_key.in_(select(page.c.doc_key)))
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

    async def pin(self, ticket: RunTicket, versions: Mapping[str, str]) -> dict[str, str]:
        """Put-if-absent; answers the versions that stay."""
        table = schema.pins
        rows = [
            {
                "source_id": ticket.source_id,
                "seq": ticket.seq,
                "doc_key": key,
                "source_version": version,
            }
            for key, version in versions.items()
        ]
        pinned = dict(versions)
        async with self._database.write() as connection:
            await check_ticket(connection, ticket)
            await connection.execute(self._pin, rows)
            for keys in slices(list(versions)):
                found = await connection.execute(
                    select(table.c.doc_key, table.c.source_version).where(
                        table.c.source_id == ticket.source_id,
                        table.c.seq == ticket.seq,
                        table.c.doc_key.in_(keys),
                    )
                )
                pinned.update({row.doc_key: row.source_version for row in found})
        return pinned


def _row(ticket: RunTicket, outcome: DocumentOutcome) -> dict[str, str | int | bool]:
    """Column values for both tables."""
    return {
        "source_id": ticket.source_id,
        "seq": ticket.seq,
        "doc_key": outcome.doc_key,
        "stage": outcome.stage.value,
        "status": outcome.status.value,
        "retryable": outcome.retryable,
        "outcome": outcome.model_dump_json(exclude_none=True),
    }
