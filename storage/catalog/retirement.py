"""Housekeeping: withdrawn sequences, second purges, retirement."""

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, and_, case, delete, not_, select, update

from contracts.ports import Sweep
from contracts.visibility import View
from storage.catalog import schema
from storage.catalog.database import Database, slices
from storage.catalog.forgetting import forget_outcomes
from storage.catalog.intervals import of_source

KEPT_RUNS = 50  # newest runs of a source of which all outcomes are kept


class Retirement:
    """The port `RetirementCatalog`.

    Args:
        database: where the rows are.
        reader_grace: the longest that a reader may hold on to a sequence that became old.
    """

    def __init__(self, database: Database, reader_grace: timedelta) -> None:
        self._database = database
        self._grace = reader_grace.total_seconds()

    async def due_sweep(self, source_id: str, now: datetime) -> Sweep:
        """What is due, highest sequence first."""
        purges, pointer = schema.purges, schema.live_pointers
        time = now.timestamp()
        async with self._database.read() as connection:
            due = await connection.execute(
                select(purges)
                .where(purges.c.source_id == source_id, purges.c.due_at <= time)
                .order_by(purges.c.seq.desc())
            )
            views = tuple(
                View(source_id=source_id, generation=row.generation, seq=row.seq) for row in due
            )
            row = (
                await connection.execute(
                    select(pointer).where(
                        pointer.c.source_id == source_id, pointer.c.retire_at <= time
                    )
                )
            ).one_or_none()
        if row is None:
            return Sweep(views, None)
        seq = row.oldest_retained if row.retire_to is None else row.retire_to
        retire = View(source_id=source_id, generation=row.generation, seq=seq)
        return Sweep(views, retire)

    async def unreachable_packs(self, view: View) -> list[str]:
        """Packs of closed chunks, without those that another chunk is in."""
        chunks = schema.chunks
        gone = _closed(view)
        packs: list[str] = []
        async with self._database.read() as connection:
            named = await connection.scalars(select(chunks.c.pack).where(gone).distinct())
            for some in slices(named.all()):
                alive = set(
                    await connection.scalars(
                        select(chunks.c.pack).where(chunks.c.pack.in_(some), not_(gone)).distinct()
                    )
                )
                packs.extend(pack for pack in some if pack not in alive)
        return packs

    async def retire(self, view: View, now: datetime) -> None:
        """Delete the rows closed at or before the sequence. What has become old meanwhile has a
        grace of its own."""
        chunks, versions, pointer = schema.chunks, schema.document_versions, schema.live_pointers
        old = and_(of_source(versions, view), versions.c.to_seq <= view.seq)
        layout, pins = schema.layout, schema.pins
        again = pointer.c.oldest_retained > view.seq
        async with self._database.write() as connection:
            await connection.execute(delete(chunks).where(_closed(view)))
            await connection.execute(
                delete(layout).where(
                    layout.c.document_version_id.in_(select(versions.c.id).where(old))
                )
            )
            await connection.execute(delete(versions).where(old))
            await connection.execute(
                delete(pins).where(
                    pins.c.source_id == view.source_id, pins.c.seq < view.seq - KEPT_RUNS
                )
            )
            await forget_outcomes(connection, view, KEPT_RUNS)
            await connection.execute(
                update(pointer)
                .where(pointer.c.source_id == view.source_id)
                .values(
                    retired_to=view.seq,
                    retire_at=case((again, now.timestamp() + self._grace)),
                    retire_to=case((again, pointer.c.oldest_retained)),
                )
            )


def _closed(view: View) -> ColumnElement[bool]:
    chunks = schema.chunks
    return and_(of_source(chunks, view), chunks.c.to_seq <= view.seq)
