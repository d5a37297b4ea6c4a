"""The bridge over in-memory adapters: routed, gathered, handed over, acknowledged afterwards."""

import asyncio
import json
from collections.abc import Sequence

import pytest

from bridge.batcher import Batcher
from bridge.consumers.memory import MemoryConsumer
from bridge.dead_letters import ObjectDeadLetters
from bridge.dispatcher import Dispatcher
from bridge.limits import BridgeLimits
from bridge.memory import RecordingOrchestrator
from bridge.pipeline import FIRST_RESTART, Bridge
from bridge.router import Router, concerns
from contracts.errors import ConfigurationError, NotReachable, SluiceError
from contracts.events import ChangeEvent, ChangeSignal, DirtyKey, Operation
from contracts.sources import SourceRecord
from storage.objects.memory import MemoryObjects

QUICK = BridgeLimits(flush_interval=0.05, patience=0.2, first_retry=0.01, longest_retry=0.02)
BOUND = 5.0  # seconds


def source(source_id: str, **fields: object) -> SourceRecord:
    config = {"source_id": source_id, "kind": "s3", "container": "lake", **fields}
    return SourceRecord.model_validate(
        {"config": config, "revision": 1, "created_at": "2026-01-01T00:00:00Z"}
    )


def notification(*keys: str, bucket: str = "lake") -> bytes:
    return json.dumps(
        {
            "Records": [
                {
                    "eventSource": "aws:s3",
                    "eventVersion": "2.1",
                    "eventName": "ObjectCreated:Put",
                    "s3": {"bucket": {"name": bucket}, "object": {"key": key, "size": 1}},
                }
                for key in keys
            ]
        }
    ).encode()


def event(key: str) -> ChangeEvent:
    return ChangeEvent(origin="s3", op=Operation.CREATED, bucket="lake", key=key)


def bridge(orchestrator: RecordingOrchestrator, *sources: SourceRecord) -> Bridge:
    objects = MemoryObjects()

    async def listed() -> Sequence[SourceRecord]:
        return sources

    return Bridge(
        orchestrator=orchestrator,
        sources=listed,
        dead_letters=ObjectDeadLetters(objects),
        objects=objects,
        limits=QUICK,
    )


def keys_of(orchestrator: RecordingOrchestrator, source_id: str) -> set[str]:
    signals = [signal for name, signal in orchestrator.signals if name == source_id]
    return {key.key for signal in signals for key in signal.keys}


async def consumed(opened: Bridge, *bodies: bytes) -> MemoryConsumer:
    consumer = MemoryConsumer()
    for body in bodies:
        consumer.send(body)
    await consumer.stop()
    async with asyncio.timeout(BOUND):
        await consumer.run(opened)
    return consumer


@pytest.mark.parametrize(
    ("fields", "key", "wanted"),
    [
        ({}, "a", True),
        ({"prefix": "docs/"}, "docs/a", True),
        ({"prefix": "docs/"}, "doc", False),
        ({"include": ("*.md",)}, "x/a.md", True),
        ({"include": ("*.md",)}, "a.txt", False),
        ({"exclude": ("*.log",)}, "a.log", False),
        ({"container": "other"}, "a", False),
        ({"kind": "folder"}, "a", False),
    ],
)
def test_an_event_concerns_the_sources_that_may_have_it(
    fields: dict[str, object], key: str, *, wanted: bool
) -> None:
    """Kind, container, prefix and patterns decide."""
    assert concerns(source("s", **fields).config, event(key)) is wanted


async def test_every_source_that_an_event_concerns_gets_it() -> None:
    """Overlapping prefixes each have the key; the message is acknowledged once."""
    orchestrator = RecordingOrchestrator()
    opened = bridge(
        orchestrator, source("all"), source("docs", prefix="docs/"), source("x", prefix="x/")
    )
    consumer = await consumed(opened, notification("docs/a.md"))
    assert keys_of(orchestrator, "all") == keys_of(orchestrator, "docs") == {"docs/a.md"}
    assert not keys_of(orchestrator, "x")
    assert len(consumer.acknowledged) == 1


async def test_an_event_of_nobody_is_counted() -> None:
    """It is acknowledged, so that it doesn't come again for ever."""
    opened = bridge(RecordingOrchestrator(), source("s"))
    consumer = await consumed(opened, notification("a", bucket="unknown"))
    assert opened.status().unrouted == 1
    assert len(consumer.acknowledged) == 1


async def test_a_message_is_refused_while_its_signal_is() -> None:
    """What Temporal doesn't take in time is left to come again; nothing is dropped."""
    orchestrator = RecordingOrchestrator()
    orchestrator.failures.extend(NotReachable("down") for _ in range(1_000))
    consumer = await consumed(bridge(orchestrator, source("s")), notification("a"))
    assert consumer.refused
    assert not consumer.acknowledged


async def test_a_signal_that_is_taken_at_the_third_try_acknowledges() -> None:
    """A short absence of the server costs nothing."""
    orchestrator = RecordingOrchestrator()
    orchestrator.failures.extend([NotReachable("down"), NotReachable("down")])
    consumer = await consumed(bridge(orchestrator, source("s")), notification("a"))
    assert consumer.acknowledged
    assert keys_of(orchestrator, "s") == {"a"}


async def test_what_nobody_understands_is_parked_with_reason_and_original() -> None:
    """A poison message is kept, acknowledged, and holds up nothing behind it."""
    orchestrator = RecordingOrchestrator()
    objects = MemoryObjects()
    letters = ObjectDeadLetters(objects)
    opened = bridge(orchestrator, source("s"))
    opened._dead_letters = letters
    consumer = await consumed(opened, b'{"odd": 1}', notification("a"))
    assert len(consumer.acknowledged) == 2
    assert keys_of(orchestrator, "s") == {"a"}
    [parked] = [message async for message in letters.parked()]
    assert parked.body == b'{"odd": 1}'
    assert "odd" in parked.reason


async def test_a_message_that_can_not_be_parked_is_left() -> None:
    """Nothing is acknowledged that is kept nowhere."""

    class FullStore(MemoryObjects):
        async def put(self, key: str, data: bytes, *, if_absent: bool = False) -> bool:
            raise NotReachable("the disk is full")

    opened = bridge(RecordingOrchestrator(), source("s"))
    opened._dead_letters = ObjectDeadLetters(FullStore())
    consumer = await consumed(opened, b"not json")
    assert consumer.refused == [b"not json"]


async def test_a_crawl_goes_to_the_container_s_sources_only() -> None:
    """Others are not disturbed."""
    orchestrator = RecordingOrchestrator()
    opened = bridge(orchestrator, source("a"), source("b", container="other"))
    await opened.take_crawl("s3", "lake")
    assert [(name, signal.crawl) for name, signal in orchestrator.signals] == [("a", True)]


async def test_the_first_event_goes_at_once_and_the_rest_together() -> None:
    """An idle source waits for nothing; what follows within the interval is one signal."""
    flushes: list[list[str]] = []

    async def flush(_source: str, keys: Sequence[DirtyKey], _events: int) -> None:
        flushes.append([key.key for key in keys])

    batcher = Batcher(flush, interval=0.2)
    loop = asyncio.get_running_loop()
    started = loop.time()
    await batcher.add("s", DirtyKey(key="first"))
    assert loop.time() - started < 0.1
    await asyncio.gather(*(batcher.add("s", DirtyKey(key=f"k{n % 3}")) for n in range(30)))
    assert flushes[0] == ["first"]
    assert [sorted(keys) for keys in flushes[1:]] == [["k0", "k1", "k2"]]


async def test_a_slow_source_holds_up_nobody() -> None:
    """While one source's signal hangs another's goes through."""
    hanging = asyncio.Event()

    async def flush(source_id: str, _keys: Sequence[DirtyKey], _events: int) -> None:
        if source_id == "slow":
            await hanging.wait()

    batcher = Batcher(flush, interval=0.01)
    slow = asyncio.create_task(batcher.add("slow", DirtyKey(key="a")))
    async with asyncio.timeout(BOUND):
        await batcher.add("quick", DirtyKey(key="a"))
    assert not slow.done()
    hanging.set()
    await slow


async def test_everybody_who_waits_is_told_of_a_failure() -> None:
    """One refused signal fails each message that it stood for."""

    async def flush(_source: str, _keys: Sequence[DirtyKey], _events: int) -> None:
        raise NotReachable("down")

    batcher = Batcher(flush, interval=0.01)
    results = await asyncio.gather(
        *(batcher.add("s", DirtyKey(key=str(n))) for n in range(3)), return_exceptions=True
    )
    assert all(isinstance(result, SluiceError) for result in results)


async def test_many_keys_travel_in_a_segment() -> None:
    """A signal stays small: beyond 4 KB it carries a reference."""
    orchestrator, objects = RecordingOrchestrator(), MemoryObjects()
    dispatcher = Dispatcher(orchestrator, objects, QUICK)
    keys = [DirtyKey(key=f"folder/document-{n:05}") for n in range(500)]
    await dispatcher.dispatch("s", keys, 500)
    [(_, signal)] = orchestrator.signals
    assert not signal.keys
    [segment] = signal.segments
    stored = json.loads(await objects.get(segment))
    assert [record["key"] for record in stored] == [key.key for key in keys]


async def test_an_error_that_no_retry_mends_is_raised_at_once() -> None:
    """There is no waiting for what waiting doesn't change."""
    orchestrator = RecordingOrchestrator()
    orchestrator.failures.append(ConfigurationError("wrong namespace"))
    dispatcher = Dispatcher(orchestrator, MemoryObjects(), QUICK)
    with pytest.raises(ConfigurationError):
        await dispatcher.dispatch("s", [DirtyKey(key="a")], 1)
    assert not orchestrator.signals


async def test_the_sources_are_listed_once_a_second() -> None:
    """A burst of events asks the catalog once."""
    asked = 0
    now = 100.0

    async def listed() -> Sequence[SourceRecord]:
        nonlocal asked
        asked += 1
        return [source("s")]

    router = Router(listed, clock=lambda: now)
    for n in range(50):
        assert await router.route(event(str(n))) == ["s"]
    now = 101.5
    await router.route(event("late"))
    assert asked == 2


@pytest.mark.parametrize("member", [{"key": "k" * 5_000}, {"key": "\ud800"}], ids=["long", "odd"])
async def test_a_key_that_can_not_be_signalled_is_parked(member: dict[str, str]) -> None:
    """Its message is kept and acknowledged: it would fail every time."""
    opened = bridge(RecordingOrchestrator(), source("s"))
    consumer = await consumed(opened, notification(member["key"]))
    assert len(consumer.acknowledged) == 1
    assert opened.status().parked == 1


async def test_keys_of_a_signal_are_counted_in_bytes() -> None:
    """Three bytes a character are three bytes: the bound holds for every script."""
    orchestrator = RecordingOrchestrator()
    keys = [DirtyKey(key=f"{'日本語' * 60}{n}") for n in range(15)]
    await Dispatcher(orchestrator, MemoryObjects(), QUICK).dispatch("s", keys, 15)
    [(_, signal)] = orchestrator.signals
    assert len(signal.segments) == 1


async def test_a_source_added_within_the_second_gets_its_events() -> None:
    """Nobody's event is dropped before the sources were asked for again."""
    sources = [source("old")]

    async def listed() -> Sequence[SourceRecord]:
        return list(sources)

    router = Router(listed)
    assert await router.route(event("a")) == ["old"]
    sources.append(source("new", container="fresh"))
    late = event("b").model_copy(update={"bucket": "fresh"})
    assert await router.route(late) == ["new"]
    assert router.unrouted == 0


async def test_a_burst_asks_for_the_sources_once() -> None:
    """Those who come while the sources are being listed wait for that list."""
    asked = 0

    async def listed() -> Sequence[SourceRecord]:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0)
        return [source("s")]

    router = Router(listed)
    await asyncio.gather(*(router.route(event(str(n))) for n in range(100)))
    assert asked == 1


async def test_a_source_that_works_hides_no_held_one() -> None:
    """The status names what is held until that source itself takes a signal, or is gone."""

    class Partial(RecordingOrchestrator):
        async def signal_changed(self, source_id: str, signal: ChangeSignal) -> None:
            if source_id == "bad":
                raise NotReachable("bad is busy")
            await super().signal_changed(source_id, signal)

    dispatcher = Dispatcher(Partial(), MemoryObjects(), QUICK)
    with pytest.raises(NotReachable):
        await dispatcher.dispatch("bad", [DirtyKey(key="a")], 1)
    await dispatcher.dispatch("good", [DirtyKey(key="a")], 1)
    assert dispatcher.held == "bad is busy"
    dispatcher.forget_others({"good"})
    assert dispatcher.held is None


async def test_an_idle_source_is_signalled_within_five_milliseconds() -> None:
    """The best of some tries, so that a busy machine proves nothing."""
    loop = asyncio.get_running_loop()
    best = 1.0
    for n in range(10):
        orchestrator = RecordingOrchestrator()
        opened = bridge(orchestrator, source("s"))
        started = loop.time()
        task = asyncio.create_task(opened.take_message(notification(f"k{n}"), {}))
        await orchestrator.signalled.wait()
        best = min(best, loop.time() - started)
        await task
    assert best < 0.005


async def test_a_stop_does_not_wait_for_a_consumer_that_will_be_tried_later() -> None:
    """A queue that doesn't answer delays no shutdown."""
    address = "http://127.0.0.1:9"
    options = {"queue_url": f"{address}/0/q", "endpoint_url": address}
    opened = bridge(RecordingOrchestrator(), source("s", options=options))
    failed = asyncio.Event()

    class Refused:
        async def run(self, sink: object) -> None:
            failed.set()
            raise NotReachable("the queue doesn't answer")

        async def stop(self) -> None:
            return

    opened._consumer = lambda _: Refused()  # type: ignore[method-assign] # no network here
    task = asyncio.create_task(opened.run())
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(BOUND):
        await failed.wait()
        started = loop.time()
        await opened.stop()
        await task
    assert loop.time() - started < FIRST_RESTART / 2
