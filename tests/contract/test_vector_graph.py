"""Large shards of the vector store: the graph that is built beside them, and its taking over."""

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
import qdrant_edge as edge

from contracts.documents import Vector
from contracts.visibility import IndexedChunk, LegQuery, StoreWrite, View
from indexers.qdrant_edge import EdgeVectorStore

DIMENSION = 256
MANY = 1_600  # chunks; 1,000 kB of vectors are worth a graph
BOUND = 60.0  # seconds
POLL = 0.02  # seconds


def view(seq: int, source_id: str = "s") -> View:
    return View(source_id=source_id, generation=1, seq=seq)


def vector(number: int) -> Vector:
    made = np.random.default_rng(number).standard_normal(DIMENSION).astype(np.float32)
    return made / np.float32(np.linalg.norm(made))


def chunk_id(number: int) -> str:
    return f"00000000-0000-0000-0000-{number:012}"


def chunks(numbers: range, seq: int) -> tuple[IndexedChunk, ...]:
    return tuple(
        IndexedChunk(chunk_id(number), "s", f"s.{seq}", 1, seq, "text", vector(number))
        for number in numbers
    )


@asynccontextmanager
async def store_at(root: Path) -> AsyncIterator[EdgeVectorStore]:
    store = EdgeVectorStore(root, DIMENSION, graph_from=1_000, quiet=0.0)
    try:
        yield store
    finally:
        await store.close()


async def until(name: str, root: Path, *, exists: bool) -> None:
    async with asyncio.timeout(BOUND):
        while (root / name).exists() is not exists:
            await asyncio.sleep(POLL)


async def built(root: Path) -> None:
    """Wait for a copy, and for its going."""
    await until("g1.graph", root, exists=True)
    await until("g1.graph", root, exists=False)


def indexed(root: Path) -> int:
    """Points in the graph of a closed store."""
    shard = edge.EdgeShard.load(str(root / "g1"))
    count = shard.info().indexed_vectors_count
    shard.close()
    return count


async def nearest(store: EdgeVectorStore, number: int, seq: int, limit: int = 10) -> list[str]:
    query = LegQuery((view(seq),), limit, vector=vector(number))
    return [hit.chunk_id for hit in await store.search(query)]


async def test_many_chunks_get_a_graph_and_the_same_answers(tmp_path: Path) -> None:
    """Nearly all of the true nearest are found through it, and it is still there after a start."""
    async with store_at(tmp_path) as store:
        await store.apply(StoreWrite(view(1), opens=chunks(range(MANY), 1)))
        await built(tmp_path)
        assert (await store.census(view(1))).visible == MANY
    assert indexed(tmp_path) >= MANY
    everything = np.stack([vector(number) for number in range(MANY)])
    async with store_at(tmp_path) as store:
        found = 0
        for question in range(10_000, 10_050):
            true = {chunk_id(int(n)) for n in np.argsort(-(everything @ vector(question)))[:10]}
            found += len(true & set(await nearest(store, question, 1)))
    assert found >= 0.98 * 500


async def test_what_is_written_while_a_graph_is_built_is_in_it(tmp_path: Path) -> None:
    """Additions, marks, removals and a purge; and a reader that never stops is never refused."""
    async with store_at(tmp_path) as store:
        await store.apply(StoreWrite(view(1), opens=chunks(range(MANY), 1)))
        await until("g1.graph", tmp_path, exists=True)
        write = StoreWrite(
            view(2), opens=chunks(range(MANY, MANY + 20), 2), closes=(chunk_id(0), chunk_id(1))
        )
        await store.apply(write)
        await store.apply(StoreWrite(view(2), removes=(chunk_id(MANY),), reopens=(chunk_id(1),)))
        await store.apply(StoreWrite(view(3), opens=chunks(range(9_000, 9_010), 3)))
        await store.purge(view(3))
        reads = 0
        while (tmp_path / "g1.graph").exists():
            assert await nearest(store, 5, 2, limit=1) == [chunk_id(5)]
            reads += 1
        assert reads
        census = await store.census(view(2))
        assert census.opened == {chunk_id(n) for n in range(MANY + 1, MANY + 20)}
        assert census.closed == {chunk_id(0)}
        assert census.visible == MANY - 1 + 19
        assert (await store.census(view(3))).opened == frozenset()
        assert await nearest(store, 0, 1, limit=1) == [chunk_id(0)]
        assert await nearest(store, 0, 2, limit=1) != [chunk_id(0)]
        assert await nearest(store, MANY + 5, 2, limit=1) == [chunk_id(MANY + 5)]
    assert indexed(tmp_path) > 0


async def test_a_builder_that_is_killed_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    """Vectors are scanned, nothing is lost, and it isn't tried again for the same chunks."""
    async with store_at(tmp_path) as store:
        await store.apply(StoreWrite(view(1), opens=chunks(range(MANY), 1)))
        async with asyncio.timeout(BOUND):
            while not (pids := _builders(tmp_path)):
                await asyncio.sleep(POLL)
        os.kill(pids[0], signal.SIGKILL)
        await until("g1.graph", tmp_path, exists=False)
        assert await nearest(store, 7, 1, limit=1) == [chunk_id(7)]
        await store.apply(StoreWrite(view(2), opens=chunks(range(MANY, MANY + 1), 2)))
        assert await nearest(store, MANY, 2, limit=1) == [chunk_id(MANY)]
        assert not _builders(tmp_path)
    assert indexed(tmp_path) == 0


def _builders(root: Path) -> list[int]:
    """Children that build a graph below the folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"indexers.edge_graph" in words and os.fsencode(root / "g1.graph") in words:
            found.append(int(entry.name))
    return found


@pytest.mark.parametrize("moment", ["while it is built", "between the two", "before the end"])
async def test_a_kill_at_any_moment_leaves_one_whole_shard(moment: str, tmp_path: Path) -> None:
    """Whichever folders a killed process has left, the next one opens the right one."""
    async with store_at(tmp_path) as store:
        await store.apply(StoreWrite(view(1), opens=chunks(range(5), 1)))
    shard = tmp_path / "g1"
    shutil.copytree(shard, tmp_path / "g1.graph")
    if moment == "between the two":
        shard.rename(tmp_path / "g1.old")
    elif moment == "before the end":
        shard.rename(tmp_path / "g1.old")
        (tmp_path / "g1.graph").rename(shard)
    async with store_at(tmp_path) as store:
        assert (await store.census(view(1))).visible == 5
    assert [path.name for path in tmp_path.iterdir()] == ["g1"]
