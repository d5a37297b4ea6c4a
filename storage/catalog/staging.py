"""The intent of a run, committed before any store is written."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Row, Table, and_, delete, func, insert, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from contracts.documents import PackAddress, PreparedChunk, PreparedDocument
from contracts.errors import StageMismatch
from contracts.ids import OPEN_SEQ, chunk_id
from contracts.runs import RunTicket
from contracts.visibility import (
    Census,
    ChunkChange,
    HeldChunk,
    OpenedChunk,
    StageDelta,
    View,
)
from storage.catalog import schema
from storage.catalog.database import Database, slices
from storage.catalog.intervals import of_source, visible
from storage.catalog.tickets import check_ticket

Rows = list[dict[str, Any]]  # column values of one insert each


@dataclass
class _Change:
    """What staging some documents does to the tables, and to the stores."""

    opens: list[OpenedChunk] = field(default_factory=list)
    closes: list[str] = field(default_factory=list)
    reopens: list[str] = field(default_factory=list)
    removes: list[str] = field(default_factory=list)
    new_chunks: Rows = field(default_factory=list)
    wanted_again: list[str] = field(default_factory=list)
    layouts: dict[str, Rows] = field(default_factory=dict)  # by document key
    documents: dict[str, ChunkChange] = field(default_factory=dict)  # by document key

    def delta(self) -> StageDelta:
        """For the stores."""
        return StageDelta(
            opens=tuple(self.opens),
            closes=tuple(self.closes),
            reopens=tuple(self.reopens),
            removes=tuple(self.removes),
            documents=dict(self.documents),
        )


class Staging:
    """The port `StagingCatalog`.

    Args:
        database: where the rows are.
        late_writer: the longest that a writer of a fenced run may still write; after it the
            sequence is purged once more.
    """

    def __init__(self, database: Database, late_writer: timedelta) -> None:
        self._database = database
        self._late_writer = late_writer.total_seconds()

    async def stage(self, ticket: RunTicket, documents: Sequence[PreparedDocument]) -> StageDelta:
        """Reconcile and commit the intent; answers the whole delta of these documents."""
        keys = [document.doc_key for document in documents]
        async with self._database.write() as connection:
            await check_ticket(connection, ticket)
            present = await self._present(connection, ticket, keys)
            change = _Change()
            for document in documents:
                _reconcile(ticket, document, present[document.doc_key], change)
            await self._write_chunks(connection, ticket, change)
            await self._write_versions(connection, ticket, documents, change)
        return change.delta()

    async def _present(
        self, connection: AsyncConnection, ticket: RunTicket, keys: Sequence[str]
    ) -> dict[str, list[Row[Any]]]:
        """Chunks of the documents that are open, or that this run opened or closed."""
        table = schema.chunks
        present: dict[str, list[Row[Any]]] = defaultdict(list)
        for some in slices(keys):
            rows = await connection.execute(
                select(table).where(
                    table.c.source_id == ticket.source_id,
                    table.c.generation == ticket.generation,
                    table.c.doc_key.in_(some),
                    table.c.to_seq.in_([OPEN_SEQ, ticket.seq]),
                )
            )
            for row in rows:
                present[row.doc_key].append(row)
        return present

    async def _write_chunks(
        self, connection: AsyncConnection, ticket: RunTicket, change: _Change
    ) -> None:
        table = schema.chunks
        for rows in slices(change.new_chunks):
            await connection.execute(insert(table), list(rows))
        updates = (
            (change.closes, {"to_seq": ticket.seq}),
            (change.removes, {"unwanted": True}),
            (change.wanted_again, {"unwanted": False}),
        )
        for ids, values in updates:
            for some in slices(ids):
                await connection.execute(
                    update(table).where(table.c.chunk_id.in_(some)).values(values)
                )

    async def _write_versions(
        self,
        connection: AsyncConnection,
        ticket: RunTicket,
        documents: Sequence[PreparedDocument],
        change: _Change,
    ) -> None:
        """Close the versions before, replace what this run wrote earlier, write the new ones."""
        table = schema.document_versions
        for some in slices([document.doc_key for document in documents]):
            mine = and_(
                table.c.source_id == ticket.source_id,
                table.c.generation == ticket.generation,
                table.c.doc_key.in_(some),
            )
            await _delete_versions(connection, and_(mine, table.c.from_seq == ticket.seq))
            await connection.execute(
                update(table)
                .where(mine, table.c.from_seq < ticket.seq, table.c.to_seq == OPEN_SEQ)
                .values(to_seq=ticket.seq)
            )
        wanted = [document for document in documents if not document.deleted]
        if not wanted:
            return
        await connection.execute(insert(table), [_version(ticket, doc) for doc in wanted])
        ids = await self._version_ids(connection, ticket, [doc.doc_key for doc in wanted])
        entries = [
            {"document_version_id": ids[key], **entry}
            for key, rows in change.layouts.items()
            for entry in rows
        ]
        for rows in slices(entries):
            await connection.execute(insert(schema.layout), list(rows))

    async def _version_ids(
        self, connection: AsyncConnection, ticket: RunTicket, keys: Sequence[str]
    ) -> dict[str, int]:
        table = schema.document_versions
        ids: dict[str, int] = {}
        for some in slices(keys):
            rows = await connection.execute(
                select(table.c.doc_key, table.c.id).where(
                    table.c.source_id == ticket.source_id,
                    table.c.generation == ticket.generation,
                    table.c.from_seq == ticket.seq,
                    table.c.doc_key.in_(some),
                )
            )
            ids.update({row.doc_key: row.id for row in rows})
        return ids

    async def settle(self, ticket: RunTicket, delta: StageDelta) -> None:
        """Drop the removed rows, reopen the reopened ones."""
        if not delta.removes and not delta.reopens:
            return
        table = schema.chunks
        async with self._database.write() as connection:
            await check_ticket(connection, ticket)
            for ids in slices(delta.removes):
                await connection.execute(
                    delete(table).where(table.c.chunk_id.in_(ids), table.c.unwanted.is_(True))
                )
            for ids in slices(delta.reopens):
                await connection.execute(
                    update(table)
                    .where(table.c.chunk_id.in_(ids), table.c.to_seq == ticket.seq)
                    .values(to_seq=OPEN_SEQ)
                )

    async def staged(self, view: View) -> StageDelta:
        """All that a sequence has opened and closed."""
        table = schema.chunks
        async with self._database.read() as connection:
            opened = await connection.execute(select(table).where(_opened(view)))
            closed = await connection.scalars(select(table.c.chunk_id).where(_closed(view)))
            return StageDelta(opens=tuple(_chunk(row) for row in opened), closes=tuple(closed))

    async def census(self, view: View) -> Census:
        """What every store must hold of the source at the sequence."""
        table = schema.chunks
        async with self._database.read() as connection:
            opened = await connection.scalars(select(table.c.chunk_id).where(_opened(view)))
            closed = await connection.scalars(select(table.c.chunk_id).where(_closed(view)))
            # Only the open run has unwanted rows; without that column an index holds the rest.
            count = await connection.scalar(
                select(func.count()).select_from(table).where(visible(table, view))
            )
            unwanted = await connection.scalar(
                select(func.count())
                .select_from(table)
                .where(_from(table, view), table.c.unwanted.is_(True))
            )
            return Census(frozenset(opened), frozenset(closed), (count or 0) - (unwanted or 0))

    async def held(self, view: View, after: HeldChunk | None, limit: int) -> list[HeldChunk]:
        """Chunks of the sequences up to the view's, by pack and offset."""
        table = schema.chunks
        place = tuple_(table.c.pack, table.c.pack_offset, table.c.chunk_id)
        statement = (
            select(table)
            .where(of_source(table, view), table.c.from_seq <= view.seq)
            .order_by(table.c.pack, table.c.pack_offset, table.c.chunk_id)
            .limit(limit)
        )
        if after is not None:
            address = after.chunk.address
            statement = statement.where(
                place > tuple_(address.pack, address.offset, after.chunk.chunk_id)
            )
        async with self._database.read() as connection:
            rows = await connection.execute(statement)
            return [
                HeldChunk(
                    chunk=_chunk(row),
                    run_id=row.run_id,
                    from_seq=row.from_seq,
                    to_seq=row.to_seq if row.to_seq <= view.seq else OPEN_SEQ,
                )
                for row in rows
            ]

    async def forget(self, view: View, now: datetime) -> None:
        """Delete the sequence's rows, reopen what it closed, and owe one more purge. After the
        second purge, when its time has come, nothing is owed."""
        chunks, versions, purges = schema.chunks, schema.document_versions, schema.purges
        mine = and_(
            purges.c.source_id == view.source_id,
            purges.c.generation == view.generation,
            purges.c.seq == view.seq,
        )
        async with self._database.write() as connection:
            await connection.execute(delete(chunks).where(_from(chunks, view)))
            await connection.execute(update(chunks).where(_closed(view)).values(to_seq=OPEN_SEQ))
            await _delete_versions(connection, _from(versions, view))
            await connection.execute(
                update(versions)
                .where(of_source(versions, view), versions.c.to_seq == view.seq)
                .values(to_seq=OPEN_SEQ)
            )
            pins = schema.pins
            await connection.execute(
                delete(pins).where(pins.c.source_id == view.source_id, pins.c.seq == view.seq)
            )
            owed = (await connection.execute(select(purges).where(mine))).one_or_none()
            if owed is not None and not owed.first:
                # Done again before its time, as a repeated step does, it is still owed.
                over = purges.c.due_at <= now.timestamp()
                await connection.execute(delete(purges).where(mine, over))
                return
            again = now.timestamp() + self._late_writer
            statement = self._database.insert(purges).values(
                source_id=view.source_id,
                generation=view.generation,
                seq=view.seq,
                due_at=again,
                first=False,
            )
            await connection.execute(
                statement.on_conflict_do_update(
                    index_elements=["source_id", "generation", "seq"],
                    set_={"due_at": again, "first": False},
                )
            )


def _reconcile(
    ticket: RunTicket, document: PreparedDocument, present: Sequence[Row[Any]], change: _Change
) -> None:
    """Compare a document's layout with its chunks, and say what has to happen to each."""
    mine = {row.chunk_key: row for row in present if row.from_seq == ticket.seq}
    earlier = {row.chunk_key: row for row in present if row.from_seq < ticket.seq}
    entries: Rows = []
    wanted = set()
    for ordinal, chunk in enumerate(document.chunks):
        wanted.add(chunk.chunk_key)
        row = earlier.get(chunk.chunk_key)
        if row is not None:
            if row.to_seq == ticket.seq:
                change.reopens.append(row.chunk_id)
            name = row.chunk_id
        else:
            name = _open(ticket, document, chunk, mine.get(chunk.chunk_key), change)
        entries.append(_layout_entry(ordinal, name, chunk))
    change.layouts[document.doc_key] = entries
    kept = len(wanted & earlier.keys())
    change.documents[document.doc_key] = ChunkChange(
        added=len(wanted) - kept, kept=kept, removed=len(earlier) - kept
    )
    change.closes.extend(row.chunk_id for key, row in earlier.items() if key not in wanted)
    # A chunk of an earlier attempt that is wanted no more, or that turned out to be open already.
    change.removes.extend(
        row.chunk_id for key, row in mine.items() if key not in wanted or key in earlier
    )


def _open(
    ticket: RunTicket,
    document: PreparedDocument,
    chunk: PreparedChunk,
    row: Row[Any] | None,
    change: _Change,
) -> str:
    if row is not None:
        if row.unwanted:
            change.wanted_again.append(row.chunk_id)
        change.opens.append(_chunk(row))
        return str(row.chunk_id)
    if chunk.address is None:
        raise StageMismatch(
            f"chunk {chunk.chunk_key} of {document.doc_key} has no pack record and isn't open: "
            "the document was prepared against another state"
        )
    name = chunk_id(
        ticket.source_id, ticket.generation, document.doc_key, chunk.chunk_key, ticket.seq
    )
    change.opens.append(
        OpenedChunk(
            chunk_id=name,
            doc_key=document.doc_key,
            text_hash=chunk.text_hash,
            address=chunk.address,
        )
    )
    change.new_chunks.append(
        {
            "chunk_id": name,
            "source_id": ticket.source_id,
            "generation": ticket.generation,
            "doc_key": document.doc_key,
            "chunk_key": chunk.chunk_key,
            "run_id": ticket.run_id,
            "from_seq": ticket.seq,
            "to_seq": OPEN_SEQ,
            "text_hash": chunk.text_hash,
            "prefix_length": chunk.prefix_length,
            "tokens": chunk.tokens,
            "pack": chunk.address.pack,
            "pack_offset": chunk.address.offset,
            "pack_length": chunk.address.length,
            "unwanted": False,
        }
    )
    return name


def _layout_entry(ordinal: int, name: str, chunk: PreparedChunk) -> dict[str, Any]:
    return {
        "ordinal": ordinal,
        "chunk_id": name,
        "char_start": chunk.char_start,
        "char_end": chunk.char_end,
        "page_start": chunk.page_start,
        "page_end": chunk.page_end,
        "heading_path": list(chunk.heading_path),
    }


def _version(ticket: RunTicket, document: PreparedDocument) -> dict[str, Any]:
    return {
        "source_id": ticket.source_id,
        "generation": ticket.generation,
        "doc_key": document.doc_key,
        "from_seq": ticket.seq,
        "to_seq": OPEN_SEQ,
        "source_version": document.source_version,
        "content_hash": document.content_hash,
        "fingerprint": document.fingerprint,
        "title": document.title,
        "uri": document.uri,
        "media_type": document.media_type,
        "parser": document.parser,
        "size": document.size,
        "chunks": len(document.chunks),
    }


def _chunk(row: Row[Any]) -> OpenedChunk:
    address = PackAddress(pack=row.pack, offset=row.pack_offset, length=row.pack_length)
    return OpenedChunk(
        chunk_id=row.chunk_id, doc_key=row.doc_key, text_hash=row.text_hash, address=address
    )


def _from(table: Table, view: View) -> ColumnElement[bool]:
    return and_(of_source(table, view), table.c.from_seq == view.seq)


def _opened(view: View) -> ColumnElement[bool]:
    table = schema.chunks
    return and_(_from(table, view), table.c.unwanted.is_(False))


def _closed(view: View) -> ColumnElement[bool]:
    table = schema.chunks
    return and_(of_source(table, view), table.c.to_seq == view.seq)


async def _delete_versions(connection: AsyncConnection, which: ColumnElement[bool]) -> None:
    """Delete document versions with their layouts."""
    table, layout = schema.document_versions, schema.layout
    await connection.execute(
        delete(layout).where(layout.c.document_version_id.in_(select(table.c.id).where(which)))
    )
    await connection.execute(delete(table).where(which))
