"""A full crawl of a source in which nothing has changed."""

import argparse
import asyncio
import statistics
import time

from benchmarks.change import POLL
from benchmarks.corpus import IDLE, SOURCE, fill, workspace, write_reports
from contracts.events import ChangeSignal
from contracts.runs import RunState
from sluice.settings import Settings
from sluice.stack import Stack, running_stack

CRAWL_BOUND = 300.0  # seconds


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark."""
    parser.add_argument("--docs", type=int, default=10_000, help="documents in the source")
    parser.add_argument("--crawls", type=int, default=5, help="crawls that are measured")


async def run(options: argparse.Namespace) -> dict[str, float | int | str]:
    """Fill a source, then crawl it again and again; the first crawl warms and isn't counted."""
    with workspace() as (root, state):
        write_reports(root, options.docs)
        async with running_stack(Settings(state=state)) as stack:
            await fill(stack, root)
            await asyncio.sleep(IDLE)
            times = [await _crawl(stack, options.docs) for _ in range(options.crawls + 1)][1:]
            return {
                "benchmark": "reconcile",
                "docs": options.docs,
                "crawls": options.crawls,
                "seconds": round(statistics.median(times), 3),
                "max_seconds": round(max(times), 3),
            }


async def _crawl(stack: Stack, documents: int) -> float:
    """Seconds from the signal to the run's end, which must have looked at everything."""
    catalog = stack.wiring.catalog
    [before] = await catalog.runs(SOURCE, 1)
    started = time.perf_counter()
    await stack.wiring.ports.orchestrator.signal_changed(SOURCE, ChangeSignal(crawl=True))
    async with asyncio.timeout(CRAWL_BOUND):
        while True:
            [run_] = await catalog.runs(SOURCE, 1)
            if run_.seq > before.seq and run_.state.final:
                break
            await asyncio.sleep(POLL)
    elapsed = time.perf_counter() - started
    if run_.state is not RunState.NO_CHANGE or run_.counts.unchanged != documents:
        raise RuntimeError(f"the crawl ended as {run_.state} with {run_.counts}")
    await asyncio.sleep(IDLE)
    return elapsed
