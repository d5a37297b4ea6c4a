"""One suite for every search store: what the gate and the readers rely on."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest

from contracts.documents import Vector
from contracts.ids import OPEN_SEQ, chunk_id
from contracts.ports import SearchStore
from contracts.visibility import Hit, IndexedChunk, LegQuery, StoreWrite, View, is_visible
from indexers.memory import MemoryStore
from indexers.qdrant_edge import EdgeVectorStore
from indexers.sqlite_fts import FtsKeywordStore

DIMENSION = 8
WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath")


class ClosableStore(SearchStore, Protocol):
    async def close(self) -> None: ...


def build(kind: str, root: Path) -> ClosableStore:
    match kind:
        case "memory-vectors":
            return MemoryStore("vectors")
        case "memory-keywords":
            return MemoryStore("keywords")
        case "qdrant-edge":
            return EdgeVectorStore(root, DIMENSION)
        case _:
            return FtsKeywordStore(root)


KINDS = ("memory-vectors", "memory-keywords", "qdrant-edge", "sqlite-fts")


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ClosableStore]:
    built = build(request.param, tmp_path / "index")
    yield built
    await built.close()


def view(seq: int, source: str = "a", generation: int = 1) -> View:
    return View(source_id=source, generation=generation, seq=seq)


def unit(number: int) -> Vector:
    raw = np.random.default_rng(number).normal(size=DIMENSION).astype(np.float32)
    return (raw / np.linalg.norm(raw)).astype(np.float32)


def chunk(name: str, at: View, text: str = "amber shared", number: int = 0) -> IndexedChunk:
    return IndexedChunk(
        chunk_id=chunk_id(at.source_id, at.generation, "doc", name, at.seq),
        source_id=at.source_id,
        run_id=f"{at.source_id}.{at.seq}",
        generation=at.generation,
        from_seq=at.seq,
        text=text,
        vector=unit(number),
    )


def ids(chunks: Sequence[IndexedChunk]) -> frozenset[str]:
    return frozenset(one.chunk_id for one in chunks)


async def found(store: SearchStore, *views: View, excluded: Sequence[str] = ()) -> set[str]:
    """Everything that the store shows in the views: all test texts share one word."""
    query = LegQuery(
        views, 1_000, text="shared", vector=unit(0), excluded=frozenset(excluded), exact=True
    )
    return {hit.chunk_id for hit in await store.search(query)}


async def test_an_empty_store_answers_emptily(store: SearchStore) -> None:
    """A store that holds nothing answers every question and takes every command."""
    await store.purge(view(1))
    await store.retire(view(1))
    await store.apply(StoreWrite(view(1), closes=("00000000-0000-0000-0000-000000000000",)))
    census = await store.census(view(1))
    assert (census.opened, census.closed, census.visible) == (frozenset(), frozenset(), 0)
    assert await found(store, view(1)) == set()
    assert await found(store) == set()


async def test_what_apply_wrote_is_seen_at_once(store: SearchStore) -> None:
    """When `apply` returns, census and search show exactly what it wrote."""
    chunks = [chunk(str(number), view(1), number=number) for number in range(30)]
    await store.apply(StoreWrite(view(1), opens=tuple(chunks)))
    census = await store.census(view(1))
    assert census.opened == ids(chunks)
    assert census.closed == frozenset()
    assert census.visible == 30
    assert await found(store, view(1)) == ids(chunks)
    assert await found(store, view(0)) == set()


async def test_a_view_without_chunks_is_empty_beside_others(store: SearchStore) -> None:
    """No view at all shows nothing, even of a store that holds something."""
    await store.apply(StoreWrite(view(1), opens=(chunk("one", view(1)),)))
    assert await found(store) == set()


async def test_upserts_insert_only(store: SearchStore) -> None:
    """A chunk that is there keeps its closing mark when a late attempt opens it again."""
    old = chunk("one", view(1))
    await store.apply(StoreWrite(view(1), opens=(old,)))
    await store.apply(StoreWrite(view(2), closes=(old.chunk_id,)))
    await store.apply(StoreWrite(view(1), opens=(old,)))
    assert (await store.census(view(2))).closed == {old.chunk_id}
    assert await found(store, view(2)) == set()
    assert await found(store, view(1)) == {old.chunk_id}


async def test_marks_are_conditional_on_open(store: SearchStore) -> None:
    """A later close never overwrites an earlier one; a reopen needs the mark of its own run."""
    old = chunk("one", view(1))
    await store.apply(StoreWrite(view(1), opens=(old,)))
    await store.apply(StoreWrite(view(2), closes=(old.chunk_id,)))
    await store.apply(StoreWrite(view(3), closes=(old.chunk_id,)))
    assert (await store.census(view(3))).closed == frozenset()
    await store.apply(StoreWrite(view(3), reopens=(old.chunk_id,)))
    assert (await store.census(view(2))).closed == {old.chunk_id}
    await store.apply(StoreWrite(view(2), reopens=(old.chunk_id,)))
    assert (await store.census(view(2))).closed == frozenset()
    assert await found(store, view(9)) == {old.chunk_id}


async def test_removes_are_conditional_on_the_run_that_opened(store: SearchStore) -> None:
    """A run removes what it opened itself, and nothing else."""
    old, new = chunk("one", view(1)), chunk("two", view(2))
    await store.apply(StoreWrite(view(1), opens=(old,)))
    await store.apply(StoreWrite(view(2), opens=(new,), removes=(old.chunk_id,)))
    assert await found(store, view(2)) == {old.chunk_id, new.chunk_id}
    await store.apply(StoreWrite(view(2), removes=(new.chunk_id,)))
    assert await found(store, view(2)) == {old.chunk_id}


async def test_marks_keep_to_their_source(store: SearchStore) -> None:
    """A write of one source changes no chunk of another, whatever ids it names."""
    other = chunk("one", view(1, "b"))
    await store.apply(StoreWrite(view(1, "b"), opens=(other,)))
    named = (other.chunk_id,)
    await store.apply(StoreWrite(view(1), closes=named, reopens=named, removes=named))
    assert (await store.census(view(1, "b"))).opened == {other.chunk_id}
    assert await found(store, view(5, "b")) == {other.chunk_id}


async def test_more_ids_than_one_call_takes(store: SearchStore) -> None:
    """Marks, removals and purges of several thousand chunks miss none."""
    chunks = tuple(chunk(str(number), view(1)) for number in range(2_500))
    await store.apply(StoreWrite(view(1), opens=chunks))
    names = tuple(one.chunk_id for one in chunks)
    await store.apply(StoreWrite(view(2), closes=names))
    assert (await store.census(view(2))).closed == frozenset(names)
    await store.apply(StoreWrite(view(2), reopens=names[:1_500]))
    assert (await store.census(view(2))).visible == 1_500
    await store.apply(StoreWrite(view(1), removes=names[:1_200]))
    assert (await store.census(view(1))).visible == 1_300
    await store.purge(view(1))
    assert (await store.census(view(1))).opened == frozenset()


async def test_purge_takes_a_run_back(store: SearchStore) -> None:
    """After a purge a sequence has left nothing, and what it closed is open; twice is once."""
    old, new = chunk("one", view(1)), chunk("two", view(2))
    await store.apply(StoreWrite(view(1), opens=(old,)))
    await store.apply(StoreWrite(view(2), opens=(new,), closes=(old.chunk_id,)))
    for _ in range(2):
        await store.purge(view(2))
        census = await store.census(view(2))
        assert (census.opened, census.closed) == (frozenset(), frozenset())
        assert await found(store, view(2)) == {old.chunk_id}


async def test_retire_deletes_what_is_closed(store: SearchStore) -> None:
    """Retirement deletes what was closed at or before the sequence, and only that."""
    first, second, third = (chunk(name, view(1)) for name in ("one", "two", "three"))
    await store.apply(StoreWrite(view(1), opens=(first, second, third)))
    await store.apply(StoreWrite(view(2), closes=(first.chunk_id,)))
    await store.apply(StoreWrite(view(3), closes=(second.chunk_id,)))
    for _ in range(2):
        await store.retire(view(2))
        assert (await store.census(view(1))).opened == {second.chunk_id, third.chunk_id}
        assert (await store.census(view(3))).closed == {second.chunk_id}


async def test_every_write_is_idempotent(store: SearchStore) -> None:
    """A write that is applied three times leaves what it leaves once."""
    old, kept, new = (
        chunk("one", view(1)),
        chunk("two", view(1)),
        chunk("three", view(2)),
    )
    await store.apply(StoreWrite(view(1), opens=(old, kept)))
    write = StoreWrite(view(2), opens=(new,), closes=(old.chunk_id,), reopens=(kept.chunk_id,))
    for _ in range(3):
        await store.apply(write)
        census = await store.census(view(2))
        assert census.opened == {new.chunk_id}
        assert census.closed == {old.chunk_id}
        assert census.visible == 2


async def test_sources_and_generations_are_apart(store: SearchStore) -> None:
    """The same sequence number of another source or generation shows and loses nothing."""
    places = [view(1), view(1, "b"), view(1, "a", 2)]
    chunks = [chunk("one", place) for place in places]
    for place, one in zip(places, chunks, strict=True):
        await store.apply(StoreWrite(place, opens=(one,)))
    for place, one in zip(places, chunks, strict=True):
        assert (await store.census(place)).opened == {one.chunk_id}
        assert await found(store, place) == {one.chunk_id}
    await store.purge(view(1))
    await store.retire(view(OPEN_SEQ - 1))
    assert await found(store, *places) == ids(chunks[1:])


async def test_several_views_each_keep_their_sequence(store: SearchStore) -> None:
    """A query over several sources sees each at its own pinned sequence."""
    for source in ("a", "b", "c"):
        old, new = chunk("old", view(1, source)), chunk("new", view(2, source))
        await store.apply(StoreWrite(view(1, source), opens=(old,)))
        await store.apply(StoreWrite(view(2, source), opens=(new,), closes=(old.chunk_id,)))
    expected = {chunk("old", view(1, "a")).chunk_id, chunk("new", view(2, "b")).chunk_id}
    assert await found(store, view(1, "a"), view(2, "b")) == expected


async def test_excluded_ids_are_left_out(store: SearchStore) -> None:
    """A leg that asks again without some ids gets all the others."""
    chunks = [chunk(str(number), view(1), number=number) for number in range(10)]
    await store.apply(StoreWrite(view(1), opens=tuple(chunks)))
    excluded = [one.chunk_id for one in chunks[:4]]
    assert await found(store, view(1), excluded=excluded) == ids(chunks[4:])


async def test_hits_come_best_first(store: SearchStore) -> None:
    """Hits are ordered by score, ties by id, and there are at most as many as asked for."""
    generator = random.Random(7)
    chunks = [
        chunk(str(number), view(1), " ".join(generator.choices(WORDS, k=12)), number)
        for number in range(60)
    ]
    await store.apply(StoreWrite(view(1), opens=tuple(chunks)))
    hits = await store.search(LegQuery((view(1),), 7, text="cedar fjord", vector=unit(11)))
    assert len(hits) == 7
    assert hits == sorted(hits, key=lambda hit: (-hit.score, hit.chunk_id))
    if store.name == "vectors":
        assert hits[0].chunk_id == chunks[11].chunk_id
        assert hits[0].score == pytest.approx(1.0, abs=1e-5)
        reference = MemoryStore("vectors")
        await reference.apply(StoreWrite(view(1), opens=tuple(chunks)))
        expected = await reference.search(LegQuery((view(1),), 7, vector=unit(11)))
        assert [hit.chunk_id for hit in hits] == [hit.chunk_id for hit in expected]


async def test_random_histories_keep_to_the_rule(store: SearchStore) -> None:
    """Whatever runs, rejections and retirements came, each sequence shows `from <= n < to`."""
    generator = random.Random(20_260_101)
    model: dict[str, tuple[int, int]] = {}
    oldest = 0
    for seq in range(1, 25):
        here = view(seq)
        still_open = sorted(one for one, (_, to) in model.items() if to == OPEN_SEQ)
        closes = generator.sample(still_open, min(len(still_open), generator.randrange(6)))
        opens = [chunk(f"{seq}-{number}", here) for number in range(generator.randrange(8))]
        write = StoreWrite(here, opens=tuple(opens), closes=tuple(closes))
        for _ in range(generator.choice((1, 2))):
            await store.apply(write)
        if generator.random() < 0.3:
            await store.purge(here)
        else:
            model |= {one.chunk_id: (seq, OPEN_SEQ) for one in opens}
            model |= {one: (model[one][0], seq) for one in closes}
        if generator.random() < 0.2:
            oldest = generator.randint(oldest, seq)
            await store.retire(view(oldest))
            model = {one: interval for one, interval in model.items() if interval[1] > oldest}
        for asked in range(oldest, seq + 2):
            expected = {one for one, interval in model.items() if is_visible(*interval, asked)}
            assert await found(store, view(asked)) == expected
            census = await store.census(view(asked))
            assert census.visible == len(expected)
            assert census.opened == {one for one, (start, _) in model.items() if start == asked}
            assert census.closed == {one for one, (_, to) in model.items() if to == asked}


async def test_searches_go_on_while_a_run_is_written(store: SearchStore) -> None:
    """Searches beside a writing run answer, and see the pinned sequence only."""
    live = [chunk(str(number), view(1), number=number) for number in range(20)]
    await store.apply(StoreWrite(view(1), opens=tuple(live)))
    answers: list[set[str]] = []
    written = asyncio.Event()

    async def read() -> None:
        while not written.is_set():
            answers.append(await found(store, view(1)))
            await asyncio.sleep(0)

    async def write() -> None:
        for number in range(40):
            new = chunk(f"new-{number}", view(2), number=number)
            gone = live[number % 20].chunk_id
            await store.apply(StoreWrite(view(2), opens=(new,), closes=(gone,)))
            await asyncio.sleep(0)
        written.set()

    await asyncio.gather(read(), read(), write())
    assert len(answers) >= 2
    assert all(answer == ids(live) for answer in answers)
    assert (await store.census(view(2))).visible == 40


@pytest.mark.parametrize(
    ("text", "hit"),
    [
        ("Größe", True),
        ("grosse cafe", True),
        ("CAFÉ", True),
        ("東京", True),
        ("京", True),
        ("京東", False),
        ("東京の天気", True),
        ('"quoted" OR (NOT NEAR', False),
        ("err_4711", True),
        ("4711", True),
        ("C++ * ^ : -", False),
        ("🙂", False),
        ("", False),
        ("nul\x00byte \ud800", False),
    ],
)
@pytest.mark.parametrize("kind", ["memory-keywords", "sqlite-fts"])
async def test_any_text_is_a_legal_question(
    kind: str, text: str, hit: bool, tmp_path: Path
) -> None:
    """Quotes, operators, emoji, nothing at all, any language: a question never fails."""
    store = build(kind, tmp_path)
    only = chunk("one", view(1), "Im Café: Größe 42, err_4711; 私は東京都に住んでいます 🙂")
    await store.apply(StoreWrite(view(1), opens=(only,)))
    hits: list[Hit] = await store.search(LegQuery((view(1),), 5, text=text))
    await store.close()
    assert [one.chunk_id for one in hits] == ([only.chunk_id] if hit else [])
