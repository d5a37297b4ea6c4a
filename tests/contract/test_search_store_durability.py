"""The embedded search stores when processes die, compete, or files are damaged."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from contracts.errors import ConfigurationError, StoreUnavailable
from contracts.ids import chunk_id
from contracts.visibility import IndexedChunk, LegQuery, StoreWrite, View
from indexers.qdrant_edge import EdgeVectorStore
from indexers.sqlite_fts import FtsKeywordStore

DIMENSION = 4
KINDS = ("qdrant-edge", "sqlite-fts")
LIMIT = 60  # seconds for a child process


def build(kind: str, root: Path) -> EdgeVectorStore | FtsKeywordStore:
    return EdgeVectorStore(root, DIMENSION) if kind == "qdrant-edge" else FtsKeywordStore(root)


def view(seq: int) -> View:
    return View(source_id="a", generation=1, seq=seq)


def chunks(count: int, seq: int = 1, dimension: int = DIMENSION) -> tuple[IndexedChunk, ...]:
    return tuple(
        IndexedChunk(
            chunk_id=chunk_id("a", 1, "doc", str(number), seq),
            source_id="a",
            run_id=f"a.{seq}",
            generation=1,
            from_seq=seq,
            text=f"shared number{number}",
            vector=np.full(dimension, dimension**-0.5, dtype=np.float32),
        )
        for number in range(count)
    )


def folder(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


async def write_two_runs(kind: str, root: Path) -> None:
    store = build(kind, root)
    old = chunks(50)
    await store.apply(StoreWrite(view(1), opens=old))
    closes = tuple(one.chunk_id for one in old[:20])
    await store.apply(StoreWrite(view(2), opens=chunks(30, 2), closes=closes))


DYING = """
import asyncio, importlib.util, os, pathlib, signal, sys
spec = importlib.util.spec_from_file_location("cases", sys.argv[1])
cases = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cases)
asyncio.run(cases.{step}(sys.argv[2], pathlib.Path(sys.argv[3])))
os.kill(os.getpid(), signal.SIGKILL)
"""


def run_child(step: str, kind: str, root: Path) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", DYING.format(step=step), __file__, kind, str(root)]
    return subprocess.run(program, capture_output=True, text=True, timeout=LIMIT, check=False)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_kill_takes_back_nothing_acknowledged(kind: str, tmp_path: Path) -> None:
    """A process that is killed when `apply` has returned leaves everything to the next one."""
    child = await asyncio.to_thread(run_child, "write_two_runs", kind, tmp_path)
    assert child.returncode == -signal.SIGKILL, child.stderr
    store = build(kind, tmp_path)
    census = await store.census(view(2))
    assert census.opened == {one.chunk_id for one in chunks(30, 2)}
    assert census.closed == {one.chunk_id for one in chunks(20)}
    assert census.visible == 60
    vector = np.full(DIMENSION, 0.5, dtype=np.float32)
    query = LegQuery((view(1),), 100, text="shared", vector=vector)
    assert {hit.chunk_id for hit in await store.search(query)} == {
        one.chunk_id for one in chunks(50)
    }
    await store.apply(StoreWrite(view(3), opens=chunks(1, 3)))
    assert (await store.census(view(3))).visible == 61
    await store.close()


async def write_until_killed(kind: str, root: Path) -> None:
    store = build(kind, root)
    for seq in range(1, 100_000):
        await store.apply(StoreWrite(view(seq), opens=chunks(3, seq)))
        sys.stdout.write(f"{seq}\n")
        sys.stdout.flush()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_kill_amid_writing_keeps_all_that_was_acknowledged(
    kind: str, tmp_path: Path
) -> None:
    """A process killed at any moment of a write loses none of the writes before it."""
    program = (sys.executable, "-c", DYING.format(step="write_until_killed"))
    child = await asyncio.create_subprocess_exec(
        *program, __file__, kind, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    async with asyncio.timeout(LIMIT):
        while int(await child.stdout.readline()) < 40:
            pass
        child.kill()
        rest, _ = await child.communicate()
    acknowledged = max([40, *map(int, rest.split())])
    store = build(kind, tmp_path)
    for seq in range(1, acknowledged + 1):
        assert (await store.census(view(seq))).opened == {one.chunk_id for one in chunks(3, seq)}
    await store.close()


async def open_beside(kind: str, root: Path) -> None:
    try:
        await build(kind, root).census(view(1))
    except StoreUnavailable as error:
        sys.stdout.write(f"{error}\n")


async def test_a_second_process_is_refused(tmp_path: Path) -> None:
    """A shard that another process holds is unavailable, in one sentence that says what to do."""
    store = EdgeVectorStore(tmp_path, DIMENSION)
    await store.apply(StoreWrite(view(1), opens=chunks(1)))
    child = await asyncio.to_thread(run_child, "open_beside", "qdrant-edge", tmp_path)
    assert "is open in another process; stop that process" in child.stdout
    assert len(child.stdout.splitlines()) == 1
    await store.close()


async def test_a_second_process_reads_the_keywords(tmp_path: Path) -> None:
    """The keyword file may be open in several places at once."""
    one, other = FtsKeywordStore(tmp_path), FtsKeywordStore(tmp_path)
    await one.apply(StoreWrite(view(1), opens=chunks(3)))
    await other.apply(StoreWrite(view(2), opens=chunks(2, 2)))
    assert (await one.census(view(2))).visible == 5
    await one.close()
    await other.close()


@pytest.mark.parametrize(
    ("kind", "victim"), [("qdrant-edge", "g1/edge_config.json"), ("sqlite-fts", "keywords.sqlite")]
)
async def test_a_damaged_store_says_so(kind: str, victim: str, tmp_path: Path) -> None:
    """A store whose files are damaged is unavailable, not wrong, and names its place."""
    store = build(kind, tmp_path)
    await store.apply(StoreWrite(view(1), opens=chunks(5)))
    await store.close()
    (tmp_path / victim).write_bytes(b"nothing that the engine understands" * 40)
    damaged = build(kind, tmp_path)
    with pytest.raises(StoreUnavailable, match=str(tmp_path)):
        await damaged.census(view(1))
    await damaged.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_folder_that_cannot_be_made_is_named(kind: str, tmp_path: Path) -> None:
    """Where the folder can't be made a write fails as unavailable, and names the place."""
    root = tmp_path / "taken"
    root.write_text("a file stands here")
    store = build(kind, root)
    with pytest.raises(StoreUnavailable, match=str(root)):
        await store.apply(StoreWrite(view(1), opens=chunks(1)))
    await store.close()


async def test_a_shard_begun_and_not_finished_is_made_anew(tmp_path: Path) -> None:
    """A kill while a shard is created leaves a folder that the next creation clears away."""
    (tmp_path / "g1.new" / "segments").mkdir(parents=True)
    (tmp_path / "g1.new" / "edge_config.json").write_text("{")
    store = EdgeVectorStore(tmp_path, DIMENSION)
    assert (await store.census(view(1))).visible == 0
    await store.apply(StoreWrite(view(1), opens=chunks(5)))
    assert (await store.census(view(1))).visible == 5
    assert folder(tmp_path) == ["g1"]
    await store.close()


async def test_a_vector_of_another_dimension_is_refused(tmp_path: Path) -> None:
    """Vectors that don't fit the store, or a store that doesn't fit the embedder, are named."""
    store = EdgeVectorStore(tmp_path, DIMENSION)
    with pytest.raises(ConfigurationError, match="dimension 4"):
        await store.apply(StoreWrite(view(1), opens=chunks(1, dimension=6)))
    await store.apply(StoreWrite(view(1), opens=chunks(1)))
    await store.close()
    larger = EdgeVectorStore(tmp_path, 6)
    with pytest.raises(ConfigurationError, match="another dimension"):
        await larger.apply(StoreWrite(view(2), opens=chunks(1, 2, dimension=6)))
    await larger.close()


async def test_the_full_text_index_agrees_with_its_rows(tmp_path: Path) -> None:
    """After inserts, marks, removals and purges FTS5 finds its index consistent."""
    store = FtsKeywordStore(tmp_path)
    old = chunks(30)
    await store.apply(StoreWrite(view(1), opens=old))
    await store.apply(StoreWrite(view(2), opens=chunks(9, 2), closes=(old[0].chunk_id,)))
    await store.apply(StoreWrite(view(1), removes=(old[1].chunk_id,)))
    await store.purge(view(2))
    await store.apply(StoreWrite(view(3), closes=(old[2].chunk_id,)))
    await store.retire(view(3))

    check = "INSERT INTO fts (fts, rank) VALUES ('integrity-check', 1)"
    await store._lanes.write(lambda: store._change(lambda writer: writer.execute(check).rowcount))
    hits = await store.search(LegQuery((view(3),), 100, text="shared"))
    assert len(hits) == 28
    await store.close()


async def test_common_words_are_left_out_while_rarer_ones_remain(tmp_path: Path) -> None:
    """In a large store a word of most chunks finds nothing beside a rare one, but alone it does."""
    store = FtsKeywordStore(tmp_path)
    await store.apply(StoreWrite(view(1), opens=chunks(1_200)))
    mixed = await store.search(LegQuery((view(1),), 5, text="the shared number7"))
    assert [hit.chunk_id for hit in mixed] == [chunks(8)[7].chunk_id]
    alone = await store.search(LegQuery((view(1),), 5, text="the shared"))
    assert len(alone) == 5
    await store.close()
