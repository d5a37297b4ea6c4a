"""Document versions, and the chunks that a document has open."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Row, bindparam, func, select, update

from contracts.documents import DocumentVersion
from contracts.ids import OPEN_SEQ
from contracts.runs import RunTicket
from contracts.visibility import View
from storage.catalog import schema
from storage.catalog.database import Database, slices
from storage.catalog.intervals import visible, visible_row


class Documents:
    """The port `DocumentCatalog`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def versions(self, view: View, doc_keys: Collection[str]) -> dict[str, DocumentVersion]:
        """The visible versions, by key."""
        table = schema.document_versions
        found: dict[str, DocumentVersion] = {}
        async with self._database.read() as connection:
            for keys in slices(list(doc_keys)):
                rows = await connection.execute(
                    select(table).where(visible_row(table, view), table.c.doc_key.in_(keys))
                )
                found.update({row.doc_key: _version(row) for row in rows})
        return found

    async def source_versions(
        self, view: View, after: str, until: str | None, limit: int
    ) -> dict[str, str]:
        """Keys with a visible version, ascending, and what their source calls it."""
        table = schema.document_versions
        statement = (
            select(table.c.doc_key, table.c.source_version)
            .where(visible_row(table, view), table.c.doc_key > after)
            .order_by(table.c.doc_key)
            .limit(limit)
        )
        if until is not None:
            statement = statement.where(table.c.doc_key <= until)
        async with self._database.read() as connection:
            return {row.doc_key: row.source_version for row in await connection.execute(statement)}

    async def open_chunk_keys(
        self, ticket: RunTicket, doc_keys: Collection[str]
    ) -> dict[str, dict[str, str]]:
        """Chunk keys that are open, or that this run closed or opened, with their text hash."""
        table = schema.chunks
        found: dict[str, dict[str, str]] = defaultdict(dict)
        async with self._database.read() as connection:
            for keys in slices(list(doc_keys)):
                rows = await connection.execute(
                    select(table.c.doc_key, table.c.chunk_key, table.c.text_hash).where(
                        table.c.source_id == ticket.source_id,
                        table.c.generation == ticket.generation,
                        table.c.doc_key.in_(keys),
                        table.c.to_seq.in_([OPEN_SEQ, ticket.seq]),
                    )
                )
                for row in rows:
                    found[row.doc_key][row.chunk_key] = row.text_hash
        return dict(found)

    async def observe(self, view: View, versions: Mapping[str, str]) -> None:
        """Note unchanged content at new source versions."""
        if not versions:
            return
        table = schema.document_versions
        statement = (
            update(table)
            .where(visible_row(table, view), table.c.doc_key == bindparam("observed_key"))
            .values(source_version=bindparam("observed_version"))
        )
        rows = [
            {"observed_key": key, "observed_version": version} for key, version in versions.items()
        ]
        async with self._database.write() as connection:
            await connection.execute(statement, rows)

    async def counts(self, view: View) -> tuple[int, int]:
        """Visible documents and visible chunks."""
        documents, chunks = schema.document_versions, schema.chunks
        async with self._database.read() as connection:
            return (
                await connection.scalar(
                    select(func.count()).select_from(documents).where(visible(documents, view))
                )
                or 0,
                await connection.scalar(
                    select(func.count())
                    .select_from(chunks)
                    .where(visible(chunks, view), chunks.c.unwanted.is_(False))
                )
                or 0,
            )

    async def has_documents(self, view: View) -> bool:
        """Whether any document is visible."""
        documents = schema.document_versions
        statement = select(documents.c.id).where(visible(documents, view)).limit(1)
        async with self._database.read() as connection:
            return await connection.scalar(statement) is not None


def _version(row: Row[Any]) -> DocumentVersion:
    return DocumentVersion(
        doc_key=row.doc_key,
        from_seq=row.from_seq,
        to_seq=row.to_seq,
        source_version=row.source_version,
        content_hash=row.content_hash,
        fingerprint=row.fingerprint,
        title=row.title,
        uri=row.uri,
        media_type=row.media_type,
        parser=row.parser,
        size=row.size,
        chunks=row.chunks,
    )
