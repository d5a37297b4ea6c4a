"""Search stores that have lost something are filled again from the packs, as the catalog says."""

import asyncio
from collections import defaultdict

import structlog

from activities.packs import AT_ONCE, held_chunks
from activities.ports import Ports
from contracts.ids import OPEN_SEQ
from contracts.ports import SearchStore
from contracts.visibility import HeldChunk, StoreWrite, View

log = structlog.get_logger(__name__)


async def recover_stores(ports: Ports) -> None:
    """Compare every store with the catalog at each live sequence, and fill those that differ.

    For the owner of the stores, before anything else works on them.

    Raises:
        StoreUnavailable: a store can't be read or written.
    """
    for record in await ports.catalog.sources():
        source_id = record.config.source_id
        pointer = (await ports.catalog.pointers([source_id]))[source_id]
        if not pointer.seq:
            continue
        for store in await behind(ports, pointer.view):
            await refill(ports, store, pointer.view)


async def behind(ports: Ports, view: View) -> list[SearchStore]:
    """The stores that don't hold at the sequence what the catalog says."""
    expected, *found = await asyncio.gather(
        ports.catalog.census(view), *(store.census(view) for store in ports.stores)
    )
    pairs = zip(ports.stores, found, strict=True)
    return [store for store, census in pairs if census != expected]


async def refill(ports: Ports, store: SearchStore, view: View) -> None:
    """Write everything that the sequences up to this one left in the index; what is there stays as
    it is, so a second time changes nothing."""
    log.warning(
        "a store has lost chunks: it is filled again", store=store.name, source=view.source_id
    )
    after: HeldChunk | None = None
    written = 0
    while page := await ports.catalog.held(view, after, AT_ONCE):
        await store.apply(StoreWrite(view, opens=await held_chunks(ports.objects, view, page)))
        for seq, chunk_ids in _closed(page).items():
            then = view.model_copy(update={"seq": seq})
            await store.apply(StoreWrite(then, closes=tuple(chunk_ids)))
        after = page[-1]
        written += len(page)
    log.warning("a store is filled", store=store.name, source=view.source_id, chunks=written)


def _closed(held: list[HeldChunk]) -> dict[int, list[str]]:
    closed: dict[int, list[str]] = defaultdict(list)
    for one in held:
        if one.to_seq != OPEN_SEQ:
            closed[one.to_seq].append(one.chunk.chunk_id)
    return closed
