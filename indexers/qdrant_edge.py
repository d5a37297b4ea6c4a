"""Vectors in Qdrant Edge: the Qdrant engine in this process, one shard a generation.

Few chunks are found by a plain scan: exact, and milliseconds. For many a graph is built, in a
child process and on a copy that then takes the shard's place, whenever a good part of the chunks
isn't in it. What marks have moved out of the graph is scanned.
"""

import asyncio
import contextlib
import threading
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import qdrant_edge as edge
import structlog

from contracts.errors import ConfigurationError, StoreUnavailable
from contracts.ids import OPEN_SEQ
from contracts.visibility import Census, Hit, IndexedChunk, LegQuery, StoreWrite, View
from indexers.edge_filters import (
    between,
    candidates,
    chosen,
    closed,
    closed_until,
    foreign,
    hidden,
    is_seen,
    of_source,
    opened,
    visible,
)
from indexers.edge_graph import SEARCH_WIDTH, build_graph
from indexers.edge_shard import Shard, translated
from indexers.lanes import Lanes
from indexers.visibility import best, by_generation

MAX_POINTS: Final = 256  # points in one upsert
PAGE: Final = 10_000  # ids in one page of a scroll
FEW: Final = 64  # hidden points that are left out afterwards, not by a filter
# A graph among near-duplicates that may not be returned finds fewer (qdrant/qdrant#7952).
MOST_DUPLICATES: Final = 0.05  # of a source's points; with more hidden ones a search is exact
GRAPH_FROM: Final = 20_000  # points without a graph; fewer are scanned in some 3 ms
GRAPH_SHARE: Final = 0.2  # of all points; with fewer outside, the graph isn't built anew
QUIET: Final = 5.0  # seconds without a write before a graph is begun

log = structlog.get_logger(__name__)


class EdgeVectorStore:
    """The `vectors` leg under a folder: `<root>/g<generation>/` is a shard.

    Belongs to one process: the engine locks its shards. What `apply` has acknowledged is in the
    write-ahead log and flushed, so neither a kill nor the loss of power takes it back.

    Args:
        root: the folder; made when something is first written.
        dimension: of every vector.
        graph_from: points without a graph beyond which one is built.
        quiet: seconds without a write before that.
    """

    def __init__(
        self, root: Path, dimension: int, *, graph_from: int = GRAPH_FROM, quiet: float = QUIET
    ) -> None:
        self._root = root
        self._dimension = dimension
        self._graph_from = graph_from
        self._quiet = quiet
        self._shards: dict[int, Shard] = {}
        self._opening = threading.Lock()
        self._lanes = Lanes("vectors")
        self._building: dict[int, asyncio.Task[None]] = {}
        self._written = asyncio.Event()

    @property
    def name(self) -> str:
        """The leg."""
        return "vectors"

    @property
    def building(self) -> bool:
        """Whether a graph is being built, or will be in the next quiet moment."""
        return bool(self._building)

    async def apply(self, write: StoreWrite) -> None:
        """Write and flush."""
        await self._lanes.write(lambda: self._apply(write))
        await self._consider_graph(write.view.generation)

    async def census(self, view: View) -> Census:
        """Ids by an indexed filter, page by page, and an exact count."""
        return await self._lanes.read(lambda: self._census(view))

    async def purge(self, view: View) -> None:
        """Take back everything that the sequence wrote."""
        operations = [
            edge.UpdateOperation.delete_points_by_filter(opened(view)),
            edge.UpdateOperation.set_payload_by_filter(closed(view), {"to_seq": OPEN_SEQ}),
        ]
        await self._lanes.write(lambda: self._update(view.generation, operations))

    async def retire(self, view: View) -> None:
        """Delete what was closed at or before the sequence."""
        operations = [edge.UpdateOperation.delete_points_by_filter(closed_until(view))]
        await self._lanes.write(lambda: self._update(view.generation, operations))

    async def search(self, query: LegQuery) -> list[Hit]:
        """The nearest by cosine; the true ones where `exact` is asked for or no graph is built."""
        return await self._lanes.read(lambda: self._search(query))

    async def close(self) -> None:
        """Give up what is being built, wait for what is being done, and unlock the shards."""
        for building in self._building.values():
            building.cancel()
        await asyncio.gather(*self._building.values(), return_exceptions=True)
        await self._lanes.close(self._release)

    # --- writes --------------------------------------------------------------------------------

    def _apply(self, write: StoreWrite) -> None:
        view = write.view
        for chunk in write.opens:
            if chunk.vector.shape != (self._dimension,):
                raise ConfigurationError(
                    f"A vector of shape {chunk.vector.shape} came to a store of dimension "
                    f"{self._dimension}; choose the embedder that it was filled with."
                )
        operations = [
            edge.UpdateOperation.upsert_points(
                [_point(chunk) for chunk in part], update_mode=edge.UpdateMode.InsertOnly
            )
            for part in _parts(write.opens, MAX_POINTS)
        ]
        still_open = between("to_seq", gte=OPEN_SEQ)
        closed_here = between("to_seq", gte=view.seq, lte=view.seq)
        opened_here = between("from_seq", gte=view.seq, lte=view.seq)
        operations += [
            edge.UpdateOperation.set_payload_by_filter(some, {"to_seq": view.seq})
            for some in chosen(view, write.closes, still_open)
        ]
        operations += [
            edge.UpdateOperation.set_payload_by_filter(some, {"to_seq": OPEN_SEQ})
            for some in chosen(view, write.reopens, closed_here)
        ]
        operations += [
            edge.UpdateOperation.delete_points_by_filter(some)
            for some in chosen(view, write.removes, opened_here)
        ]
        self._update(view.generation, operations, create=bool(write.opens))

    def _update(
        self, generation: int, operations: Sequence[edge.UpdateOperation], *, create: bool = False
    ) -> None:
        shard = self._shard(generation, create=create)
        if shard is not None:
            shard.update(operations)

    # --- reads ---------------------------------------------------------------------------------

    def _census(self, view: View) -> Census:
        shard = self._shard(view.generation)
        if shard is None:
            return Census(frozenset(), frozenset(), 0)
        with translated(shard.path):
            return Census(
                opened=frozenset(_scroll(shard.engine, opened(view))),
                closed=frozenset(_scroll(shard.engine, closed(view))),
                visible=shard.engine.count(edge.CountRequest(exact=True, filter=visible(view))),
            )

    def _search(self, query: LegQuery) -> list[Hit]:
        if query.vector is None or query.limit < 1:
            return []
        vector = [float(number) for number in query.vector]
        hits: list[Hit] = []
        for generation, views in by_generation(query.views).items():
            shard = self._shard(generation)
            if shard is None:
                continue
            with translated(shard.path):
                few = _nearest_of_all(shard.engine, views, vector, query)
                hits += few if few is not None else _nearest(shard.engine, views, vector, query)
        return best(hits, query.limit)

    def _shard(self, generation: int, *, create: bool = False) -> Shard | None:
        with self._opening:
            shard = self._shards.get(generation)
            path = self._root / f"g{generation}"
            if shard is None and (create or Shard.is_at(path)):
                shard = self._shards[generation] = Shard(path, self._dimension)
            return shard

    def _release(self) -> None:
        with self._opening:
            for shard in self._shards.values():
                shard.close()
            self._shards.clear()

    # --- the graph -----------------------------------------------------------------------------

    async def _consider_graph(self, generation: int) -> None:
        self._written.set()
        if generation in self._building:
            return
        if await self._lanes.read(lambda: self._needs_graph(generation)):
            task = asyncio.create_task(self._build(generation))
            self._building[generation] = task
            task.add_done_callback(lambda _: self._building.pop(generation, None))

    def _needs_graph(self, generation: int) -> bool:
        shard = self._shard(generation)
        if shard is None:
            return False
        with translated(shard.path):
            least = max(self._graph_from, GRAPH_SHARE * shard.points)
            return shard.unindexed > least

    async def _build(self, generation: int) -> None:
        """Copy in a quiet moment, build, and put the copy in the shard's place."""
        await self._quiet_moment()
        shard = await self._lanes.read(lambda: self._shard(generation))
        if shard is None:
            return
        try:
            copy = await self._lanes.write(shard.copy)
            log.info("a graph is being built", store=self.name, points=shard.points)
            await build_graph(copy, self._dimension)
            await self._lanes.write(shard.catch_up)
            await self._lanes.write_alone(shard.take_copy)
            log.info("a graph is in use", store=self.name, points=shard.points)
            self._graph_from = max(self._graph_from, 2 * shard.unindexed)
        except StoreUnavailable as error:
            log.warning("a graph was not built: vectors are scanned", error=str(error))
            # Not again for the same points.
            self._graph_from = 2 * max(self._graph_from, shard.points)
        finally:
            await self._lanes.write(shard.drop_copy)

    async def _quiet_moment(self) -> None:
        """Wait until nothing has been written for a while: a large run isn't slowed down."""
        with contextlib.suppress(TimeoutError):
            while True:
                self._written.clear()
                async with asyncio.timeout(self._quiet):
                    await self._written.wait()


def _point(chunk: IndexedChunk) -> edge.Point:
    payload = {
        "source_id": chunk.source_id,
        "run_id": chunk.run_id,
        "generation": chunk.generation,
        "from_seq": chunk.from_seq,
        "to_seq": chunk.to_seq,
    }
    return edge.Point(chunk.chunk_id, [float(number) for number in chunk.vector], payload)


def _parts(chunks: Sequence[IndexedChunk], size: int) -> Iterator[list[IndexedChunk]]:
    rest = iter(chunks)
    while part := list(islice(rest, size)):
        yield part


def _nearest(
    shard: edge.EdgeShard, views: Sequence[View], vector: list[float], query: LegQuery
) -> list[Hit]:
    duplicates = sum(_estimate(shard, hidden(view)) for view in views)
    held = sum(_estimate(shard, of_source(view)) for view in views)
    exact = query.exact or duplicates > MOST_DUPLICATES * held
    request = edge.QueryRequest(
        limit=query.limit,
        query=edge.Query.Nearest(vector),
        filter=candidates(views, query.excluded),
        params=edge.SearchParams(exact=exact, hnsw_ef=SEARCH_WIDTH),
    )
    return [Hit(str(point.id), point.score) for point in shard.query(request)]


def _nearest_of_all(
    shard: edge.EdgeShard, views: Sequence[View], vector: list[float], query: LegQuery
) -> list[Hit] | None:
    """The same where nearly everything is visible, in half the time: what isn't is looked for
    among the nearest. None where that is too much, or where it left too little."""
    if len(views) > 1 or query.excluded:
        return None
    [view] = views
    unwanted = _estimate(shard, foreign(view)) + _estimate(shard, hidden(view))
    if unwanted > FEW:
        return None
    asked = query.limit + unwanted
    request = edge.QueryRequest(
        limit=asked,
        query=edge.Query.Nearest(vector),
        params=edge.SearchParams(exact=query.exact, hnsw_ef=SEARCH_WIDTH),
        with_payload=True,
    )
    found = shard.query(request)
    hits = [Hit(str(point.id), point.score) for point in found if is_seen(view, point.payload)]
    if len(hits) < query.limit and len(found) == asked:
        return None
    return hits[: query.limit]


def _estimate(shard: edge.EdgeShard, some: edge.Filter) -> int:
    """How many points the indexes say that it chooses, without a look at them."""
    return shard.count(edge.CountRequest(exact=False, filter=some))


def _scroll(shard: edge.EdgeShard, some: edge.Filter) -> Iterator[str]:
    offset: edge.PointId | None = None
    while True:
        request = edge.ScrollRequest(
            offset=offset, limit=PAGE, filter=some, with_payload=False, with_vector=False
        )
        records, offset = shard.scroll(request)
        yield from (str(record.id) for record in records)
        if offset is None:
            return
