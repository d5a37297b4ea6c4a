"""Chunks read back from their packs, as the stores take them."""

from collections import defaultdict
from collections.abc import Sequence

import structlog

from contracts.documents import PackedChunk
from contracts.errors import ObjectMissing
from contracts.ids import OPEN_SEQ
from contracts.ports import ObjectStore
from contracts.visibility import HeldChunk, IndexedChunk, OpenedChunk, View

log = structlog.get_logger(__name__)

AT_ONCE = 500  # chunks that are read from packs and written to a store
WHOLE_PACK = 8 * 1024 * 1024  # bytes; of a larger span only the ranges are read


async def held_chunks(
    objects: ObjectStore, view: View, held: Sequence[HeldChunk]
) -> tuple[IndexedChunk, ...]:
    """Chunks of several sequences, with text, vector and interval; those whose copy is gone or
    damaged are left out, and said."""
    by_pack: dict[str, list[OpenedChunk]] = defaultdict(list)
    for one in held:
        by_pack[one.chunk.address.pack].append(one.chunk)
    records: dict[str, PackedChunk] = {}
    for pack, members in by_pack.items():
        try:
            records.update(await _read(objects, pack, members))
        except (ObjectMissing, ValueError) as error:  # pydantic's ValidationError is a ValueError
            log.warning("a pack is lost", pack=pack, chunks=len(members), error=str(error))
    return tuple(
        _indexed(view, one, records[one.chunk.chunk_id])
        for one in held
        if one.chunk.chunk_id in records
    )


async def indexed_chunks(
    objects: ObjectStore, view: View, run_id: str, chunks: Sequence[OpenedChunk]
) -> tuple[IndexedChunk, ...]:
    """The chunks with text and vector, in the given order.

    Raises:
        ObjectMissing: a pack is gone.
    """
    by_pack: dict[str, list[OpenedChunk]] = defaultdict(list)
    for chunk in chunks:
        by_pack[chunk.address.pack].append(chunk)
    records: dict[str, PackedChunk] = {}
    for pack, members in by_pack.items():
        records.update(await _read(objects, pack, members))
    return tuple(
        _indexed(view, HeldChunk(chunk, run_id, view.seq, OPEN_SEQ), records[chunk.chunk_id])
        for chunk in chunks
    )


def _indexed(view: View, held: HeldChunk, record: PackedChunk) -> IndexedChunk:
    return IndexedChunk(
        chunk_id=held.chunk.chunk_id,
        source_id=view.source_id,
        run_id=held.run_id,
        generation=view.generation,
        from_seq=held.from_seq,
        to_seq=held.to_seq,
        text=record.prefix + record.body,
        vector=record.array(),
    )


async def _read(
    objects: ObjectStore, pack: str, chunks: Sequence[OpenedChunk]
) -> dict[str, PackedChunk]:
    start = min(chunk.address.offset for chunk in chunks)
    end = max(chunk.address.offset + chunk.address.length for chunk in chunks)
    if end - start <= WHOLE_PACK:
        data = await objects.get(pack, start, end - start)
        return {
            chunk.chunk_id: PackedChunk.decode(
                data[chunk.address.offset - start :][: chunk.address.length]
            )
            for chunk in chunks
        }
    return {
        chunk.chunk_id: PackedChunk.decode(
            await objects.get(pack, chunk.address.offset, chunk.address.length)
        )
        for chunk in chunks
    }
