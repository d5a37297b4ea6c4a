"""Heartbeats of long activities: progress that a person can read, and cancellation noticed soon."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from temporalio import activity

INTERVAL = 1.0  # seconds


@dataclass
class Progress:
    """What an activity says of itself."""

    doing: str
    done: int = 0
    total: int | None = None

    def __str__(self) -> str:
        """For example `parsing: 12 of 40`."""
        of = f" of {self.total}" if self.total is not None else ""
        return f"{self.doing}: {self.done}{of}"


@asynccontextmanager
async def heartbeats(doing: str, total: int | None = None) -> AsyncIterator[Progress]:
    """Heartbeat every second while the body runs; the body counts in `done`. A local activity has
    nobody to tell."""
    progress = Progress(doing, total=total)
    if activity.info().is_local:
        yield progress
        return

    async def beat() -> None:
        while True:
            activity.heartbeat(str(progress))
            await asyncio.sleep(INTERVAL)

    task = asyncio.create_task(beat())
    try:
        yield progress
    finally:
        task.cancel()
