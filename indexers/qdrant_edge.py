"""Vectors in Qdrant Edge: the Qdrant engine in this process, one shard a generation.

Chunks are found by a plain scan: exact, and milliseconds up to some 50,000 chunks. A graph would
make every mark a rewrite and lose recall among superseded near-duplicates (qdrant/qdrant#7952),
so `optimize` is never called.
"""

import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Final

import qdrant_edge as edge

from contracts.errors import ConfigurationError, StoreUnavailable
from contracts.ids import OPEN_SEQ
from contracts.visibility import (
    Census,
    Hit,
    IndexedChunk,
    LegQuery,
    StoreWrite,
    View,
    is_visible,
)
from indexers.lanes import Lanes
from indexers.visibility import best, by_generation

MAX_IDS: Final = 1_000  # ids in one filter
MAX_POINTS: Final = 256  # points in one upsert
PAGE: Final = 10_000  # ids in one page of a scroll
FEW: Final = 64  # hidden points that are left out afterwards, not by a filter
ROOM: Final = 64 * 2**20  # bytes of free disk that a write asks for: segments grow by 32 MiB

_INTEGER: Final = edge.IntegerIndexParams(lookup=False, range=True, enable_hnsw=False)
_FIELDS: Final = (
    ("source_id", edge.KeywordIndexParams(is_tenant=True)),
    ("from_seq", _INTEGER),
    ("to_seq", _INTEGER),
)


class EdgeVectorStore:
    """The `vectors` leg under a folder: `<root>/g<generation>/` is a shard.

    Belongs to one process: the engine locks its shards. What `apply` has acknowledged is in the
    write-ahead log and flushed, so neither a kill nor the loss of power takes it back.

    Args:
        root: the folder; made when something is first written.
        dimension: of every vector.
    """

    def __init__(self, root: Path, dimension: int) -> None:
        self._root = root
        self._dimension = dimension
        self._shards: dict[int, edge.EdgeShard] = {}
        self._opening = threading.Lock()
        self._lanes = Lanes("vectors")

    @property
    def name(self) -> str:
        """The leg."""
        return "vectors"

    async def apply(self, write: StoreWrite) -> None:
        """Write and flush."""
        await self._lanes.write(lambda: self._apply(write))

    async def census(self, view: View) -> Census:
        """Ids by an indexed filter, page by page, and an exact count."""
        return await self._lanes.read(lambda: self._census(view))

    async def purge(self, view: View) -> None:
        """Take back everything that the sequence wrote."""
        operations = [
            edge.UpdateOperation.delete_points_by_filter(_opened(view)),
            edge.UpdateOperation.set_payload_by_filter(_closed(view), {"to_seq": OPEN_SEQ}),
        ]
        await self._lanes.write(lambda: self._update(view.generation, operations))

    async def retire(self, view: View) -> None:
        """Delete what was closed at or before the sequence."""
        dead = edge.Filter(must=[_source(view), _between("to_seq", lte=view.seq)])
        operations = [edge.UpdateOperation.delete_points_by_filter(dead)]
        await self._lanes.write(lambda: self._update(view.generation, operations))

    async def search(self, query: LegQuery) -> list[Hit]:
        """The true nearest by cosine, whether or not `exact` is asked for."""
        return await self._lanes.read(lambda: self._search(query))

    async def close(self) -> None:
        """Wait for what is being done, and unlock the shards."""
        await self._lanes.close(self._release)

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
        still_open = _between("to_seq", gte=OPEN_SEQ)
        closed_here = _between("to_seq", gte=view.seq, lte=view.seq)
        opened_here = _between("from_seq", gte=view.seq, lte=view.seq)
        operations += [
            edge.UpdateOperation.set_payload_by_filter(chosen, {"to_seq": view.seq})
            for chosen in _chosen(view, write.closes, still_open)
        ]
        operations += [
            edge.UpdateOperation.set_payload_by_filter(chosen, {"to_seq": OPEN_SEQ})
            for chosen in _chosen(view, write.reopens, closed_here)
        ]
        operations += [
            edge.UpdateOperation.delete_points_by_filter(chosen)
            for chosen in _chosen(view, write.removes, opened_here)
        ]
        self._update(view.generation, operations, create=bool(write.opens))

    def _update(
        self, generation: int, operations: Sequence[edge.UpdateOperation], *, create: bool = False
    ) -> None:
        shard = self._shard(generation, create=create)
        if shard is None:
            return
        self._check_room()
        with self._translated(generation):
            for operation in operations:
                shard.update(operation)
            shard.flush()

    def _census(self, view: View) -> Census:
        shard = self._shard(view.generation)
        if shard is None:
            return Census(frozenset(), frozenset(), 0)
        with self._translated(view.generation):
            visible = edge.CountRequest(exact=True, filter=_visible(view))
            return Census(
                opened=frozenset(_scroll(shard, _opened(view))),
                closed=frozenset(_scroll(shard, _closed(view))),
                visible=shard.count(visible),
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
            with self._translated(generation):
                few = _nearest_of_all(shard, views, vector, query) if len(views) == 1 else None
                hits += few if few is not None else _nearest(shard, views, vector, query)
        return best(hits, query.limit)

    def _shard(self, generation: int, *, create: bool = False) -> edge.EdgeShard | None:
        with self._opening:
            shard = self._shards.get(generation)
            if shard is not None:
                return shard
            path = self._root / f"g{generation}"
            with self._translated(generation):
                if not path.exists():
                    if not create:
                        return None
                    self._create(path)
                shard = edge.EdgeShard.load(str(path))
            self._shards[generation] = shard
            return shard

    def _check_room(self) -> None:
        # The engine maps its files: one that can't grow kills the process with SIGBUS.
        free = shutil.disk_usage(self._root).free
        if free < ROOM:
            raise StoreUnavailable(
                f"The vector store in {self._root} needs {ROOM // 2**20} MiB of free disk, and "
                f"there are {free // 2**20}: make room."
            )

    def _create(self, path: Path) -> None:
        # Made aside and renamed: a kill half-way must not leave a shard without its indexes,
        # which filters would answer a hundred times slower for ever.
        aside = path.with_name(f"{path.name}.new")
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        self._check_room()
        vectors = edge.EdgeVectorParams(size=self._dimension, distance=edge.Distance.Cosine)
        optimizers = edge.EdgeOptimizersConfig(indexing_threshold=0)
        config = edge.EdgeConfig(vectors=vectors, optimizers=optimizers)
        shard = edge.EdgeShard.create(str(aside), config)
        for field, schema in _FIELDS:
            shard.update(edge.UpdateOperation.create_field_index(field, schema))
        shard.flush()
        shard.close()
        aside.rename(path)

    def _release(self) -> None:
        with self._opening:
            for generation, shard in self._shards.items():
                with self._translated(generation):
                    shard.close()
            self._shards.clear()

    @contextmanager
    def _translated(self, generation: int) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # the engine raises plain Exception for everything
            path = self._root / f"g{generation}"
            raise _translation(path, str(error)) from error


def _translation(path: Path, message: str) -> ConfigurationError | StoreUnavailable:
    if "expected dim" in message:
        return ConfigurationError(
            f"The vector store in {path} is of another dimension than the embedder ({message}); "
            "choose the embedder that it was filled with, or another state folder."
        )
    if "WouldBlock" in message:
        return StoreUnavailable(
            f"The vector store in {path} is open in another process; "
            "stop that process, or go through its HTTP API."
        )
    return StoreUnavailable(
        f"The vector store in {path} failed: {message}. Look at the disk's free space and rights; "
        "if the store is damaged, delete that folder: the next start of the stack fills it again."
    )


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


def _between(
    field: str, *, gte: int | None = None, lte: int | None = None, gt: int | None = None
) -> edge.FieldCondition:
    # Sequences stay below 2^53, so the engine's floats keep them exactly.
    return edge.FieldCondition(field, range=edge.RangeFloat(gte=gte, lte=lte, gt=gt))


def _source(view: View) -> edge.FieldCondition:
    return edge.FieldCondition("source_id", match=edge.MatchValue(view.source_id))


def _opened(view: View) -> edge.Filter:
    return edge.Filter(must=[_source(view), _between("from_seq", gte=view.seq, lte=view.seq)])


def _closed(view: View) -> edge.Filter:
    return edge.Filter(must=[_source(view), _between("to_seq", gte=view.seq, lte=view.seq)])


def _hidden(view: View) -> "list[edge.FieldCondition | edge.Filter]":
    return [_between("from_seq", gt=view.seq), _between("to_seq", lte=view.seq)]


def _visible(view: View) -> edge.Filter:
    # What is hidden is little, and the engine finds it faster than what isn't.
    return edge.Filter(must=[_source(view)], must_not=_hidden(view))


def _nearest(
    shard: edge.EdgeShard, views: Sequence[View], vector: list[float], query: LegQuery
) -> list[Hit]:
    request = edge.QueryRequest(
        limit=query.limit,
        query=edge.Query.Nearest(vector),
        filter=_candidates(views, query.excluded),
        params=edge.SearchParams(exact=query.exact),
    )
    return [Hit(str(point.id), point.score) for point in shard.query(request)]


def _nearest_of_all(
    shard: edge.EdgeShard, views: Sequence[View], vector: list[float], query: LegQuery
) -> list[Hit] | None:
    """The same where nearly everything is visible, in half the time: what isn't is looked for
    among the nearest. None where that is too much, or where it left too little."""
    [view] = views
    hidden = _estimate(shard, edge.Filter(must_not=[_source(view)])) + _estimate(
        shard, edge.Filter(should=_hidden(view))
    )
    if hidden > FEW or query.excluded:
        return None
    asked = query.limit + hidden
    request = edge.QueryRequest(
        limit=asked,
        query=edge.Query.Nearest(vector),
        params=edge.SearchParams(exact=query.exact),
        with_payload=True,
    )
    found = shard.query(request)
    hits = [Hit(str(point.id), point.score) for point in found if _is_seen(view, point.payload)]
    if len(hits) < query.limit and len(found) == asked:
        return None
    return hits[: query.limit]


def _estimate(shard: edge.EdgeShard, chosen: edge.Filter) -> int:
    """How many points the indexes say that it chooses; exact where no deletions are pending."""
    return shard.count(edge.CountRequest(exact=False, filter=chosen))


def _is_seen(view: View, payload: Mapping[str, object] | None) -> bool:
    if payload is None or payload["source_id"] != view.source_id:
        return False
    return is_visible(int(str(payload["from_seq"])), int(str(payload["to_seq"])), view.seq)


def _candidates(views: Sequence[View], excluded: frozenset[str]) -> edge.Filter:
    # Not called without views: an empty list of alternatives would mean all.
    seen = _visible(views[0]) if len(views) == 1 else edge.Filter(should=[*map(_visible, views)])
    if not excluded:
        return seen
    return edge.Filter(must=[seen], must_not=[edge.HasIdCondition(set(excluded))])


def _chosen(
    view: View, chunk_ids: Sequence[str], condition: edge.FieldCondition
) -> Iterator[edge.Filter]:
    rest = iter(chunk_ids)
    # No ids is no operation: an empty list must never mean all (infiniflow/ragflow#6607).
    while part := set(islice(rest, MAX_IDS)):
        yield edge.Filter(must=[edge.HasIdCondition({*part}), _source(view), condition])


def _scroll(shard: edge.EdgeShard, chosen: edge.Filter) -> Iterator[str]:
    offset: edge.PointId | None = None
    while True:
        request = edge.ScrollRequest(
            offset=offset, limit=PAGE, filter=chosen, with_payload=False, with_vector=False
        )
        records, offset = shard.scroll(request)
        yield from (str(record.id) for record in records)
        if offset is None:
            return
