"""Hybrid search: pinned, judged by the catalog, and honest about what is missing."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

import indexers.search
from contracts.documents import (
    Bought,
    Chunk,
    EmbeddingSpace,
    Located,
    PackAddress,
    PackedChunk,
    Vector,
)
from contracts.errors import ConfigurationError, StoreUnavailable, UnknownSource
from contracts.ids import OPEN_SEQ, chunk_id, text_hash
from contracts.search import Fusion, SearchAnswer, SearchQuestion
from contracts.visibility import IndexedChunk, LivePointer, StoreWrite, View, is_visible
from indexers.memory import MemoryStore
from indexers.search import HybridSearch
from storage.objects.memory import MemoryObjects

DIMENSION = 16
PREFIX = "Guide > "


def vector_of(text: str) -> Vector:
    """A vector by the words of a text, so that texts with common words are near."""
    total = np.zeros(DIMENSION, dtype=np.float32)
    for word in text.lower().split():
        seed = int.from_bytes(word.encode()[:8], "big")
        total += np.random.default_rng(seed).normal(size=DIMENSION).astype(np.float32)
    return (total / np.linalg.norm(total)).astype(np.float32)


class WordEmbedder:
    def __init__(self) -> None:
        self.questions = 0

    @property
    def space(self) -> EmbeddingSpace:
        return EmbeddingSpace(name="words/1", dimension=DIMENSION)

    async def embed_passages(self, texts: Sequence[str]) -> Bought:
        return Bought(np.stack([vector_of(text) for text in texts]))

    async def embed_query(self, text: str) -> Vector:
        self.questions += 1
        return vector_of(text)

    async def close(self) -> None:
        return


@dataclass
class Row:
    place: Located
    generation: int
    to_seq: int = OPEN_SEQ


@dataclass
class Judge:
    """The reading part of a catalog, as a plain model; `on_judge` runs before each verdict."""

    pointer: dict[str, LivePointer] = field(default_factory=dict)
    rows: dict[str, Row] = field(default_factory=dict)
    on_judge: Callable[[], Awaitable[None]] | None = None

    async def pointers(self, source_ids: Collection[str]) -> dict[str, LivePointer]:
        if missing := set(source_ids) - set(self.pointer):
            raise UnknownSource(f"No source is called {missing}.")
        return {source_id: self.pointer[source_id] for source_id in source_ids}

    async def judge(self, chunk_ids: Collection[str], views: Sequence[View]) -> set[str]:
        if self.on_judge is not None:
            await self.on_judge()
        return set(await self.locate(chunk_ids, views))

    async def locate(self, chunk_ids: Collection[str], views: Sequence[View]) -> dict[str, Located]:
        return {
            one: self.rows[one].place
            for one in chunk_ids
            if one in self.rows and any(_shows(self.rows[one], view) for view in views)
        }

    async def visible(self, views: Sequence[View], limit: int) -> int:
        shown = sum(any(_shows(row, view) for view in views) for row in self.rows.values())
        return min(shown, limit)


def _shows(row: Row, view: View) -> bool:
    return (
        row.place.source_id == view.source_id
        and row.generation == view.generation
        and is_visible(row.place.from_seq, row.to_seq, view.seq)
    )


class World:
    """A small installation in memory: what the runs of a source wrote, and a search over it."""

    def __init__(self) -> None:
        self.judge = Judge()
        self.vectors = MemoryStore("vectors")
        self.keywords = MemoryStore("keywords")
        self.objects = MemoryObjects()
        self.embedder = WordEmbedder()
        self.search = HybridSearch(
            self.judge, self.vectors, self.keywords, self.embedder, self.objects
        )

    def point(
        self,
        seq: int,
        source: str = "a",
        *,
        generation: int = 1,
        oldest_retained: int = 0,
        open_seq: int | None = None,
    ) -> None:
        self.judge.pointer[source] = LivePointer(
            source_id=source,
            seq=seq,
            generation=generation,
            oldest_retained=oldest_retained,
            open_seq=open_seq,
        )

    async def write(
        self,
        seq: int,
        *bodies: str,
        source: str = "a",
        closes: Sequence[str] = (),
        stray: bool = False,
    ) -> list[str]:
        """A run: catalog, packs and stores. `stray` writes the stores only."""
        view = View(source_id=source, generation=1, seq=seq)
        opens = [self._indexed(body, view) for body in bodies]
        write = StoreWrite(view, opens=tuple(opens), closes=tuple(closes))
        await self.vectors.apply(write)
        await self.keywords.apply(write)
        if not stray:
            for chunk, body in zip(opens, bodies, strict=True):
                await self._record(chunk, body)
            for one in closes:
                self.judge.rows[one].to_seq = seq
        return [chunk.chunk_id for chunk in opens]

    async def ask(self, text: str, *sources: str, **fields: object) -> SearchAnswer:
        named = {"text": text, "sources": sources or ("a",), **fields}
        return await self.search.ask(SearchQuestion.model_validate(named))

    def _indexed(self, body: str, view: View) -> IndexedChunk:
        return IndexedChunk(
            chunk_id=chunk_id(view.source_id, 1, "doc", body, view.seq),
            source_id=view.source_id,
            run_id=f"{view.source_id}.{view.seq}",
            generation=1,
            from_seq=view.seq,
            text=PREFIX + body,
            vector=vector_of(body),
        )

    async def _record(self, chunk: IndexedChunk, body: str) -> None:
        content = Chunk(prefix=PREFIX, body=body, tokens=1, char_start=0, char_end=len(body))
        record = PackedChunk.of(content, chunk.vector).encode()
        await self.objects.put(chunk.chunk_id, b"#" + record)
        place = Located(
            chunk_id=chunk.chunk_id,
            source_id=chunk.source_id,
            doc_key="doc",
            run_id=chunk.run_id,
            from_seq=chunk.from_seq,
            text_hash=text_hash(chunk.text),
            prefix_length=len(PREFIX),
            address=PackAddress(pack=chunk.chunk_id, offset=1, length=len(record)),
        )
        self.judge.rows[chunk.chunk_id] = Row(place, 1)


def texts(answer: SearchAnswer) -> list[str]:
    return [hit.text for hit in answer.hits]


async def test_an_answer_shows_bodies_and_pinned_sequences() -> None:
    """The text is the body from the pack, with scores and ranks by leg, and the sequence."""
    world = World()
    await world.write(1, "red apple", "green pear", "blue plum")
    world.point(1)
    answer = await world.ask("red apple", limit=2)
    assert answer.hits[0].text == "red apple"
    assert answer.hits[0].ranks == {"vectors": 1, "keywords": 1}
    assert answer.hits[0].scores["vectors"] == pytest.approx(1.0, abs=1e-5)
    assert answer.hits[0].score == pytest.approx(1.0)
    assert len(answer.hits) == 2
    assert answer.pinned == {"a": 1}
    assert not answer.incomplete


async def test_reciprocal_ranks_on_request() -> None:
    """With RRF the first of both lists scores 2/61."""
    world = World()
    await world.write(1, "red apple", "green pear")
    world.point(1)
    answer = await world.ask("red apple", fusion=Fusion.RRF)
    assert answer.hits[0].score == pytest.approx(2 / 61)


async def test_each_sequence_shows_its_own_state() -> None:
    """Live, staged and retained sequences show what their runs left."""
    world = World()
    (old,) = await world.write(1, "old apple")
    await world.write(2, "new apple", closes=[old])
    world.point(1, open_seq=2)
    assert texts(await world.ask("apple")) == ["old apple"]
    preview = await world.ask("apple", at=2)
    assert texts(preview) == ["new apple"]
    assert preview.pinned == {"a": 2}
    world.point(2, oldest_retained=1)
    assert texts(await world.ask("apple")) == ["new apple"]
    assert texts(await world.ask("apple", at=1)) == ["old apple"]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"at": 7}, "neither staged now nor retained"),
        ({"at": 1}, "neither staged now nor retained"),
        ({"at": 0}, "neither staged now nor retained"),
        ({"at": 3, "sources": ("a", "b")}, "name exactly one"),
        ({"sources": ()}, "No source is named"),
        ({"text": " \n"}, "question is empty"),
    ],
)
async def test_questions_that_cannot_be_answered(fields: dict[str, object], sentence: str) -> None:
    """A sequence that isn't there, no source or no text is refused in one sentence."""
    world = World()
    world.point(3, oldest_retained=2)
    world.point(3, source="b")
    named = {"text": "apple", "sources": ("a",), **fields}
    with pytest.raises(ConfigurationError, match=sentence):
        await world.search.ask(SearchQuestion.model_validate(named))


async def test_an_unknown_source_is_named() -> None:
    """A source that isn't there is an error, not an empty answer."""
    with pytest.raises(UnknownSource):
        await World().ask("apple", "nowhere")


async def test_a_source_without_a_promotion_contributes_nothing() -> None:
    """Before the first promotion a source is empty, and others are not disturbed."""
    world = World()
    await world.write(1, "staged apple")
    await world.write(1, "live apple", source="b")
    world.point(0, open_seq=1)
    world.point(1, source="b")
    assert (await world.ask("apple")).pinned == {"a": 0}
    answer = await world.ask("apple", "a", "b", "a")
    assert texts(answer) == ["live apple"]
    assert answer.pinned == {"a": 0, "b": 1}
    assert not answer.incomplete


async def test_leftovers_change_nothing() -> None:
    """Chunks that only the stores hold are dropped, and the answer is that of clean stores."""
    clean, dirty = World(), World()
    bodies = [f"apple sort {number}" for number in range(40)]
    for world in (clean, dirty):
        await world.write(2, *bodies)
        world.point(2)
    await dirty.write(1, *[f"apple leftover {number}" for number in range(60)], stray=True)
    expected = await clean.ask("apple leftover", limit=4)
    answer = await dirty.ask("apple leftover", limit=4)
    assert len(answer.hits) == 4
    assert {hit.chunk.chunk_id for hit in answer.hits} <= set(dirty.judge.rows)
    vector_ranks = [hit.ranks.get("vectors") for hit in answer.hits]
    assert vector_ranks == [hit.ranks.get("vectors") for hit in expected.hits]
    assert not answer.incomplete


async def test_too_many_leftovers_are_admitted() -> None:
    """When leftovers crowd out what is visible even the third time, the answer says so."""
    world = World()
    await world.write(2, "quince", "medlar")
    await world.write(1, *[f"apple {number}" for number in range(60)], stray=True)
    world.point(2)
    answer = await world.ask("apple", limit=1)
    assert answer.incomplete
    assert answer.hits == ()


async def test_a_lost_point_is_admitted() -> None:
    """A vector store that shows fewer chunks than are visible makes the answer incomplete."""
    world = World()
    first, *_ = await world.write(1, "red apple", "green pear")
    world.point(1)
    here = View(source_id="a", generation=1, seq=1)
    await world.vectors.apply(StoreWrite(here, removes=(first,)))
    answer = await world.ask("apple", limit=2)
    assert answer.incomplete
    assert set(texts(answer)) == {"red apple", "green pear"}


async def test_few_keyword_matches_are_no_gap() -> None:
    """That few chunks, or none, hold a word of the question is no reason for doubt."""
    world = World()
    await world.write(1, "red apple", "green pear", "blue plum")
    world.point(1)
    answer = await world.ask("zebra", limit=3)
    assert len(answer.hits) == 3
    assert not answer.incomplete


async def test_a_leg_without_weight_is_not_asked() -> None:
    """Without dense weight only keyword matches come and nothing is embedded; and vice versa."""
    world = World()
    await world.write(1, "red apple", "green pear")
    world.point(1)
    assert texts(await world.ask("pear", dense_weight=0)) == ["green pear"]
    assert world.embedder.questions == 0
    dense = await world.ask("pear", dense_weight=1)
    assert all(set(hit.ranks) == {"vectors"} for hit in dense.hits)


@pytest.mark.parametrize("damage", ["missing", "other text", "torn"])
async def test_texts_that_do_not_fit_are_dropped(damage: str) -> None:
    """A chunk whose durable copy is missing or isn't what was indexed is not shown."""
    world = World()
    first, _ = await world.write(1, "red apple", "green pear")
    world.point(1)
    record = await world.objects.get(first)
    if damage == "missing":
        await world.objects.delete([first])
    elif damage == "torn":
        await world.objects.put(first, record[:20])
    else:
        await world.objects.put(first, record.replace(b"red", b"bad"))
    answer = await world.ask("apple", limit=2)
    assert texts(answer) == ["green pear"]
    assert answer.incomplete


async def test_a_rollback_under_a_question_starts_it_over() -> None:
    """A sequence withdrawn while it was read is never answered: the question is asked again."""
    world = World()
    (old,) = await world.write(1, "old apple")
    await world.write(2, "new apple", closes=[old])
    world.point(2, oldest_retained=1)

    async def roll_back() -> None:
        world.judge.on_judge = None
        world.point(1, oldest_retained=1)

    world.judge.on_judge = roll_back
    answer = await world.ask("apple")
    assert texts(answer) == ["old apple"]
    assert answer.pinned == {"a": 1}


@pytest.mark.parametrize(("generation", "oldest_retained"), [(1, 2), (2, 0)])
async def test_retirement_and_rebuild_start_a_question_over(
    generation: int, oldest_retained: int
) -> None:
    """A pinned sequence that is retired or left behind in an old generation is asked anew."""
    world = World()
    await world.write(1, "red apple")
    world.point(1)

    async def move() -> None:
        world.judge.on_judge = None
        world.point(2, generation=generation, oldest_retained=oldest_retained)

    world.judge.on_judge = move
    assert (await world.ask("apple")).pinned == {"a": 2}


async def test_a_promotion_under_a_question_changes_nothing() -> None:
    """A pinned sequence that stays retained is answered, though a newer one is live by now."""
    world = World()
    (old,) = await world.write(1, "old apple")
    world.point(1, open_seq=2)

    async def promote() -> None:
        world.judge.on_judge = None
        await world.write(2, "new apple", closes=[old])
        world.point(2, oldest_retained=1)

    world.judge.on_judge = promote
    answer = await world.ask("apple")
    assert texts(answer) == ["old apple"]
    assert answer.pinned == {"a": 1}


async def test_a_preview_that_is_rejected_meanwhile_is_refused() -> None:
    """A staged sequence whose run ends unpromoted while it is read is no answer."""
    world = World()
    await world.write(2, "staged apple")
    world.point(1, open_seq=2)

    async def reject() -> None:
        world.point(1)

    world.judge.on_judge = reject
    with pytest.raises(ConfigurationError, match="neither staged now nor retained"):
        await world.ask("apple", at=2)


async def test_sources_that_never_rest_are_an_error() -> None:
    """After a few repetitions the search gives up with a sentence."""
    world = World()
    await world.write(1, "red apple")
    world.point(1)
    moves = 0

    async def move() -> None:
        nonlocal moves
        moves += 1
        world.point(1, generation=moves + 1)

    world.judge.on_judge = move
    with pytest.raises(StoreUnavailable, match="moved under the search"):
        await world.ask("apple")


async def test_a_question_has_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that doesn't answer ends the question as unavailable."""
    monkeypatch.setattr(indexers.search, "QUERY_TIMEOUT", 0.05)
    world = World()
    await world.write(1, "red apple")
    world.point(1)

    async def hang() -> None:
        await asyncio.Event().wait()

    world.judge.on_judge = hang
    with pytest.raises(StoreUnavailable, match="took longer than"):
        await world.ask("apple")


async def test_random_dirt_never_makes_a_wrong_answer() -> None:
    """With strays, missing marks and late writers in the stores, every hit is visible."""
    generator = random.Random(4)
    words = ("apple", "pear", "plum", "quince", "medlar", "cherry")
    world = World()
    open_ids: list[str] = []
    for seq in range(1, 15):
        bodies = [f"{generator.choice(words)} {seq} {number}" for number in range(5)]
        closes = generator.sample(open_ids, min(len(open_ids), 2))
        opened = await world.write(seq, *bodies, closes=closes)
        open_ids = [one for one in open_ids if one not in closes] + opened
        dirt = [f"{generator.choice(words)} dirt {seq} {number}" for number in range(2)]
        await world.write(generator.randint(1, seq), *dirt, stray=True)
        here = View(source_id="a", generation=1, seq=seq)
        await world.vectors.apply(StoreWrite(here, reopens=tuple(closes[:1])))
        await world.keywords.apply(StoreWrite(here, reopens=tuple(closes[1:])))
        world.point(seq, oldest_retained=1)
        for at in range(1, seq + 1):
            answer = await world.ask(generator.choice(words), limit=6, at=at)
            view = View(source_id="a", generation=1, seq=at)
            assert answer.hits
            for hit in answer.hits:
                assert _shows(world.judge.rows[hit.chunk.chunk_id], view)
