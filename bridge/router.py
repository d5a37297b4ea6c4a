"""Sends an event home: to every source that it concerns."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from fnmatch import fnmatchcase
from typing import Final

import structlog

from contracts.events import ChangeEvent
from contracts.sources import SourceConfig, SourceRecord

log = structlog.get_logger(__name__)

REFRESH: Final = 1.0  # seconds that a list of sources is used
SPACING: Final = 0.1  # seconds between two lists, however many events concern nobody
WARN_EVERY: Final = 60.0  # seconds between two warnings of one container

SourceList = Callable[[], Awaitable[Sequence[SourceRecord]]]


def concerns(config: SourceConfig, event: ChangeEvent) -> bool:
    """Whether an event is about a document that the source may have."""
    if config.kind != event.origin or config.container != event.bucket:
        return False
    if not event.key.startswith(config.prefix):
        return False
    if config.include and not any(fnmatchcase(event.key, pattern) for pattern in config.include):
        return False
    return not any(fnmatchcase(event.key, pattern) for pattern in config.exclude)


class Router:
    """Asks for the sources once a second, and again before it says that an event concerns nobody:
    its source may be younger than the list."""

    def __init__(self, sources: SourceList, clock: Callable[[], float] = time.monotonic) -> None:
        self._list = sources
        self._clock = clock
        self._sources: Sequence[SourceRecord] = ()
        self._listed_at = float("-inf")  # when the list was asked for
        self._listing = asyncio.Lock()
        self._warned: dict[str, float] = {}
        self.unrouted = 0  # events that concerned nobody

    async def sources(self) -> Sequence[SourceRecord]:
        """The sources, a second old at most."""
        return await self._listed_since(self._clock() - REFRESH)

    async def route(self, event: ChangeEvent) -> list[str]:
        """Ids of the sources that the event concerns; none is counted and said once a minute."""
        came = self._clock()
        found = self._concerned(event, await self.sources())
        if not found:
            await asyncio.sleep(max(0.0, self._listed_at + SPACING - self._clock()))
            found = self._concerned(event, await self._listed_since(came))
        if not found:
            self.unrouted += 1
            self._warn(event)
        return found

    async def _listed_since(self, moment: float) -> Sequence[SourceRecord]:
        """A list that was asked for at the moment or later; a burst asks once."""
        if self._listed_at < moment:
            async with self._listing:
                if self._listed_at < moment:
                    asked = self._clock()
                    self._sources = await self._list()
                    self._listed_at = asked
        return self._sources

    def _concerned(self, event: ChangeEvent, sources: Sequence[SourceRecord]) -> list[str]:
        return [s.config.source_id for s in sources if concerns(s.config, event)]

    def _warn(self, event: ChangeEvent) -> None:
        now = self._clock()
        last = self._warned.get(event.bucket)
        if last is not None and now - last < WARN_EVERY:
            return
        self._warned[event.bucket] = now
        log.warning("an event concerns no source", bucket=event.bucket, key=event.key)
