"""Hands a source's dirty keys over: one signal-with-start, tried for a while."""

import asyncio
import uuid
from collections.abc import Collection, Sequence

import structlog

from bridge.limits import BridgeLimits
from contracts.errors import SluiceError
from contracts.events import ChangeSignal, DirtyKey
from contracts.ports import ObjectStore, Orchestrator

log = structlog.get_logger(__name__)


class Dispatcher:
    """Keeps trying while the error is retryable and there is patience left."""

    def __init__(
        self, orchestrator: Orchestrator, objects: ObjectStore, limits: BridgeLimits
    ) -> None:
        self._orchestrator = orchestrator
        self._objects = objects
        self._limits = limits
        self.signals = 0  # accepted
        self._held: dict[str, str] = {}  # by source, why its signals don't go through now

    @property
    def held(self) -> str | None:
        """Why signals of some source don't go through now."""
        return next(iter(self._held.values()), None)

    def forget_others(self, source_ids: Collection[str]) -> None:
        """Only these sources are still there."""
        self._held = {name: why for name, why in self._held.items() if name in source_ids}

    async def dispatch(self, source_id: str, keys: Sequence[DirtyKey], events: int) -> None:
        """Return when the signal was accepted; raise when it wasn't in time."""
        signal = await self._signal(source_id, keys, events)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._limits.patience
        wait = self._limits.first_retry
        while True:
            try:
                await self._orchestrator.signal_changed(source_id, signal)
            except SluiceError as error:
                self._held[source_id] = str(error)
                if not error.retryable or loop.time() + wait > deadline:
                    raise
                log.warning("a signal was not accepted", source=source_id, reason=str(error))
                await asyncio.sleep(wait)
                wait = min(wait * 2, self._limits.longest_retry)
            else:
                self._held.pop(source_id, None)
                self.signals += 1
                return

    async def crawl(self, source_id: str) -> None:
        """Say that every key of a source may have changed."""
        await self._orchestrator.signal_changed(source_id, ChangeSignal(crawl=True))

    async def _signal(self, source_id: str, keys: Sequence[DirtyKey], events: int) -> ChangeSignal:
        """Keys inline where they fit, else a reference to a segment."""
        records = [key.model_dump_json().encode() for key in keys]
        if sum(len(record) for record in records) <= self._limits.inline_bytes:
            return ChangeSignal(keys=tuple(keys), events=events)
        segment = f"segments/{source_id}/{uuid.uuid4().hex}.json"
        await self._objects.put(segment, b"[" + b",".join(records) + b"]")
        return ChangeSignal(segments=(segment,), events=events)
