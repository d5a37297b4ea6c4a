"""What the benchmarks stand on: a folder of generated files, and its first ingest."""

import asyncio
import itertools
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from contracts.events import ChangeSignal
from contracts.runs import RunState
from contracts.sources import SourceConfig
from sluice.stack import Stack
from sluice.telemetry import configure

SOURCE = "benchmark"
COMMON = """
the harbour master of a small island keeps account in his book how ferry and trawler came
with the tide or waited for wind off northern point while fog lay upon water so thick that
no lamp could be seen from shore then every vessel sounded her horn until pilot boat found
them one after another and brought crew safe to quay where rope crane net were ready before
night fell over town which had not slept since storm began three days earlier
"""
IDLE = 0.3  # seconds for the coordinator to be done with a run that has ended
FILL_POLL = 0.25  # seconds between two looks at a first ingest
FILL_BOUND = 1_800.0  # seconds for the first ingest


class Workspace(NamedTuple):
    """Folders of one benchmark, deleted afterwards."""

    root: Path  # of the source
    state: Path  # of the stack; made by it


@contextmanager
def workspace() -> Iterator[Workspace]:
    """New folders, and a log that stays quiet."""
    configure(os.environ.get("SLUICE_LOG_LEVEL", "error"), human=False)
    with tempfile.TemporaryDirectory(prefix="sluice-benchmark-") as folder:
        root = Path(folder) / "source"
        root.mkdir()
        yield Workspace(root, Path(folder) / "state")


def write_reports(root: Path, documents: int) -> None:
    """Markdown files of two sections each, every one a chunk."""
    for number in range(documents):
        (root / f"{number:05}.md").write_text(report(number, "as it was first"))


def report(number: int, state: str) -> str:
    """The text of one file; its second section tells the state.

    A section has fewer tokens than a cut needs until its last sentence, which is long: so it is
    one chunk, and of a common size (170 tokens or so).
    """
    return (
        f"# Report {number}\n\nThe report numbered {number} was written on board. "
        f"{_sentences(number)}\n\n## Findings of report {number}\n\n"
        f"The state of report{number} is {state}. {_sentences(number + 1)}\n"
    )


def _sentences(number: int) -> str:
    """Four short ones and a long one, of common words, with figures that differ."""
    common = COMMON.split()
    words = itertools.islice(itertools.cycle(common), number * 31 % len(common), None)
    lengths = (11, 12, 10, 12, 65)
    sentences = [" ".join(itertools.islice(words, length)) for length in lengths]
    return " ".join(f"{text.capitalize()} {number * 7 + n}." for n, text in enumerate(sentences))


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
