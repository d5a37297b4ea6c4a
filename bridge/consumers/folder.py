"""Watches a folder."""

import asyncio
import os
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from pathlib import Path
from stat import S_ISDIR
from typing import Final

import structlog
from watchfiles import Change, awatch
from watchfiles.main import FileChange

from bridge.consumers import Sink
from contracts.errors import NotReachable
from contracts.events import ChangeEvent, Operation
from contracts.keys import STATE_MARK, is_hidden, is_marker, is_unfinished

log = structlog.get_logger(__name__)

ORIGIN: Final = "folder"
DEBOUNCE: Final = 200  # ms that changes are gathered at most
STEP: Final = 40  # ms of silence that end the gathering
WAKE: Final = 1_000  # ms without a change, after which the watcher looks whether it should stop


class FolderConsumer:
    """Turns changes of files into events; what it can't tell by file it asks a crawl for.

    It asks for one when it starts too: nobody has watched until now.
    """

    def __init__(self, root: str) -> None:
        self._root = Path(root)
        self._stop = asyncio.Event()
        self._folders: set[str] = set()

    async def run(self, sink: Sink) -> None:
        """Watch until `stop`; `NotReachable` while the folder isn't there, or when it goes."""
        watched = await asyncio.to_thread(self._identity)
        if watched is None:
            raise NotReachable(f"the folder {self._root} isn't there: mount it")
        started = False
        async with aclosing(self._batches()) as batches:
            async for batch in batches:
                # A watch stays on what it began with, and says nothing of what takes its place.
                same = watched == await asyncio.to_thread(self._identity)
                if not same or (Change.deleted, str(self._root)) in batch:
                    raise NotReachable(f"the folder {self._root} went away: mount it again")
                if not started:
                    # The watch stands since before this first answer: nothing falls between.
                    started = True
                    self._folders = await asyncio.to_thread(_folders_below, self._root)
                    await sink.take_crawl(ORIGIN, str(self._root))
                await self._hand_over(batch, sink)

    async def stop(self) -> None:
        """End the watch."""
        self._stop.set()

    async def _batches(self) -> AsyncGenerator[set[FileChange], None]:
        """What has changed, once a second at least; `NotReachable` when the watch breaks off."""
        changes = awatch(
            self._root,
            watch_filter=None,
            debounce=DEBOUNCE,
            step=STEP,
            stop_event=self._stop,
            rust_timeout=WAKE,
            yield_on_timeout=True,
            recursive=True,
        )
        try:
            async with aclosing(changes):
                async for batch in changes:
                    yield batch
        except ExceptionGroup as group:  # a name that isn't UTF-8 ends a watch
            raise NotReachable(
                f"the watch of {self._root} broke off, and begins again with a crawl: "
                f"{group.exceptions[0]}"
            ) from group
        except OSError as error:
            raise NotReachable(
                f"the folder {self._root} can't be watched ({error}): raise "
                "fs.inotify.max_user_watches, give this user the right to, or set watch=no"
            ) from error

    async def _hand_over(self, batch: Iterable[FileChange], sink: Sink) -> None:
        events, crawl = [], False
        for name, change in sorted(await asyncio.to_thread(self._ours, batch)):
            if change is Change.deleted and name in self._folders:
                self._forget(name)
                crawl = True
            elif change is not Change.deleted and await asyncio.to_thread(_is_folder, name):
                # Known ones only changed their time or rights, which is no document's change.
                crawl = await self._learn(name) or crawl
            elif (event := self._event(change, Path(name))) is not None:
                events.append(event)
        if events:
            await sink.take_events(events)
        if crawl:
            await sink.take_crawl(ORIGIN, str(self._root))

    def _ours(self, batch: Iterable[FileChange]) -> list[tuple[str, Change]]:
        """The changes that a listing of the source would come by, with their names first."""
        return [(name, change) for change, name in batch if self._is_ours(Path(name))]

    def _is_ours(self, path: Path) -> bool:
        """The watch follows links, which listings don't, and sees hidden names and the files of
        our own state folders, which are no documents."""
        if path == self._root:
            return True
        try:
            key = path.relative_to(self._root).as_posix()
        except ValueError:
            return False
        place = Path(key).parent
        if is_hidden(key) or path.parent.resolve() != self._root.resolve() / place:
            return False
        above = [path, *path.parents][: len(place.parts) + 1]
        return not any((folder / STATE_MARK).exists() for folder in above)

    async def _learn(self, name: str) -> bool:
        """Whether a folder is new: then it may have files, and folders, that nobody reported."""
        if name in self._folders or name == str(self._root):
            return False
        self._folders |= {name, *await asyncio.to_thread(_folders_below, Path(name))}
        return True

    def _forget(self, name: str) -> None:
        """Of a folder that goes, neither files nor folders need be reported."""
        self._folders = {
            known
            for known in self._folders
            if known != name and not known.startswith(f"{name}{os.sep}")
        }

    def _event(self, change: Change, path: Path) -> ChangeEvent | None:
        try:
            key = path.relative_to(self._root).as_posix()
            key.encode()
        except (ValueError, UnicodeEncodeError):
            return None
        if key == "." or is_marker(key) or is_unfinished(key):
            return None
        operation = Operation.DELETED if change is Change.deleted else Operation.CREATED
        return ChangeEvent(origin=ORIGIN, op=operation, bucket=str(self._root), key=key)

    def _identity(self) -> tuple[int, int] | None:
        """Device and inode of the root; None while there is no folder."""
        try:
            status = self._root.stat()
        except OSError:
            return None
        return (status.st_dev, status.st_ino) if S_ISDIR(status.st_mode) else None


def _is_folder(name: str) -> bool:
    path = Path(name)
    return path.is_dir() and not path.is_symlink()


def _folders_below(root: Path) -> set[str]:
    return {str(Path(parent) / name) for parent, names, _ in os.walk(root) for name in names}
