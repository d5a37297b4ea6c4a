"""Messages from a list, for tests and trials."""

import asyncio
from dataclasses import dataclass, field

from bridge.consumers import Sink
from contracts.errors import SluiceError


@dataclass
class MemoryConsumer:
    """A queue in memory: what was handed over is in `acknowledged`, what wasn't in `refused`."""

    acknowledged: list[bytes] = field(default_factory=list)
    refused: list[bytes] = field(default_factory=list)
    _queue: "asyncio.Queue[bytes | None]" = field(default_factory=asyncio.Queue)

    def send(self, body: bytes) -> None:
        """Put a message into the queue."""
        self._queue.put_nowait(body)

    async def run(self, sink: Sink) -> None:
        """Hand over one after another until `stop`."""
        while (body := await self._queue.get()) is not None:
            try:
                await sink.take_message(body, {})
            except SluiceError:
                self.refused.append(body)
            else:
                self.acknowledged.append(body)

    async def stop(self) -> None:
        """End after what is in the queue."""
        self._queue.put_nowait(None)
