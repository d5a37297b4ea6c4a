"""The folder consumer on a real file system: what it can't tell by file it asks a crawl for."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from watchfiles.main import FileChange

from bridge.consumers import folder
from bridge.consumers.folder import FolderConsumer
from contracts.errors import NotReachable
from contracts.events import ChangeEvent, Operation
from sluice.state import StateFolder

BOUND = 15.0  # seconds
SOON = 3.0  # seconds


class Taken:
    """Keeps what it is given; refuses crawls while it is told to."""

    def __init__(self) -> None:
        self.events: list[ChangeEvent] = []
        self.crawls: list[tuple[str, str]] = []
        self.refuses = False

    async def take_message(self, body: bytes, attributes: Mapping[str, str]) -> None:
        raise AssertionError(body)

    async def take_events(self, events: Sequence[ChangeEvent]) -> None:
        self.events += events

    async def take_crawl(self, origin: str, container: str) -> None:
        if self.refuses:
            raise NotReachable("not now")
        self.crawls.append((origin, container))

    def said(self, operation: Operation, key: str) -> bool:
        return any(event.op is operation and event.key == key for event in self.events)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(BOUND):
        while not condition():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def watching(root: Path) -> AsyncIterator[Taken]:
    consumer, sink = FolderConsumer(str(root)), Taken()
    task = asyncio.create_task(consumer.run(sink))
    try:
        await until(lambda: sink.crawls or task.done())
        yield sink
    finally:
        await consumer.stop()
        await asyncio.wait_for(task, BOUND)


async def settled(root: Path, sink: Taken, name: str) -> None:
    """Return when all that happened before was handed over: changes come in their order."""
    (root / name).write_text("mark")
    await until(lambda: sink.said(Operation.CREATED, name))


def tree(path: Path) -> Path:
    """A folder with a folder with a file."""
    (path / "inner").mkdir(parents=True)
    (path / "inner" / "page.md").write_text("text")
    return path


async def test_a_change_of_content_is_an_event(tmp_path: Path) -> None:
    """A file that is written again is looked at again, with its folder as container."""
    (tmp_path / "page.md").write_text("before")
    async with watching(tmp_path) as sink:
        (tmp_path / "page.md").write_text("after")
        await until(lambda: sink.said(Operation.CREATED, "page.md"))
    [event, *_] = sink.events
    assert (event.origin, event.bucket) == ("folder", str(tmp_path))


async def test_a_renamed_file_is_two_events(tmp_path: Path) -> None:
    """The old name went, and the new one came."""
    (tmp_path / "old.md").write_text("text")
    async with watching(tmp_path) as sink:
        (tmp_path / "old.md").rename(tmp_path / "new.md")
        await until(lambda: sink.said(Operation.DELETED, "old.md"))
        await until(lambda: sink.said(Operation.CREATED, "new.md"))


async def test_a_finished_download_is_an_event(tmp_path: Path) -> None:
    """The draft's name says nothing; the name that it gets at last does."""
    async with watching(tmp_path) as sink:
        (tmp_path / "page.md.part").write_text("text")
        (tmp_path / "page.md.part").rename(tmp_path / "page.md")
        await until(lambda: sink.said(Operation.CREATED, "page.md"))
    assert {event.key for event in sink.events} == {"page.md"}


async def test_a_renamed_folder_asks_for_a_crawl(tmp_path: Path) -> None:
    """Nobody reports the files of a folder that moves."""
    tree(tmp_path / "old")
    async with watching(tmp_path) as sink:
        (tmp_path / "old").rename(tmp_path / "new")
        await until(lambda: len(sink.crawls) == 2)
    assert set(sink.crawls) == {("folder", str(tmp_path))}


async def test_a_folder_that_is_moved_in_asks_for_a_crawl(tmp_path: Path) -> None:
    """Its files were there before anybody watched them."""
    root = tmp_path / "root"
    root.mkdir()
    tree(tmp_path / "outside")
    async with watching(root) as sink:
        (tmp_path / "outside").rename(root / "inside")
        await until(lambda: len(sink.crawls) == 2)


@pytest.mark.parametrize("came", ["renamed", "made"])
async def test_a_folder_within_one_that_came_is_known(tmp_path: Path, came: str) -> None:
    """When it is moved out its files are gone, and only a crawl can tell."""
    root = tmp_path / "root"
    root.mkdir()
    if came == "renamed":
        tree(root / "old")
    async with watching(root) as sink:
        if came == "renamed":
            (root / "old").rename(root / "new")
        else:
            tree(root / "new")
        await until(lambda: len(sink.crawls) > 1)
        await settled(root, sink, "mark-1.md")
        before = len(sink.crawls)
        (root / "new" / "inner").rename(tmp_path / "elsewhere")
        await until(lambda: len(sink.crawls) > before)
    assert not sink.said(Operation.DELETED, "new/inner")


async def test_rights_and_times_of_a_folder_are_no_event(tmp_path: Path) -> None:
    """A folder that was known is no document, and needs no crawl for its date."""
    (tmp_path / "sub").mkdir()
    async with watching(tmp_path) as sink:
        (tmp_path / "sub").chmod(0o700)
        await settled(tmp_path, sink, "mark.md")
    assert {event.key for event in sink.events} == {"mark.md"}
    assert len(sink.crawls) == 1


async def test_a_name_that_is_no_text_begins_the_watch_anew(tmp_path: Path) -> None:
    """It breaks the watch off; a new one begins with a crawl, so nothing beside it is lost."""
    broken = Taken()
    task = asyncio.create_task(FolderConsumer(str(tmp_path)).run(broken))
    await until(lambda: broken.crawls)
    odd = tmp_path / os.fsdecode(b"latin-\xe9.md")
    odd.write_text("text")
    with pytest.raises(NotReachable, match="broke off, and begins again") as caught:
        await asyncio.wait_for(task, BOUND)
    assert caught.value.retryable
    async with watching(tmp_path) as sink:
        await settled(tmp_path, sink, "mark.md")


async def test_too_many_folders_to_watch_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine's limit of watches is named, with what to do."""

    async def refused(*_paths: Path, **_options: object) -> AsyncIterator[set[FileChange]]:
        raise OSError(28, "OS file watch limit reached.")
        yield set()

    monkeypatch.setattr(folder, "awatch", refused)
    with pytest.raises(NotReachable, match=r"limit reached.*max_user_watches"):
        await FolderConsumer(str(tmp_path)).run(Taken())


def deleted(root: Path) -> None:
    shutil.rmtree(root)


def moved(root: Path) -> None:
    root.rename(root.with_name("elsewhere"))


def replaced(root: Path) -> None:
    moved(root)
    root.mkdir()


def made_anew(root: Path) -> None:
    deleted(root)
    root.mkdir()  # often with the inode of the one before


@pytest.mark.parametrize("lose", [deleted, moved, replaced, made_anew])
async def test_a_folder_that_goes_ends_the_watch(
    tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    """Its watch would be silent for ever; a new one begins with a crawl. Nothing is reported as
    deleted: the folder may be mounted again."""
    root = tree(tmp_path / "root")
    sink = Taken()
    task = asyncio.create_task(FolderConsumer(str(root)).run(sink))
    await until(lambda: sink.crawls)
    lose(root)
    with pytest.raises(NotReachable, match="went away: mount it again"):
        await asyncio.wait_for(task, BOUND)


async def test_a_refused_crawl_ends_the_watch(tmp_path: Path) -> None:
    """The crawl at the start may not be lost: whoever runs the consumer starts it again."""
    sink = Taken()
    sink.refuses = True
    with pytest.raises(NotReachable, match="not now"):
        await asyncio.wait_for(FolderConsumer(str(tmp_path)).run(sink), BOUND)


async def test_a_file_is_no_root(tmp_path: Path) -> None:
    """What stands where the folder should be isn't watched."""
    (tmp_path / "root").write_text("text")
    with pytest.raises(NotReachable, match="isn't there: mount it"):
        await FolderConsumer(str(tmp_path / "root")).run(Taken())


async def test_a_stop_returns_soon(tmp_path: Path) -> None:
    """A quiet folder delays no shutdown."""
    consumer, sink = FolderConsumer(str(tmp_path)), Taken()
    task = asyncio.create_task(consumer.run(sink))
    await until(lambda: sink.crawls)
    await consumer.stop()
    await asyncio.wait_for(task, SOON)


async def test_what_nobody_means_as_a_document_is_no_event(tmp_path: Path) -> None:
    """Changes of hidden names, of a stack's own state, and behind links that lead out of the folder
    or back into it start no run."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    tree(outside)
    tree(root / "sub")
    tree(root / ".git")
    (root / "state").mkdir()
    StateFolder(root / "state").prepare()
    (root / "out").symlink_to(outside)
    (root / "sub" / "back").symlink_to(root)
    async with watching(root) as sink:
        (root / ".hidden.md").write_text("text")
        (root / ".git" / "inner" / "page.md").write_text("text")
        (root / "state" / "objects" / "new").mkdir()
        (root / "state" / "objects" / "new" / "page.md").write_text("text")
        (outside / "inner" / "page.md").write_text("new text")
        (root / "sub" / "inner" / "page.md").write_text("new text")
        await settled(root, sink, "mark.md")
        await until(lambda: sink.said(Operation.CREATED, "sub/inner/page.md"))
    assert {event.key for event in sink.events} == {"mark.md", "sub/inner/page.md"}
    assert len(sink.crawls) == 1
