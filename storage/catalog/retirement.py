"""Housekeeping: withdrawn sequences, second purges, retirement."""

from datetime import datetime

from sqlalchemy import and_, delete, select, update

from contracts.ports import Sweep
from contracts.visibility import View
from storage.catalog import schema
from storage.catalog.database import Database, slices
from storage.catalog.intervals import of_source

KEPT_RUNS = 50  # newest runs whose outcomes by document are kept


class Retirement:
    """The port `RetirementCatalog`."""

    def __init__(self, database: Database) -> None:
        self._database = database

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
        retire = View(source_id=source_id, generation=row.generation, seq=row.oldest_retained)
        return Sweep(views, retire)

    async def retire(self, view: View) -> list[str]:
        """Delete the rows closed at or before the sequence; answers packs without a chunk."""
        chunks, versions, pointer = schema.chunks, schema.document_versions, schema.live_pointers
        gone = and_(of_source(chunks, view), chunks.c.to_seq <= view.seq)
        old = and_(of_source(versions, view), versions.c.to_seq <= view.seq)
        layout = schema.layout
        async with self._database.write() as connection:
            packs = list(await connection.scalars(select(chunks.c.pack).where(gone).distinct()))
            await connection.execute(delete(chunks).where(gone))
            await connection.execute(
                delete(layout).where(
                    layout.c.document_version_id.in_(select(versions.c.id).where(old))
                )
            )
            await connection.execute(delete(versions).where(old))
            for table in (schema.outcomes, schema.pins):
                await connection.execute(
                    delete(table).where(
                        table.c.source_id == view.source_id, table.c.seq < view.seq - KEPT_RUNS
                    )
                )
            alive: set[str] = set()
            for some in slices(packs):
                alive.update(
                    await connection.scalars(
                        select(chunks.c.pack).where(chunks.c.pack.in_(some)).distinct()
                    )
                )
            await connection.execute(
                update(pointer)
                .where(pointer.c.source_id == view.source_id, pointer.c.oldest_retained == view.seq)
                .values(retired_to=view.seq, retire_at=None)
            )
        return [pack for pack in packs if pack not in alive]
