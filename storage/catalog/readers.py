"""The catalog as the judge of every hit."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Row, and_, func, or_, select

from contracts.documents import Located, PackAddress
from contracts.visibility import View
from storage.catalog import schema
from storage.catalog.database import Database, slices
from storage.catalog.intervals import visible

VIEWS_PER_QUERY = 50  # sources of one statement


class Readers:
    """The port `ReaderCatalog`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def locate(self, chunk_ids: Collection[str], views: Sequence[View]) -> dict[str, Located]:
        """The visible ones, as the layout of their document version shows them."""
        chunks, versions, layout = schema.chunks, schema.document_versions, schema.layout
        joined = chunks.join(layout, layout.c.chunk_id == chunks.c.chunk_id).join(
            versions, versions.c.id == layout.c.document_version_id
        )
        found: dict[str, Located] = {}
        async with self._database.read() as connection:
            for some in slices(list(chunk_ids)):
                for seen in slices(list(views), VIEWS_PER_QUERY):
                    rows = await connection.execute(
                        select(
                            chunks,
                            *(c for c in layout.c if c.name != "chunk_id"),
                            versions.c.title,
                            versions.c.uri,
                            versions.c.source_version,
                        )
                        .select_from(joined)
                        .where(
                            chunks.c.chunk_id.in_(some),
                            or_(*(_seen(view) for view in seen)),
                        )
                    )
                    found.update({row.chunk_id: _located(row) for row in rows})
        return found

    async def visible(self, views: Sequence[View]) -> int:
        """Chunks visible in the views."""
        chunks = schema.chunks
        total = 0
        async with self._database.read() as connection:
            for view in views:
                count = await connection.scalar(
                    select(func.count()).select_from(chunks).where(visible(chunks, view))
                )
                total += count or 0
        return total


def _seen(view: View) -> Any:
    return and_(visible(schema.chunks, view), visible(schema.document_versions, view))


def _located(row: Row[Any]) -> Located:
    return Located(
        chunk_id=row.chunk_id,
        source_id=row.source_id,
        doc_key=row.doc_key,
        run_id=row.run_id,
        from_seq=row.from_seq,
        text_hash=row.text_hash,
        prefix_length=row.prefix_length,
        address=PackAddress(pack=row.pack, offset=row.pack_offset, length=row.pack_length),
        title=row.title,
        uri=row.uri,
        source_version=row.source_version,
        ordinal=row.ordinal,
        tokens=row.tokens,
        char_start=row.char_start,
        char_end=row.char_end,
        page_start=row.page_start,
        page_end=row.page_end,
        heading_path=tuple(row.heading_path),
    )
