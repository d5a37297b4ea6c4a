"""Watches a folder."""

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import structlog
from watchfiles import Change, awatch

from bridge.consumers import Sink
from contracts.errors import NotReachable
from contracts.events import ChangeEvent, Operation
from contracts.keys import is_marker, is_unfinished

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
        """Watch until `stop`."""
        if not self._root.is_dir():
            raise NotReachable(f"the folder {self._root} isn't there: mount it")
        self._folders = await asyncio.to_thread(self._list_folders)
        started = False
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
        async for batch in changes:
            if not started:
                # The watch stands since before this first answer, so nothing falls between.
                started = True
                await sink.take_crawl(ORIGIN, str(self._root))
            await self._hand_over(batch, sink)

    async def stop(self) -> None:
        """End the watch."""
        self._stop.set()

    async def _hand_over(self, batch: Iterable[tuple[Change, str]], sink: Sink) -> None:
        events, crawl = [], False
        for change, name in sorted(batch, key=lambda pair: pair[1]):
            if self._is_folder(change, name):
                crawl = True
            elif (event := self._event(change, Path(name))) is not None:
                events.append(event)
        if events:
            await sink.take_events(events)
        if crawl:
            await sink.take_crawl(ORIGIN, str(self._root))

    def _is_folder(self, change: Change, name: str) -> bool:
        """A folder that comes may have files that nobody reported; one that goes, too."""
        if change is Change.deleted:
            gone = name in self._folders
            self._folders.discard(name)
            return gone
        if not Path(name).is_dir():
            return False
        known = name in self._folders
        self._folders.add(name)
        return not known

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

    def _list_folders(self) -> set[str]:
        return {
            str(Path(parent) / name) for parent, names, _ in os.walk(self._root) for name in names
        }
