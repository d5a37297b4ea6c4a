"""Sources and their configuration."""

import time
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row, delete, func, select, update

from contracts.activities import SourceState
from contracts.errors import UnknownSource
from contracts.runs import AuditEntry
from contracts.sources import SourceConfig, SourceRecord
from storage.catalog import schema
from storage.catalog.audit import insert_audit
from storage.catalog.database import Database
from storage.catalog.tickets import ticket_of, waits_for_purge

# What goes with a removed source. Its sequence goes on, the audit trail stays, and the chunks are
# retired.
_OWNED = (
    schema.runs,
    schema.outcomes,
    schema.last_outcomes,
    schema.known_failures,
    schema.pins,
    schema.pending,
)


class Sources:
    """The port `SourceCatalog`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put_source(self, config: SourceConfig, actor: str) -> SourceRecord:
        """Add or replace; the sequence of a removed source goes on."""
        table, now = schema.sources, time.time()
        statement = self._database.insert(table).values(
            source_id=config.source_id,
            config=config.model_dump_json(),
            revision=1,
            created_at=now,
        )
        statement = statement.on_conflict_do_update(
            index_elements=["source_id"],
            set_={
                "config": statement.excluded.config,
                "revision": table.c.revision + 1,
                "removed": False,
            },
        )
        pointer = self._database.insert(schema.live_pointers).values(
            source_id=config.source_id,
            generation=1,
            seq=0,
            run_id="",
            oldest_retained=0,
            token=0,
            last_seq=0,
            retired_to=0,
        )
        async with self._database.write() as connection:
            await connection.execute(statement)
            await connection.execute(pointer.on_conflict_do_nothing())
            entry = AuditEntry(
                source_id=config.source_id,
                actor=actor,
                action="configure",
                details={"kind": config.kind, "container": config.container},
            )
            await insert_audit(connection, entry, now)
        return await self.source(config.source_id)

    async def source(self, source_id: str) -> SourceRecord:
        """One source that isn't removed."""
        table = schema.sources
        async with self._database.read() as connection:
            row = (
                await connection.execute(select(table).where(table.c.source_id == source_id))
            ).one_or_none()
        if row is None or row.removed:
            raise UnknownSource(
                f"there is no source {source_id!r}: `sluice source list` shows those that are"
            )
        return _record(row)

    async def sources(self) -> list[SourceRecord]:
        """All that aren't removed, by id."""
        table = schema.sources
        async with self._database.read() as connection:
            rows = await connection.execute(
                select(table).where(table.c.removed.is_(False)).order_by(table.c.source_id)
            )
            return [_record(row) for row in rows]

    async def mark_source(
        self, source_id: str, *, paused: bool | None = None, removed: bool | None = None
    ) -> None:
        """Set flags; forget what belongs to a removed source alone."""
        flags = {"paused": paused, "removed": removed}
        values = {name: value for name, value in flags.items() if value is not None}
        if removed:
            values |= {"paused": False, "pinned": False}
        if not values:
            return
        table = schema.sources
        async with self._database.write() as connection:
            await connection.execute(
                update(table).where(table.c.source_id == source_id).values(values)
            )
            if removed:
                for owned in _OWNED:
                    await connection.execute(delete(owned).where(owned.c.source_id == source_id))

    async def source_state(self, source_id: str) -> SourceState:
        """What a coordinator has to know."""
        table, pointer = schema.sources, schema.live_pointers
        purges, wait = schema.purges, schema.pending
        async with self._database.read() as connection:
            joined = table.join(pointer, pointer.c.source_id == table.c.source_id)
            row = (
                await connection.execute(
                    select(table, pointer.c.open_seq, pointer.c.retire_at)
                    .select_from(joined)
                    .where(table.c.source_id == source_id)
                )
            ).one_or_none()
            if row is None:
                return SourceState(exists=False)
            unresolved = None
            if row.open_seq is not None:
                unresolved = await ticket_of(connection, source_id, row.open_seq)
            due = await connection.scalar(
                select(func.min(purges.c.due_at)).where(purges.c.source_id == source_id)
            )
            unswept = await waits_for_purge(connection, source_id)
            retry_at = await connection.scalar(
                select(func.min(wait.c.not_before)).where(
                    wait.c.source_id == source_id,
                    wait.c.taken_by.is_(None),
                    wait.c.starts_run.is_(True),
                )
            )
        config = SourceConfig.model_validate_json(row.config)
        times = [time_ for time_ in (due, row.retire_at) if time_ is not None]
        held = row.paused or row.pinned
        return SourceState(
            paused=row.paused,
            pinned=row.pinned,
            removed=row.removed,
            quiet_period=config.quiet_period,
            max_delay=config.max_delay,
            unresolved=unresolved,
            unswept=unswept,
            retry_at=None if held else retry_at,
            sweep_at=min(times) if times else None,
        )


def _record(row: Row[Any]) -> SourceRecord:
    created_at = datetime.fromtimestamp(row.created_at, UTC)
    return SourceRecord(
        config=SourceConfig.model_validate_json(row.config),
        revision=row.revision,
        created_at=created_at,
        paused=row.paused,
        pinned=row.pinned,
        removed=row.removed,
    )
