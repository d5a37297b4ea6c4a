"""Gathers dirty keys by source: the first of an idle source goes at once, what follows together."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from contracts.errors import NotReachable
from contracts.events import DirtyKey

Flush = Callable[[str, Sequence[DirtyKey], int], Awaitable[None]]


@dataclass
class _Lane:
    """What waits of one source."""

    keys: dict[str, DirtyKey] = field(default_factory=dict)
    waiters: list["asyncio.Future[None]"] = field(default_factory=list)
    task: "asyncio.Task[None] | None" = None


class Batcher:
    """One lane a source, so that a slow source holds up nobody else.

    Memory is bounded by those who wait in `add`: each message in flight has one place.

    Args:
        flush: hands keys over; returns when they were accepted.
        interval: seconds between two flushes of one source.
    """

    def __init__(self, flush: Flush, interval: float) -> None:
        self._flush = flush
        self._interval = interval
        self._lanes: dict[str, _Lane] = {}

    async def add(self, source_id: str, key: DirtyKey) -> None:
        """Return when a signal with the key was accepted; raise what kept it from being."""
        lane = self._lanes.setdefault(source_id, _Lane())
        lane.keys[key.key] = key.after(lane.keys.get(key.key))
        accepted = asyncio.get_running_loop().create_future()
        lane.waiters.append(accepted)
        if lane.task is None:
            lane.task = asyncio.create_task(self._serve(source_id, lane))
        await accepted

    @property
    def waiting(self) -> int:
        """Keys that wait for a signal."""
        return sum(len(lane.keys) for lane in self._lanes.values())

    async def _serve(self, source_id: str, lane: _Lane) -> None:
        """Flush until nothing waits; then the source is idle, and its lane goes."""
        try:
            # Everything that one message brings, or ten that came together, goes in one signal.
            await asyncio.sleep(0)
            while lane.keys:
                keys, waiters = list(lane.keys.values()), lane.waiters
                lane.keys, lane.waiters = {}, []
                await self._hand_over(source_id, keys, waiters)
                await asyncio.sleep(self._interval)
        finally:
            del self._lanes[source_id]
            _refuse(lane.waiters, _given_up(source_id))  # none, unless we were cancelled

    async def _hand_over(
        self,
        source_id: str,
        keys: Sequence[DirtyKey],
        waiters: Sequence["asyncio.Future[None]"],
    ) -> None:
        try:
            await self._flush(source_id, keys, len(waiters))
        except asyncio.CancelledError:
            _refuse(waiters, _given_up(source_id))
            raise
        except Exception as error:  # noqa: BLE001 - whoever waits is told, and decides
            _refuse(waiters, error)
            return
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


def _refuse(waiters: Sequence["asyncio.Future[None]"], error: Exception) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_exception(error)


def _given_up(source_id: str) -> NotReachable:
    return NotReachable(f"a signal to {source_id} was given up before it was accepted")
