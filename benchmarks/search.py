"""Hybrid questions over a fixed mix of words, on a source that was ingested by the product."""

import argparse
import asyncio
import random
import statistics
import sys
import time
from itertools import accumulate
from pathlib import Path

import numpy as np

from benchmarks.corpus import IDLE, SOURCE, fill, workspace
from contracts.documents import EmbeddingSpace
from contracts.search import SearchQuestion
from contracts.visibility import HeldChunk, LegQuery, View
from documents import pipeline
from documents.parsers.parsed import Content
from indexers.qdrant_edge import EdgeVectorStore
from sluice.settings import Settings
from sluice.stack import Stack, running_stack

SEED = 20_261
SECTIONS = 10  # of one document
SAMPLE = 20  # documents that tell how many chunks one has
VOCABULARY = 30_000  # words, as frequent as in a language (Zipf)
WORDS = 70  # of one section, beside the stop words
STOP_WORDS = ("the", "of", "and", "to", "in", "is", "for", "that")
NEAREST = 10
GRAPH_BOUND = 600.0  # seconds
PAGE = 2_000  # chunks read at once for the true nearest


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark."""
    parser.add_argument("--chunks", type=int, default=50_000, help="chunks in the source")
    parser.add_argument("--questions", type=int, default=200, help="questions that are measured")


async def run(options: argparse.Namespace) -> dict[str, float | int | str]:
    """Fill a source, ask, and compare the vectors' leg with the true nearest."""
    rng = random.Random(SEED)  # noqa: S311 - the same corpus every time
    with workspace() as (root, state):
        write_corpus(root, options.chunks, rng)
        async with running_stack(Settings(state=state)) as stack:
            filled = await fill(stack, root)
            sys.stderr.write(f"{options.chunks} chunks ingested in {filled:.1f} s\n")
            await _graph(stack)
            view = await _live(stack)
            visible = await stack.wiring.catalog.visible([view], 2 * options.chunks)
            questions = [_question(number, rng) for number in range(options.questions)]
            times = [await _ask(stack, text) for text in questions[:NEAREST] + questions][NEAREST:]
            recall = await _recall(stack, view, questions)
            return {
                "benchmark": "search",
                "chunks": visible,
                "questions": len(questions),
                "p50_ms": round(statistics.median(times), 2),
                "p99_ms": round(statistics.quantiles(times, n=100)[98], 2),
                "recall_at_10": round(recall, 4),
                **{
                    f"p50_ms_{kind}": round(statistics.median(times[place :: len(KINDS)]), 2)
                    for place, kind in enumerate(KINDS)
                },
            }


def _word(rank: int) -> str:
    return f"w{rank:05}x"


class _Words:
    """Words by Zipf's law."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._ranks = range(1, VOCABULARY + 1)
        self._weights = list(accumulate(1 / rank for rank in self._ranks))

    def some(self, count: int) -> list[str]:
        ranks = self._rng.choices(self._ranks, cum_weights=self._weights, k=count)
        return [_word(rank) for rank in ranks]


def write_corpus(root: Path, chunks: int, rng: random.Random) -> None:
    """As many Markdown files as have about that many chunks."""
    words = _Words(rng)
    found, number = 0, 0
    while number < SAMPLE or found * number / SAMPLE < chunks:
        path = root / f"{number:06}.md"
        path.write_text(_document(number, words, rng))
        if number < SAMPLE:
            found += len(pipeline.chunk(Content(path, path.name, None)).chunks)
        number += 1


def _document(number: int, words: _Words, rng: random.Random) -> str:
    parts = [f"# Report {number}\n"]
    for section in range(SECTIONS):
        text = words.some(WORDS) + rng.choices(STOP_WORDS, k=WORDS // 3)
        rng.shuffle(text)
        parts.append(f"## Section {number} {section}\n\n{' '.join(text)}.\n")
    return "\n".join(parts)


def _rare(rng: random.Random) -> str:
    return " ".join(_word(rng.randint(8_000, VOCABULARY)) for _ in range(2))


def _mid(rng: random.Random) -> str:
    return " ".join(_word(rng.randint(200, 2_000)) for _ in range(3))


def _common(rng: random.Random) -> str:
    return " ".join(_word(rng.randint(3, 40)) for _ in range(2))


def _sentence(rng: random.Random) -> str:
    return f"what is the {_mid(rng)} of the {_rare(rng)} and {_common(rng)} in that"


KINDS = {"rare": _rare, "mid": _mid, "common": _common, "sentence": _sentence}


def _question(number: int, rng: random.Random) -> str:
    return list(KINDS.values())[number % len(KINDS)](rng)


async def _graph(stack: Stack) -> None:
    """Wait until the vectors' graph is in use."""
    started = time.perf_counter()
    [store] = [store for store in stack.wiring.ports.stores if isinstance(store, EdgeVectorStore)]
    async with asyncio.timeout(GRAPH_BOUND):
        while store.building:
            await asyncio.sleep(IDLE)
    await asyncio.sleep(IDLE)
    sys.stderr.write(f"the graph was in use after {time.perf_counter() - started:.1f} s\n")


async def _live(stack: Stack) -> View:
    return (await stack.wiring.catalog.pointers([SOURCE]))[SOURCE].view


async def _ask(stack: Stack, text: str) -> float:
    """Milliseconds of one question, texts read and all."""
    started = time.perf_counter()
    answer = await stack.wiring.search.ask(SearchQuestion(text=text, sources=(SOURCE,), limit=10))
    elapsed = time.perf_counter() - started
    if answer.incomplete or not answer.hits:
        raise RuntimeError(f"the answer to {text!r} is incomplete")
    return elapsed * 1_000


async def _recall(stack: Stack, view: View, questions: list[str]) -> float:
    """Of the true nearest, by a product over all vectors, the share that the leg finds."""
    ids, vectors = await _all_vectors(stack, view, stack.wiring.ports.embedder.space)
    [store] = [store for store in stack.wiring.ports.stores if store.name == "vectors"]
    found = 0
    for text in questions:
        vector = await stack.wiring.ports.embedder.embed_query(text)
        scores = vectors @ vector
        bound = np.sort(scores)[-NEAREST]
        hits = await store.search(LegQuery((view,), NEAREST, text=text, vector=vector))
        # Of equals any may be found; the engine rounds in the last places.
        found += sum(scores[ids[hit.chunk_id]] >= bound - 1e-5 for hit in hits)
    return found / (NEAREST * len(questions))


async def _all_vectors(
    stack: Stack, view: View, space: EmbeddingSpace
) -> tuple[dict[str, int], np.ndarray[tuple[int, int], np.dtype[np.float32]]]:
    """Places of all chunks, and their vectors, shape (chunks, dimension)."""
    catalog = stack.wiring.catalog
    ids: dict[str, int] = {}
    rows = []
    after: HeldChunk | None = None
    while page := await catalog.held(view, after, PAGE):
        known = await catalog.vectors(space, {one.chunk.text_hash for one in page})
        for one in page:
            ids[one.chunk.chunk_id] = len(ids)
            rows.append(known[one.chunk.text_hash])
        after = page[-1]
    return ids, np.stack(rows)
