"""Threads for an embedded store: one that writes, a few that read."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

READERS = 2  # threads; searches release the interpreter while the engine works

Result = TypeVar("Result")


class Lanes:
    """Keeps blocking work off the event loop, and writes in the order of their calls.

    A caller that is cancelled doesn't stop a write that has begun: what is asked afterwards
    stands behind it in the same lane, so a purge always sees what it has to purge.
    """

    def __init__(self, name: str) -> None:
        self._writer = ThreadPoolExecutor(1, thread_name_prefix=f"{name}-writer")
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix=f"{name}-reader")
        self._turn = threading.Condition()
        self._reading = 0
        self._alone = False

    async def write(self, work: Callable[[], Result]) -> Result:
        """Run the work in the one writing thread."""
        return await asyncio.get_running_loop().run_in_executor(self._writer, work)

    async def write_alone(self, work: Callable[[], Result]) -> Result:
        """The same, while nobody reads: reads that come meanwhile wait."""

        def alone() -> Result:
            with self._unshared():
                return work()

        return await self.write(alone)

    async def read(self, work: Callable[[], Result]) -> Result:
        """Run the work in a reading thread."""

        def shared() -> Result:
            with self._shared():
                return work()

        return await asyncio.get_running_loop().run_in_executor(self._readers, shared)

    async def close(self, release: Callable[[], None]) -> None:
        """Wait for the work in hand, run `release`, and end the threads."""
        await asyncio.to_thread(self._readers.shutdown)
        await self.write(release)
        await asyncio.to_thread(self._writer.shutdown)

    @contextmanager
    def _shared(self) -> Iterator[None]:
        with self._turn:
            self._turn.wait_for(lambda: not self._alone)
            self._reading += 1
        try:
            yield
        finally:
            with self._turn:
                self._reading -= 1
                self._turn.notify_all()

    @contextmanager
    def _unshared(self) -> Iterator[None]:
        with self._turn:
            self._alone = True
            self._turn.wait_for(lambda: not self._reading)
        try:
            yield
        finally:
            with self._turn:
                self._alone = False
                self._turn.notify_all()
