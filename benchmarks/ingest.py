"""A first ingest of generated Markdown files, beside the least that plain Python needs for it."""

import argparse
import asyncio
import hashlib
import sqlite3
import time
from pathlib import Path

from benchmarks.corpus import SOURCE, fill, workspace, write_reports
from benchmarks.processes import Usage, watched
from documents import pipeline, tokens
from documents.embedders.hashing import hashed
from documents.parsers.parsed import Content
from sluice.settings import Settings
from sluice.stack import running_stack

MEBIBYTE = 2**20


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark."""
    parser.add_argument("--docs", type=int, default=10_000, help="files, of two sections each")


async def run(options: argparse.Namespace) -> dict[str, float | int | str]:
    """The floor, then the product, on the same files."""
    with workspace() as (root, state):
        write_reports(root, options.docs)
        floor = await asyncio.to_thread(_floor, root, state.with_name("floor.sqlite"))
        seconds, usage = await _product(root, state, options.docs)
    docs_per_s, floor_docs_per_s = options.docs / seconds, options.docs / floor
    return {
        "benchmark": "ingest",
        "docs": options.docs,
        "docs_per_s": round(docs_per_s, 1),
        "floor_docs_per_s": round(floor_docs_per_s, 1),
        "ratio": round(docs_per_s / floor_docs_per_s, 3),
        "cpu_s_per_1000": round(usage.cpu / options.docs * 1_000, 2),
        "own_cpu_s_per_1000": round(usage.own_cpu / options.docs * 1_000, 2),
        "peak_rss_mb": round(usage.own_peak / MEBIBYTE),
        **{
            f"peak_rss_mb_{name}": round(peak / MEBIBYTE)
            for name, peak in sorted(usage.child_peaks.items())
        },
    }


async def _product(root: Path, state: Path, documents: int) -> tuple[float, Usage]:
    settings = Settings(state=state, embedder="hashing")
    async with running_stack(settings) as stack, watched() as usage:
        seconds = await fill(stack, root)
        [first] = await stack.wiring.catalog.runs(SOURCE, 1)
        if first.counts.changed != documents:
            raise RuntimeError(f"{first.counts} of {documents} documents")
        return seconds, usage


def _floor(root: Path, database: Path) -> float:
    """Seconds for walk, hash, chunk, embed, and one SQLite transaction, in one thread."""
    tokens.warm()
    started = time.perf_counter()
    connection = sqlite3.connect(database)
    connection.execute("CREATE TABLE documents (name TEXT PRIMARY KEY, hash TEXT)")
    connection.execute("CREATE TABLE chunks (name TEXT, number INT, text TEXT, vector BLOB)")
    with connection:
        for path in sorted(root.rglob("*.md")):
            name, content = str(path.relative_to(root)), path.read_bytes()
            digest = hashlib.sha256(content).hexdigest()
            connection.execute("INSERT INTO documents VALUES (?, ?)", (name, digest))
            chunks = pipeline.chunk(Content(path, name, "text/markdown")).chunks
            texts = [chunk.embedded_text for chunk in chunks]
            vectors = [hashed(text) for text in texts]
            connection.executemany(
                "INSERT INTO chunks VALUES (?, ?, ?, ?)",
                (
                    (name, number, text, vector.tobytes())
                    for number, (text, vector) in enumerate(zip(texts, vectors, strict=True))
                ),
            )
    connection.close()
    return time.perf_counter() - started
