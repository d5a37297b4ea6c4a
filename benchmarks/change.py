"""From a change event at the consumer to promoted and searchable, one document at a time."""

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.corpus import IDLE, SOURCE, fill, report, workspace, write_reports
from contracts.documents import Bought, EmbeddingSpace, Vector
from contracts.events import ChangeEvent, Operation
from contracts.ports import Embedder
from contracts.search import SearchQuestion
from documents.embedders import open_embedder
from sluice.settings import Settings
from sluice.stack import Stack, running_stack

POLL = 0.01  # seconds between two looks at the pointer; closer ones take the CPU they time
CHANGE_BOUND = 30.0  # seconds for one change
WARM_UP = 5  # changes that aren't counted: workers, caches, children start


class CountingEmbedder:
    """An embedder that counts the passages that are bought from it."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self.bought = 0

    @property
    def space(self) -> EmbeddingSpace:
        """The inner one's."""
        return self._inner.space

    def split(self, texts: Sequence[str]) -> list[Sequence[str]]:
        """As the inner one does."""
        return self._inner.split(texts)

    async def embed_passages(self, texts: Sequence[str]) -> Bought:
        """Count and pass on."""
        self.bought += len(texts)
        return await self._inner.embed_passages(texts)

    async def embed_query(self, text: str) -> Vector:
        """Pass on."""
        return await self._inner.embed_query(text)

    async def close(self) -> None:
        """Pass on."""
        await self._inner.close()


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark."""
    parser.add_argument("--docs", type=int, default=2_000, help="documents in the source")
    parser.add_argument("--changes", type=int, default=60, help="changes that are measured")


async def run(options: argparse.Namespace) -> dict[str, float | int | str]:
    """Fill a source, then change one chunk of one document again and again."""
    with workspace() as (root, state):
        write_reports(root, options.docs)
        settings = Settings(state=state)
        embedder = CountingEmbedder(open_embedder(settings.embedder))
        async with running_stack(settings, embedder=embedder) as stack:
            filled = await fill(stack, root)
            _say(f"{options.docs} documents ingested in {filled:.1f} s")
            times, bought = [], 0
            for number in range(options.changes + WARM_UP):
                before = embedder.bought
                elapsed = await _change(stack, root, number, options.docs)
                if number >= WARM_UP:
                    times.append(elapsed * 1_000)
                    bought += embedder.bought - before
            return {
                "benchmark": "change",
                "docs": options.docs,
                "changes": options.changes,
                "p50_ms": round(statistics.median(times), 1),
                "p99_ms": round(statistics.quantiles(times, n=100)[98], 1),
                "min_ms": round(min(times), 1),
                "embeddings": bought / options.changes,
                "fill_s": round(filled, 1),
            }


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


async def _change(stack: Stack, root: Path, number: int, documents: int) -> float:
    """Change one sentence; answers seconds until a search finds the new one."""
    document = number * 7919 % documents
    word = f"revised{number}of{document}"
    path = root / f"{document:05}.md"
    path.write_text(report(document, word))
    event = ChangeEvent(origin="folder", op=Operation.CREATED, bucket=str(root), key=path.name)
    catalog = stack.wiring.catalog
    base = (await catalog.pointers([SOURCE]))[SOURCE].seq
    started = time.perf_counter()
    await stack.bridge.take_events([event])
    async with asyncio.timeout(CHANGE_BOUND):
        while (await catalog.pointers([SOURCE]))[SOURCE].seq == base:
            await asyncio.sleep(POLL)
        answer = await stack.wiring.search.ask(
            SearchQuestion(text=word, sources=(SOURCE,), limit=5)
        )
    elapsed = time.perf_counter() - started
    if not any(word in hit.text for hit in answer.hits):
        raise RuntimeError(f"{word} was promoted and isn't found")
    await _settled(stack)
    return elapsed


async def _settled(stack: Stack) -> None:
    """Wait until the run has ended and its coordinator is done with it: each change finds an idle
    source."""
    name = f"source/{SOURCE}/run/{(await stack.wiring.catalog.pointers([SOURCE]))[SOURCE].seq}"
    while await stack.wiring.ports.orchestrator.is_running(name):
        await asyncio.sleep(POLL)
    await asyncio.sleep(IDLE)
