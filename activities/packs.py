"""Chunks read back from their packs, as the stores take them."""

from collections import defaultdict
from collections.abc import Sequence

from contracts.documents import PackedChunk
from contracts.ports import ObjectStore
from contracts.visibility import IndexedChunk, OpenedChunk, View

WHOLE_PACK = 8 * 1024 * 1024  # bytes; of a larger span only the ranges are read


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
        IndexedChunk(
            chunk_id=chunk.chunk_id,
            source_id=view.source_id,
            run_id=run_id,
            generation=view.generation,
            from_seq=view.seq,
            text=records[chunk.chunk_id].prefix + records[chunk.chunk_id].body,
            vector=records[chunk.chunk_id].array(),
        )
        for chunk in chunks
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
