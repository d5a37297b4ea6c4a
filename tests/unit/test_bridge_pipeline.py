"""The bridge as a whole: what is acknowledged when, and which consumers run."""

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from bridge import pipeline
from bridge.dead_letters import ObjectDeadLetters
from bridge.limits import BridgeLimits
from bridge.memory import RecordingOrchestrator
from bridge.pipeline import Bridge
from contracts.errors import ConfigurationError, NotReachable, StoreUnavailable
from contracts.events import LONGEST_NAME, ChangeSignal
from contracts.sources import SourceRecord
from storage.objects.memory import MemoryObjects

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bridge.consumers import Sink
    from bridge.consumers.sqs import QueueAddress

QUICK = BridgeLimits(
    flush_interval=0.01, patience=0.05, first_retry=0.01, longest_retry=0.02, reconcile=0.01
)
BOUND = 5.0  # seconds
QUEUE = "http://127.0.0.1:9/000000000000/q"


def source(source_id: str, **fields: object) -> SourceRecord:
    config = {"source_id": source_id, "kind": "s3", "container": "lake", **fields}
    return SourceRecord.model_validate(
        {"config": config, "revision": 1, "created_at": "2026-01-01T00:00:00Z"}
    )


def queued(source_id: str, url: str = QUEUE, **options: str) -> SourceRecord:
    return source(source_id, options={"queue_url": url, **options})


def notification(*keys: str, bucket: str = "lake", name: str = "ObjectCreated:Put") -> bytes:
    entity = {"bucket": {"name": bucket}}
    records = [
        {
            "eventSource": "aws:s3",
            "eventVersion": "2.1",
            "eventName": name,
            "s3": {**entity, "object": {"key": key}},
        }
        for key in keys
    ]
    return json.dumps({"Records": records}).encode()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(BOUND):
        while not condition():
            await asyncio.sleep(0.001)


class Catalog:
    """The sources, changed and broken by the test."""

    def __init__(self, *sources: SourceRecord) -> None:
        self.sources: list[SourceRecord] = list(sources)
        self.fails = False
        self.asked = 0

    async def list(self) -> Sequence[SourceRecord]:
        self.asked += 1
        if self.fails:
            raise StoreUnavailable("the catalog is locked")
        return tuple(self.sources)


class Gated(RecordingOrchestrator):
    """Takes the signals of a source only when it may."""

    def __init__(self, *gated: str) -> None:
        super().__init__()
        self.gates = {name: asyncio.Event() for name in gated}
        self.refused: set[str] = set()

    async def signal_changed(self, source_id: str, signal: ChangeSignal) -> None:
        if source_id in self.gates:
            await self.gates[source_id].wait()
        if source_id in self.refused:
            raise ConfigurationError(f"{source_id} is refused")
        await super().signal_changed(source_id, signal)

    def keys(self, source_id: str) -> list[str]:
        signals = [signal for name, signal in self.signals if name == source_id]
        return sorted(key.key for signal in signals for key in signal.keys)


def bridge(
    catalog: Catalog, orchestrator: RecordingOrchestrator
) -> tuple[Bridge, ObjectDeadLetters]:
    objects = MemoryObjects()
    letters = ObjectDeadLetters(objects)
    opened = Bridge(
        orchestrator=orchestrator,
        sources=catalog.list,
        dead_letters=letters,
        objects=objects,
        limits=QUICK,
    )
    return opened, letters


# --- what is acknowledged when ---------------------------------------------------------------


async def test_a_key_says_which_event_named_it() -> None:
    """Kind, name and message of the event, and when it was taken, go with the key."""
    orchestrator = RecordingOrchestrator()
    opened, _ = bridge(Catalog(source("a")), orchestrator)
    await opened.take_message(notification("k"), {"message_id": "m" * 500})
    [(_, signal)] = orchestrator.signals
    [event] = signal.keys[0].events
    assert (event.origin, event.name) == ("s3", "ObjectCreated:Put")
    assert event.message_id == "m" * LONGEST_NAME
    assert event.taken_at is not None
    assert signal.keys[0].hinted_at == pytest.approx(event.taken_at.timestamp())


async def test_a_message_is_taken_when_all_of_its_signals_are() -> None:
    """One source that hasn't answered keeps the message, though another has."""
    orchestrator = Gated("slow")
    opened, _ = bridge(Catalog(source("quick"), source("slow")), orchestrator)
    task = asyncio.create_task(opened.take_message(notification("a.md"), {}))
    await until(lambda: orchestrator.keys("quick"))
    assert not task.done()
    orchestrator.gates["slow"].set()
    await asyncio.wait_for(task, BOUND)
    assert orchestrator.keys("slow") == ["a.md"]


async def test_one_refusal_refuses_the_message_after_the_others_were_told() -> None:
    """The message comes again; meanwhile the other source has its hint."""
    orchestrator = Gated()
    orchestrator.refused.add("bad")
    opened, _ = bridge(Catalog(source("bad"), source("good")), orchestrator)
    with pytest.raises(ConfigurationError, match="bad is refused"):
        await opened.take_message(notification("a.md"), {})
    assert orchestrator.keys("good") == ["a.md"]


async def test_records_of_one_message_go_in_one_signal() -> None:
    """A thousand records are not a thousand signals."""
    orchestrator = Gated()
    opened, _ = bridge(Catalog(source("s")), orchestrator)
    await opened.take_message(notification("a.md", "b.md", "a.md"), {})
    [(_, signal)] = orchestrator.signals
    assert [key.key for key in signal.keys] == ["a.md", "b.md"]
    assert signal.events == 3


async def test_a_message_that_can_not_be_routed_delivers_nothing() -> None:
    """When the catalog fails in the middle of its records the message comes again as a whole."""
    catalog, orchestrator = Catalog(source("s")), Gated()
    opened, _ = bridge(catalog, orchestrator)
    await opened.take_message(notification("before.md"), {})
    catalog.fails = True
    both = json.loads(notification("a.md"))
    both["Records"] += json.loads(notification("b.md", bucket="fresh"))["Records"]
    with pytest.raises(StoreUnavailable):
        await opened.take_message(json.dumps(both).encode(), {})
    assert orchestrator.keys("s") == ["before.md"]
    assert opened.status().delivered == 1


async def test_a_deletion_is_a_hint_like_any_other() -> None:
    """The key is signalled; what became of it the source says."""
    orchestrator = Gated()
    opened, _ = bridge(Catalog(source("s")), orchestrator)
    await opened.take_message(notification("a.md", name="ObjectRemoved:Delete"), {})
    assert orchestrator.keys("s") == ["a.md"]


async def test_what_changes_nothing_is_dropped_and_counted() -> None:
    """A test message of S3 is taken, parked nowhere, and signals nobody."""
    orchestrator = Gated()
    opened, letters = bridge(Catalog(source("s")), orchestrator)
    body = json.dumps({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "lake"})
    await opened.take_message(body.encode(), {})
    status = opened.status()
    assert (status.received, status.dropped, status.parked, status.signals) == (1, 1, 0, 0)
    assert [letter async for letter in letters.parked()] == []


async def test_a_letter_keeps_the_message_s_attributes() -> None:
    """Who looks at it can tell which queue and message it was."""
    opened, letters = bridge(Catalog(), Gated())
    await opened.take_message(b"not json", {"message_id": "m-1", "queue": QUEUE})
    [letter] = [letter async for letter in letters.parked()]
    assert letter.attributes == {"message_id": "m-1", "queue": QUEUE}
    assert letter.reason.startswith("not JSON")


async def test_figures_tell_what_has_happened() -> None:
    """Each message and event is in exactly one figure."""
    opened, _ = bridge(Catalog(source("a"), source("b", prefix="docs/")), Gated())
    for body in (notification("docs/x.md"), notification("y.md", bucket="pond"), b"?"):
        await opened.take_message(body, {})
    status = opened.status()
    assert (status.received, status.delivered, status.unrouted) == (3, 2, 1)
    assert (status.parked, status.dropped, status.signals, status.waiting) == (1, 0, 2, 0)


async def test_a_crawl_that_is_refused_is_said() -> None:
    """The consumer that asked for it has to ask again."""
    orchestrator = Gated()
    orchestrator.failures.append(NotReachable("down"))
    opened, _ = bridge(Catalog(source("s", kind="folder", container="/docs")), orchestrator)
    with pytest.raises(NotReachable):
        await opened.take_crawl("folder", "/docs")
    await opened.take_crawl("folder", "/docs")
    assert orchestrator.signals == [("s", ChangeSignal(crawl=True))]


async def test_a_crawl_goes_to_every_source_of_the_folder_that_can_take_it() -> None:
    """One source that is refused keeps no other from being crawled."""
    orchestrator = Gated()
    orchestrator.refused.add("a")
    folder = {"kind": "folder", "container": "/docs"}
    opened, _ = bridge(Catalog(source("a", **folder), source("b", **folder)), orchestrator)
    with pytest.raises(ConfigurationError, match="a is refused"):
        await opened.take_crawl("folder", "/docs")
    assert orchestrator.signals == [("b", ChangeSignal(crawl=True))]


# --- which consumers run ---------------------------------------------------------------------


class Recorded:
    """Every consumer that the bridge made, by the address that it was made for."""

    def __init__(self) -> None:
        self.made: list[Recorded.One] = []
        self.failures: list[Exception] = []

    class One:
        def __init__(self, address: "QueueAddress | str", failures: list[Exception]) -> None:
            self.address = address
            self.failures = failures
            self.running = False
            self.stopped = asyncio.Event()

        async def run(self, sink: "Sink") -> None:
            if self.failures:
                raise self.failures.pop(0)
            self.running = True
            await self.stopped.wait()
            self.running = False

        async def stop(self) -> None:
            self.stopped.set()

    def make(self, address: "QueueAddress | str") -> One:
        one = self.One(address, self.failures)
        self.made.append(one)
        return one

    @property
    def running(self) -> list["QueueAddress | str"]:
        return [one.address for one in self.made if one.running]


@asynccontextmanager
async def running(catalog: Catalog) -> "AsyncIterator[tuple[Bridge, Recorded]]":
    opened, _ = bridge(catalog, Gated())
    consumers = Recorded()
    opened._consumer = consumers.make  # type: ignore[method-assign] # no network here
    # A second between two lists is the router's; here the list is asked for each time.
    opened._router.sources = catalog.list  # type: ignore[method-assign] # no waiting here
    task = asyncio.create_task(opened.run())
    try:
        yield opened, consumers
    finally:
        await opened.stop()
        await asyncio.wait_for(task, BOUND)
    assert consumers.running == []
    assert opened.status().consumers == {}


def looked_twice(catalog: Catalog) -> Callable[[], bool]:
    """Whether the bridge has looked at the sources, and acted on what it saw."""
    before = catalog.asked
    return lambda: catalog.asked >= before + 2


async def test_consumers_come_and_go_with_their_sources() -> None:
    """A new source's queue is consumed, a removed one's isn't any more, others are left alone."""
    catalog = Catalog(queued("kept"))
    async with running(catalog) as (opened, consumers):
        await until(lambda: len(consumers.running) == 1)
        catalog.sources.append(source("docs", kind="folder", container="/docs"))
        await until(lambda: len(consumers.running) == 2)
        assert opened.status().consumers == {QUEUE: "running", "folder /docs": "running"}
        del catalog.sources[1]
        await until(lambda: len(consumers.running) == 1)
        await until(looked_twice(catalog))
        assert opened.status().consumers == {QUEUE: "running"}
        assert len(consumers.made) == 2


async def test_a_shared_queue_has_one_consumer() -> None:
    """It goes when the last of its sources has gone."""
    catalog = Catalog(queued("a"), queued("b"))
    async with running(catalog) as (_, consumers):
        await until(lambda: consumers.running)
        del catalog.sources[0]
        await until(looked_twice(catalog))
        assert len(consumers.made) == len(consumers.running) == 1
        catalog.sources.clear()
        await until(lambda: not consumers.running)


async def test_a_changed_address_begins_anew() -> None:
    """The old consumer ends, and one for the new endpoint starts under the same name."""
    catalog = Catalog(queued("s", region="us-east-1"))
    async with running(catalog) as (opened, consumers):
        await until(lambda: consumers.running)
        catalog.sources[:] = [queued("s", region="eu-west-1")]
        await until(lambda: len(consumers.made) == 2 and consumers.running)
        await until(lambda: consumers.running == [consumers.made[1].address])
        assert opened.status().consumers == {QUEUE: "running"}


@pytest.mark.parametrize(
    "record",
    [source("s"), source("s", kind="folder", container="/docs", options={"watch": "no"})],
    ids=["a bucket without a queue", "a folder that nobody shall watch"],
)
async def test_a_source_may_have_no_consumer(record: SourceRecord) -> None:
    """Crawls find its changes."""
    catalog = Catalog(record)
    async with running(catalog) as (_, consumers):
        await until(looked_twice(catalog))
        assert consumers.made == []


@pytest.mark.parametrize(
    ("failure", "state"),
    [
        (NotReachable("the queue doesn't answer"), "the queue doesn't answer"),
        (KeyError("defect"), "KeyError('defect')"),
    ],
)
async def test_a_consumer_that_fails_is_started_again(
    monkeypatch: pytest.MonkeyPatch, failure: Exception, state: str
) -> None:
    """The status says why it doesn't run; a new one takes its place, and the other goes on."""
    monkeypatch.setattr(pipeline, "FIRST_RESTART", 0.1)
    catalog = Catalog(queued("s"))
    async with running(catalog) as (opened, consumers):
        consumers.failures.append(failure)
        await until(lambda: opened.status().consumers.get(QUEUE) == state)
        await until(lambda: consumers.running)
        assert len(consumers.made) == 2
        assert opened.status().consumers == {QUEUE: "running"}


async def test_consumers_go_on_while_the_sources_can_not_be_read() -> None:
    """A catalog that is locked for a while ends nobody's work."""
    catalog = Catalog(queued("s"))
    async with running(catalog) as (_, consumers):
        await until(lambda: consumers.running)
        catalog.fails = True
        await until(looked_twice(catalog))
        assert len(consumers.made) == len(consumers.running) == 1
        catalog.fails = False
        catalog.sources.append(queued("t", url=f"{QUEUE}-2"))
        await until(lambda: len(consumers.running) == 2)
