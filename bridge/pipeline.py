"""The bridge as a whole: consumers, decoder, router, batcher, dispatcher."""

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import structlog
from pydantic import BaseModel

from bridge.batcher import Batcher
from bridge.consumers import Consumer
from bridge.consumers.folder import FolderConsumer
from bridge.consumers.sqs import QueueAddress, SqsConsumer
from bridge.decoders import decode
from bridge.dispatcher import Dispatcher
from bridge.limits import BridgeLimits
from bridge.router import Router, SourceList
from contracts.errors import SluiceError
from contracts.events import Action, ChangeEvent, DirtyKey, EventTrace
from contracts.ports import DeadLetters, ObjectStore, Orchestrator
from contracts.sources import SourceConfig, SourceRecord

log = structlog.get_logger(__name__)

FIRST_RESTART: Final = 1.0  # seconds before a consumer that failed is started again, doubled
LONGEST_RESTART: Final = 30.0  # seconds


class BridgeStatus(BaseModel):
    """Counts since the start, and what holds the bridge up."""

    received: int = 0  # messages
    delivered: int = 0  # events handed to a source
    dropped: int = 0  # messages that change nothing
    parked: int = 0  # messages that nobody understands
    unrouted: int = 0  # events that concern no source
    signals: int = 0
    waiting: int = 0  # keys that wait for a signal
    consumers: dict[str, str] = {}  # name to "running", or why not
    held: str | None = None  # why signals don't go through now


@dataclass
class _Running:
    """A consumer with the task that keeps it running."""

    address: QueueAddress | str
    consumer: Consumer
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    task: "asyncio.Task[None] | None" = None


class Bridge:
    """Runs a consumer for every queue and folder that a source names, as sources come and go."""

    def __init__(
        self,
        *,
        orchestrator: Orchestrator,
        sources: SourceList,
        dead_letters: DeadLetters,
        objects: ObjectStore,
        limits: BridgeLimits | None = None,
    ) -> None:
        self._limits = limits or BridgeLimits()
        self._router = Router(sources)
        self._dead_letters = dead_letters
        self._dispatcher = Dispatcher(orchestrator, objects, self._limits)
        self._batcher = Batcher(self._dispatcher.dispatch, self._limits.flush_interval)
        self._stop = asyncio.Event()
        self._running: dict[str, _Running] = {}
        self._counts = BridgeStatus()
        self._states: dict[str, str] = {}

    # --- running -------------------------------------------------------------------------------

    async def run(self) -> None:
        """Consume until `stop`."""
        try:
            while not self._stop.is_set():
                await self._reconcile()
                try:
                    await asyncio.wait_for(self._stop.wait(), self._limits.reconcile)
                except TimeoutError:
                    continue
        finally:
            await self._end(list(self._running))

    async def stop(self) -> None:
        """Take nothing new, finish what is in hand."""
        self._stop.set()

    def status(self) -> BridgeStatus:
        """Figures of now."""
        return self._counts.model_copy(
            update={
                "unrouted": self._router.unrouted,
                "signals": self._dispatcher.signals,
                "waiting": self._batcher.waiting,
                "consumers": dict(self._states),
                "held": self._dispatcher.held,
            }
        )

    async def _reconcile(self) -> None:
        """Start what a new source needs, stop what nobody needs any more."""
        try:
            sources = await self._router.sources()
        except SluiceError as error:
            log.warning("the sources can't be read", reason=str(error))
            return
        self._dispatcher.forget_others({record.config.source_id for record in sources})
        wanted = _wanted(sources)
        await self._end(
            [name for name, one in self._running.items() if wanted.get(name) != one.address]
        )
        for name, address in wanted.items():
            if name not in self._running:
                running = _Running(address, self._consumer(address))
                running.task = asyncio.create_task(self._keep_running(name, running))
                self._running[name] = running

    def _consumer(self, address: QueueAddress | str) -> Consumer:
        if isinstance(address, QueueAddress):
            return SqsConsumer(address, self._limits)
        return FolderConsumer(address)

    async def _keep_running(self, name: str, running: _Running) -> None:
        """Start again what fails, later each time, until it is ended."""
        wait = FIRST_RESTART
        while True:
            self._states[name] = "running"
            started = time.monotonic()
            try:
                await running.consumer.run(self)
            except SluiceError as error:
                self._states[name] = str(error)
                log.warning("a consumer failed", consumer=name, reason=str(error))
            except Exception as error:
                self._states[name] = repr(error)
                log.exception("a consumer failed", consumer=name)
            else:
                return
            if time.monotonic() - started > LONGEST_RESTART:
                wait = FIRST_RESTART
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(running.ended.wait(), wait)
            if running.ended.is_set():
                return
            wait = min(wait * 2, LONGEST_RESTART)
            running.consumer = self._consumer(running.address)

    async def _end(self, names: Sequence[str]) -> None:
        ended = [self._running.pop(name) for name in names]
        for running in ended:
            running.ended.set()
            await running.consumer.stop()
        tasks = {running.task for running in ended if running.task is not None}
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=self._limits.drain + 1)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for name in names:
            self._states.pop(name, None)

    # --- the sink of every consumer ------------------------------------------------------------

    async def take_message(self, body: bytes, attributes: Mapping[str, str]) -> None:
        """Decode, and deliver, drop or park."""
        self._counts.received += 1
        decoded = decode(body)
        if decoded.action is Action.DELIVER:
            await self._deliver(decoded.events, attributes.get("message_id"))
            return
        if decoded.action is Action.PARK:
            reason = decoded.reason or "no reason given"
            name = await self._dead_letters.park(reason, body, attributes)
            self._counts.parked += 1
            log.warning("a message was parked", id=name, reason=reason)
            return
        self._counts.dropped += 1
        log.debug("a message was dropped", reason=decoded.reason)

    async def take_events(self, events: Sequence[ChangeEvent]) -> None:
        """Every source that an event concerns gets it; return when all have."""
        await self._deliver(events)

    async def _deliver(self, events: Sequence[ChangeEvent], message_id: str | None = None) -> None:
        now = time.time()
        taken_at = datetime.fromtimestamp(now, UTC)
        # All are routed before any is added: a message is delivered as a whole or comes again.
        routed = [(event, await self._router.route(event)) for event in events]
        additions = []
        for event, source_ids in routed:
            for source_id in source_ids:
                self._counts.delivered += 1
                log.info("event", source=source_id, document=event.key, op=event.op.value)
                trace = EventTrace.of(event, taken_at, message_id)
                key = DirtyKey(key=event.key, hinted_at=now, events=(trace,))
                additions.append(self._batcher.add(source_id, key))
        _raise_first(await asyncio.gather(*additions, return_exceptions=True))

    async def take_crawl(self, origin: str, container: str) -> None:
        """Crawl every source of the container; one that is refused keeps no other from it."""
        crawls = [
            self._dispatcher.crawl(record.config.source_id)
            for record in await self._router.sources()
            if record.config.kind == origin and record.config.container == container
        ]
        _raise_first(await asyncio.gather(*crawls, return_exceptions=True))


def _raise_first(results: Sequence[BaseException | None]) -> None:
    for result in results:
        if result is not None:
            raise result


def _wanted(sources: Sequence[SourceRecord]) -> dict[str, QueueAddress | str]:
    """Consumers by name: a queue is consumed once, however many sources it feeds."""
    wanted: dict[str, QueueAddress | str] = {}
    for record in sources:
        config = record.config
        if (address := _queue_of(config)) is not None:
            wanted[address.url] = address
        elif config.kind == "folder" and config.options.get("watch") != "no":
            wanted[f"folder {config.container}"] = config.container
    return wanted


def _queue_of(config: SourceConfig) -> QueueAddress | None:
    url = config.options.get("queue_url")
    if url is None:
        return None
    return QueueAddress(
        url=url,
        endpoint_url=config.options.get("endpoint_url"),
        region=config.options.get("region", "us-east-1"),
    )
