"""Threads for an embedded store: one that writes, a few that read."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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

    async def write(self, work: Callable[[], Result]) -> Result:
        """Run the work in the one writing thread."""
        return await asyncio.get_running_loop().run_in_executor(self._writer, work)

    async def read(self, work: Callable[[], Result]) -> Result:
        """Run the work in a reading thread."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)

    async def close(self, release: Callable[[], None]) -> None:
        """Wait for the work in hand, run `release`, and end the threads."""
        await asyncio.to_thread(self._readers.shutdown)
        await self.write(release)
        await asyncio.to_thread(self._writer.shutdown)
