"""The catalog as the judge of every hit."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Row, bindparam, func, select

from contracts.documents import Located, PackAddress
from contracts.visibility import View, is_visible
from storage.catalog import schema
from storage.catalog.database import Database, slices
from storage.catalog.intervals import visible

# The intervals are judged here: with them in the statement SQLite would walk every chunk of the
# source by an index on intervals, and look for the few ids among them. Both statements are built
# once: building one takes as long as executing it.
_JUDGED: Final = select(
    schema.chunks.c.chunk_id,
    schema.chunks.c.source_id,
    schema.chunks.c.generation,
    schema.chunks.c.from_seq,
    schema.chunks.c.to_seq,
).where(schema.chunks.c.chunk_id.in_(bindparam("ids", expanding=True)))
_LOCATED: Final = (
    select(
        schema.chunks,
        *(column for column in schema.layout.c if column.name != "chunk_id"),
        schema.document_versions.c.title,
        schema.document_versions.c.uri,
        schema.document_versions.c.source_version,
        schema.document_versions.c.from_seq.label("version_from"),
        schema.document_versions.c.to_seq.label("version_to"),
    )
    .select_from(
        schema.chunks.join(
            schema.layout, schema.layout.c.chunk_id == schema.chunks.c.chunk_id
        ).join(
            schema.document_versions,
            schema.document_versions.c.id == schema.layout.c.document_version_id,
        )
    )
    .where(schema.chunks.c.chunk_id.in_(bindparam("ids", expanding=True)))
)


class Readers:
    """The port `ReaderCatalog`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def judge(self, chunk_ids: Collection[str], views: Sequence[View]) -> set[str]:
        """The visible ones, found by their ids and judged here."""
        pinned = {(view.source_id, view.generation): view.seq for view in views}
        seen: set[str] = set()
        async with self._database.read() as connection:
            for some in slices(list(chunk_ids)):
                rows = await connection.execute(_JUDGED, {"ids": some})
                for chunk_id, source_id, generation, from_seq, to_seq in rows:
                    seq = pinned.get((source_id, generation))
                    if seq is not None and is_visible(from_seq, to_seq, seq):
                        seen.add(chunk_id)
        return seen

    async def locate(self, chunk_ids: Collection[str], views: Sequence[View]) -> dict[str, Located]:
        """The visible ones, as the layout of their document version shows them."""
        pinned = {(view.source_id, view.generation): view.seq for view in views}
        found: dict[str, Located] = {}
        async with self._database.read() as connection:
            for some in slices(list(chunk_ids)):
                rows = await connection.execute(_LOCATED, {"ids": some})
                found.update({row.chunk_id: _located(row) for row in rows if _seen(row, pinned)})
        return found

    async def visible(self, views: Sequence[View], limit: int) -> int:
        """Chunks visible in the views, counted up to the limit."""
        chunks = schema.chunks
        total = 0
        async with self._database.read() as connection:
            for view in views:
                some = select(chunks.c.from_seq).where(visible(chunks, view)).limit(limit - total)
                count = await connection.scalar(select(func.count()).select_from(some.subquery()))
                total += count or 0
                if total >= limit:
                    break
        return total


def _seen(row: Row[Any], pinned: Mapping[tuple[str, int], int]) -> bool:
    seq = pinned.get((row.source_id, row.generation))
    if seq is None:
        return False
    return is_visible(row.from_seq, row.to_seq, seq) and is_visible(
        row.version_from, row.version_to, seq
    )


def _located(row: Row[Any]) -> Located:
    return Located(
        chunk_id=row.chunk_id,
        source_id=row.source_id,
        doc_key=row.doc_key,
        run_id=row.run_id,
        from_seq=row.from_seq,
        version_seq=row.version_from,
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
