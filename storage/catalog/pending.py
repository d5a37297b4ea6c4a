"""Changed keys that no promotion has settled yet. The empty key stands for every key: a crawl."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, Select, case, delete, exists, func, or_, select, update

from contracts.events import DirtyKey, EventTrace
from contracts.runs import OutcomeStatus, RunTicket
from storage.catalog import schema
from storage.catalog.database import Database, Insert, slices
from storage.catalog.tickets import check_settled, check_ticket

_EVENTS: Final[TypeAdapter[tuple[EventTrace, ...]]] = TypeAdapter(tuple[EventTrace, ...])

EVERYTHING = ""  # the key of a crawl
LONGEST_DOUBLING = 10  # attempts after which the backoff no longer doubles


class Pending:
    """The port `PendingCatalog`.

    Args:
        database: where the rows are.
        backoff: seconds before the first retry; doubles with each attempt.
        longest: seconds that the backoff never exceeds.
    """

    def __init__(self, database: Database, backoff: float, longest: float) -> None:
        self._database = database
        self._backoff = backoff
        self._longest = longest

    async def take(
        self, ticket: RunTicket, keys: Sequence[DirtyKey], now: datetime, *, crawl: bool
    ) -> tuple[list[DirtyKey], bool]:
        """Give the keys, and those given back before whose time has come, to the run."""
        table = schema.pending
        everything = [DirtyKey.model_construct(key=EVERYTHING)] if crawl else []
        rows = {
            key.key: {
                "source_id": ticket.source_id,
                "doc_key": key.key,
                "hinted_at": key.hinted_at,
                "recheck": key.recheck,
                "taken_by": ticket.seq,
                "starts_run": False,
                "attempts": 0,
                "not_before": None,
                "events": _EVENTS.dump_json(key.events).decode() if key.events else None,
            }
            for key in [*keys, *everything]
        }
        async with self._database.write() as connection:
            await check_ticket(connection, ticket)
            if rows:
                await connection.execute(self._taking(), list(rows.values()))
            await connection.execute(
                update(table)
                .where(
                    table.c.source_id == ticket.source_id,
                    table.c.taken_by.is_(None),
                    or_(table.c.not_before.is_(None), table.c.not_before <= now.timestamp()),
                )
                .values(taken_by=ticket.seq, not_before=None)
            )
            taken = (
                await connection.execute(
                    select(table).where(
                        table.c.source_id == ticket.source_id, table.c.taken_by == ticket.seq
                    )
                )
            ).all()
        found = [
            DirtyKey(
                key=row.doc_key,
                hinted_at=row.hinted_at,
                recheck=row.recheck,
                events=_EVENTS.validate_json(row.events) if row.events else (),
            )
            for row in taken
            if row.doc_key != EVERYTHING
        ]
        return found, len(found) < len(taken)

    def _taking(self) -> Insert:
        """A key that was given back keeps what named it, unless something new does."""
        table = schema.pending
        statement = self._database.insert(table)
        new = statement.excluded
        names = ("taken_by", "hinted_at", "recheck", "not_before")
        events = func.coalesce(new.events, table.c.events)
        return statement.on_conflict_do_update(
            index_elements=["source_id", "doc_key"],
            set_={**{name: new[name] for name in names}, "events": events},
        )

    async def release(self, source_id: str, seq: int, *, starts_run: bool, now: datetime) -> None:
        """Give the keys of an unpromoted run back."""
        table = schema.pending
        async with self._database.write() as connection:
            await connection.execute(
                update(table)
                .where(table.c.source_id == source_id, table.c.taken_by == seq)
                .values(
                    taken_by=None,
                    starts_run=starts_run,
                    attempts=table.c.attempts + (1 if starts_run else 0),
                    not_before=self._not_before(now) if starts_run else None,
                )
            )

    async def settle(self, ticket: RunTicket, now: datetime) -> int:
        """Drop the keys, but keep those of documents whose last outcome may still succeed."""
        table = schema.pending
        mine = (table.c.source_id == ticket.source_id) & (table.c.taken_by == ticket.seq)
        async with self._database.write() as connection:
            await check_settled(connection, ticket)
            keys = list(await connection.scalars(_retryable(ticket)))
            for some in slices(keys, 100):
                # A crawl took no key of its own for them.
                rows = [
                    {
                        "source_id": ticket.source_id,
                        "doc_key": key,
                        "recheck": False,
                        "taken_by": ticket.seq,
                        "starts_run": False,
                        "attempts": 0,
                    }
                    for key in some
                ]
                statement = self._database.insert(table).on_conflict_do_nothing()
                await connection.execute(statement, rows)
                await connection.execute(
                    update(table)
                    .where(mine, table.c.doc_key.in_(some))
                    .values(
                        taken_by=None,
                        starts_run=True,
                        attempts=table.c.attempts + 1,
                        not_before=self._not_before(now),
                    )
                )
            await connection.execute(delete(table).where(mine))
        return len(keys)

    async def pending(self, source_id: str) -> int:
        """How many keys are pending or taken."""
        table = schema.pending
        async with self._database.read() as connection:
            count = await connection.scalar(
                select(func.count()).select_from(table).where(table.c.source_id == source_id)
            )
        return count or 0

    def _not_before(self, now: datetime) -> ColumnElement[float]:
        """Now plus the backoff, by the attempts that a row already has."""
        attempts = schema.pending.c.attempts
        steps = [
            (attempts <= n, now.timestamp() + min(self._backoff * 2**n, self._longest))
            for n in range(LONGEST_DOUBLING)
        ]
        return case(*steps, else_=now.timestamp() + self._longest)


def _retryable(ticket: RunTicket) -> Select[tuple[str]]:
    """Documents that this run failed to ingest and that may succeed later."""
    outcomes, last = schema.outcomes, schema.last_outcomes
    failed_last = exists().where(
        last.c.source_id == outcomes.c.source_id,
        last.c.doc_key == outcomes.c.doc_key,
        last.c.seq == outcomes.c.seq,
        last.c.status == OutcomeStatus.FAILED.value,
    )
    return (
        select(outcomes.c.doc_key)
        .distinct()
        .where(
            outcomes.c.source_id == ticket.source_id,
            outcomes.c.seq == ticket.seq,
            outcomes.c.status == OutcomeStatus.FAILED.value,
            outcomes.c.retryable.is_(True),
            failed_last,
        )
    )
