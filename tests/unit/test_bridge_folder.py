"""The folder consumer on a real folder."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bridge.consumers.folder import FolderConsumer
from contracts.errors import NotReachable
from contracts.events import ChangeEvent, Operation

BOUND = 15.0  # seconds


class Taken:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.events: list[ChangeEvent] = []
        self.crawls: list[tuple[str, str]] = []
        self.news = asyncio.Event()

    async def take_message(self, body: bytes, attributes: Mapping[str, str]) -> None:
        raise AssertionError(body)

    async def take_events(self, events: Sequence[ChangeEvent]) -> None:
        self.events += events
        self.news.set()

    async def take_crawl(self, origin: str, container: str) -> None:
        self.crawls.append((origin, container))
        self.news.set()

    async def until(self, operation: Operation, key: str) -> None:
        async with asyncio.timeout(BOUND):
            while not any(e.op is operation and e.key == key for e in self.events):
                self.news.clear()
                await self.news.wait()


@asynccontextmanager
async def watching(root: Path) -> AsyncIterator[Taken]:
    consumer, sink = FolderConsumer(str(root)), Taken()
    task = asyncio.create_task(consumer.run(sink))
    try:
        async with asyncio.timeout(BOUND):
            await sink.news.wait()
        yield sink
    finally:
        await consumer.stop()
        await asyncio.wait_for(task, BOUND)


async def test_a_watch_begins_with_a_crawl(tmp_path: Path) -> None:
    """Nobody has watched until now."""
    async with watching(tmp_path) as sink:
        assert sink.crawls == [("folder", str(tmp_path))]


async def test_changes_of_files_are_events(tmp_path: Path) -> None:
    """The key is the path below the root; unfinished files and marks are no documents."""
    (tmp_path / "sub").mkdir()
    async with watching(tmp_path) as sink:
        for name in ("a.md.part", "b.tmp", "c~", ".d.swp", ".DS_Store"):
            (tmp_path / "sub" / name).write_text("text")
        (tmp_path / "sub" / "ü 1.md").write_text("text")
        await sink.until(Operation.CREATED, "sub/ü 1.md")
        (tmp_path / "sub" / "ü 1.md").unlink()
        await sink.until(Operation.DELETED, "sub/ü 1.md")
    assert {event.key for event in sink.events} == {"sub/ü 1.md"}
    assert {event.bucket for event in sink.events} == {str(tmp_path)}


async def test_a_missing_folder_is_one_sentence(tmp_path: Path) -> None:
    """A folder may be mounted later."""
    with pytest.raises(NotReachable, match="isn't there"):
        await FolderConsumer(str(tmp_path / "missing")).run(Taken())
