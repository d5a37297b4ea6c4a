"""Kill -9 of the whole stack in the middle of a first ingest: what is paid for twice."""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sqlite3
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.corpus import SOURCE, workspace, write_reports
from benchmarks.endpoint import CountingEndpoint, serving
from console.client import ApiClient
from contracts.runs import RunState
from contracts.sources import SourceConfig
from documents.embedders.hashing import DIMENSION
from sluice.state import StateFolder

CHUNKS = 2  # that a document has at least
BOUND = 600.0  # seconds for each half
POLL = 0.1  # seconds


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark."""
    parser.add_argument("--docs", type=int, default=2_000, help="documents in the source")


async def run(options: argparse.Namespace) -> dict[str, float | int | str]:
    """Ingest until half of the chunks are bought, kill, start again, and count."""
    with workspace() as (root, state):
        write_reports(root, options.docs)
        async with serving() as endpoint:
            async with _stack(state, endpoint) as stack:
                config = SourceConfig(source_id=SOURCE, kind="folder", container=str(root))
                await stack.client.add(config, "benchmark")
                await _half_bought(endpoint, options.docs * CHUNKS // 2)
                stack.kill()
                unanswered = endpoint.unanswered
            in_flight = len(endpoint.bought) - _kept(state)
            started = time.perf_counter()
            async with _stack(state, endpoint) as stack:
                embedded = await _promoted(stack.client)
                seconds = time.perf_counter() - started
        return {
            "benchmark": "crash",
            "docs": options.docs,
            "repeated_embeddings": sum(count - 1 for count in endpoint.bought.values()),
            "in_flight": in_flight,
            "unanswered": unanswered,
            "bought": len(endpoint.bought),
            "embedded": embedded,
            "second_half_s": round(seconds, 1),
        }


def _kept(state: Path) -> int:
    """Vectors that were durable when the process died."""
    with contextlib.closing(sqlite3.connect(StateFolder(state).catalog)) as connection:
        return int(connection.execute("SELECT count(*) FROM vectors").fetchone()[0])


async def _half_bought(endpoint: CountingEndpoint, half: int) -> None:
    async with asyncio.timeout(BOUND):
        while len(endpoint.bought) < half or not endpoint.unanswered:
            await asyncio.sleep(0.001)


async def _promoted(client: ApiClient) -> int:
    """Wait for the promotion; answers the chunks that the run says it has bought."""
    async with asyncio.timeout(BOUND):
        while True:
            for found in await client.runs(SOURCE):
                if found.state is RunState.PROMOTED:
                    return found.counts.embedded
            await asyncio.sleep(POLL)


@dataclass
class _Stack:
    """A running `sluice up`."""

    client: ApiClient
    process: asyncio.subprocess.Process
    state: Path

    def kill(self) -> None:
        """SIGKILL, Temporal's server included."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        for file in (self.state / "pids").glob("*"):
            with contextlib.suppress(ProcessLookupError, ValueError, OSError):
                os.kill(json.loads(file.read_text())["pid"], signal.SIGKILL)


@asynccontextmanager
async def _stack(state: Path, endpoint: CountingEndpoint) -> AsyncIterator[_Stack]:
    """`sluice up` as a process, from its first answer to its end by SIGKILL."""
    settings = {
        "SLUICE_STATE": str(state),
        "SLUICE_LOG_LEVEL": "error",
        "SLUICE_EMBEDDER": "openai",
        "SLUICE_EMBEDDING_URL": endpoint.url,
        "SLUICE_EMBEDDING_MODEL": "hashed",
        "SLUICE_EMBEDDING_DIMENSION": str(DIMENSION),
        "SLUICE_EMBEDDING_BATCH_TEXTS": "16",
    }
    process = await asyncio.create_subprocess_exec(
        *(str(Path(sys.executable).parent / "sluice"), "up", "--json"),
        env={**os.environ, **settings},
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(BOUND):
            access = StateFolder(state).known_access()
            while access is None or access.address is None:
                await asyncio.sleep(POLL)
                access = StateFolder(state).known_access()
        async with ApiClient(access.address, access.key) as client:
            stack = _Stack(client, process, state)
            try:
                yield stack
            finally:
                stack.kill()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        # What it had announced is nobody's address any more.
        (state / "api.json").unlink(missing_ok=True)
