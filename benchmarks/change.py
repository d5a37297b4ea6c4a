"""From a change event at the consumer to promoted and searchable, one document at a time."""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from contracts.documents import EmbeddingSpace, Vector, Vectors
from contracts.events import ChangeEvent, ChangeSignal, Operation
from contracts.ports import Embedder
from contracts.runs import RunState
from contracts.search import SearchQuestion
from contracts.sources import SourceConfig
from documents.embedders import open_embedder
from sluice.settings import Settings
from sluice.stack import Stack, running_stack
from sluice.telemetry import configure

SOURCE = "benchmark"
FILL_POLL = 0.25  # seconds between two looks at a first ingest
POLL = 0.01  # seconds between two looks at the pointer; closer ones take the CPU they time
FILL_BOUND = 1_800.0  # seconds for the first ingest
CHANGE_BOUND = 30.0  # seconds for one change
IDLE = 0.3  # seconds for the coordinator to be done with a run that has ended
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

    async def embed_passages(self, texts: Sequence[str]) -> Vectors:
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
    configure(os.environ.get("SLUICE_LOG_LEVEL", "error"), human=False)
    with tempfile.TemporaryDirectory(prefix="sluice-benchmark-") as folder:
        root = Path(folder) / "source"
        root.mkdir()
        write_corpus(root, options.docs)
        settings = Settings(state=Path(folder) / "state")
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


def write_corpus(root: Path, documents: int) -> None:
    """Markdown files of two chunks each."""
    for number in range(documents):
        (root / f"{number:05}.md").write_text(_text(number, "as it was first"))


def _text(number: int, state: str) -> str:
    filler = " ".join(f"measure{number * 31 % 997 + word}" for word in range(60))
    return (
        f"# Report {number}\n\nThe report numbered {number} describes {filler}.\n\n"
        f"## Findings of report {number}\n\nThe state of report{number} is {state}. {filler}\n"
    )


async def fill(stack: Stack, root: Path) -> float:
    """Add the source without its watcher hearing of it: the events of the benchmark are its own."""
    catalog = stack.wiring.catalog
    config = SourceConfig(
        source_id=SOURCE,
        kind="folder",
        container=str(root),
        quiet_period=0.0,
        max_delay=0.0,
        options={"watch": "no"},
    )
    await catalog.put_source(config, "benchmark")
    started = time.perf_counter()
    await stack.wiring.ports.orchestrator.signal_changed(SOURCE, ChangeSignal(crawl=True))
    async with asyncio.timeout(FILL_BOUND):
        while not (await catalog.pointers([SOURCE]))[SOURCE].seq:
            runs = await catalog.runs(SOURCE, limit=1)
            if runs and runs[0].state in {RunState.FAILED, RunState.REJECTED}:
                raise RuntimeError(f"the first ingest ended as {runs[0].state}: {runs[0].reason}")
            await asyncio.sleep(FILL_POLL)
    return time.perf_counter() - started


async def _change(stack: Stack, root: Path, number: int, documents: int) -> float:
    """Change one sentence; answers seconds until a search finds the new one."""
    document = number * 7919 % documents
    word = f"revised{number}of{document}"
    path = root / f"{document:05}.md"
    path.write_text(_text(document, word))
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
