"""Consumers: where messages and events come from. One more is a module with a `Consumer`, and a
line in `pipeline.Bridge` that says which sources want it."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from contracts.events import ChangeEvent


class Sink(Protocol):
    """What a consumer hands over to. Each call returns when it may acknowledge, or raises."""

    async def take_message(self, body: bytes, attributes: Mapping[str, str]) -> None:
        """A message that has to be decoded."""

    async def take_events(self, events: Sequence[ChangeEvent]) -> None:
        """Events that need no decoding."""

    async def take_crawl(self, origin: str, container: str) -> None:
        """Anything in the container may have changed."""


class Consumer(Protocol):
    """One queue, or one folder."""

    async def run(self, sink: Sink) -> None:
        """Consume until `stop`; raise what can't be helped here."""

    async def stop(self) -> None:
        """Take nothing new, finish what is in hand, and let `run` return."""
