"""The SQS consumer on a real queue, fed by a bucket's notifications."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import aiobotocore.session
import pytest

from bridge.consumers.sqs import QueueAddress, SqsConsumer
from bridge.dead_letters import ObjectDeadLetters
from bridge.limits import BridgeLimits
from bridge.memory import RecordingOrchestrator
from bridge.pipeline import Bridge
from contracts.errors import ConfigurationError, NotReachable
from contracts.events import ChangeEvent
from contracts.sources import SourceRecord
from sluice.demo_cloud import BUCKET, Cloud, local_cloud
from storage.objects.memory import MemoryObjects

BOUND = 30.0  # seconds
LIMITS = BridgeLimits(visibility=1, long_poll=1, drain=5.0)


class Taken:
    """A sink that keeps what it is given, and refuses or holds as it is told."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.refusals = 0
        self.hold: asyncio.Event | None = None

    async def take_message(self, body: bytes, attributes: Mapping[str, str]) -> None:
        assert attributes["message_id"]
        self.bodies.append(body)
        if self.hold is not None:
            await self.hold.wait()
        if self.refusals:
            self.refusals -= 1
            raise NotReachable("not now")

    async def take_events(self, events: Sequence[ChangeEvent]) -> None:
        raise AssertionError(events)

    async def take_crawl(self, origin: str, container: str) -> None:
        raise AssertionError(origin, container)


@asynccontextmanager
async def running(cloud: Cloud, sink: Taken, limits: BridgeLimits = LIMITS) -> AsyncIterator[None]:
    address = QueueAddress(cloud.queue_url, cloud.endpoint)
    consumer = SqsConsumer(address, limits)
    task = asyncio.create_task(consumer.run(sink))
    try:
        yield
    finally:
        await consumer.stop()
        await asyncio.wait_for(task, BOUND)


async def until(condition: object) -> None:
    async with asyncio.timeout(BOUND):
        while not condition():  # type: ignore[operator]
            await asyncio.sleep(0.02)


async def left(cloud: Cloud) -> int:
    """Messages in the queue, visible or not."""
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    session = aiobotocore.session.get_session()
    async with session.create_client(
        "sqs", endpoint_url=cloud.endpoint, region_name="us-east-1"
    ) as sqs:
        answer = await sqs.get_queue_attributes(QueueUrl=cloud.queue_url, AttributeNames=names)
    return sum(int(answer["Attributes"][name]) for name in names)


def about(sink: Taken, key: str) -> int:
    return sum(key.encode() in body for body in sink.bodies)


async def test_accepted_messages_are_deleted(tmp_path: Path) -> None:
    """Every notification of the bucket is handed over, and none is left in the queue."""
    sink = Taken()
    async with local_cloud(tmp_path / "log") as cloud:
        async with running(cloud, sink):
            for n in range(25):
                await cloud.put(f"document-{n:02}.md", b"text")
            await until(lambda: all(about(sink, f"document-{n:02}") for n in range(25)))
        assert await left(cloud) == 0


async def test_a_refused_message_comes_again(tmp_path: Path) -> None:
    """What wasn't accepted is in the queue until it is."""
    sink = Taken()
    async with local_cloud(tmp_path / "log") as cloud:
        async with running(cloud, sink):
            await until(lambda: about(sink, "TestEvent"))
            sink.refusals = 1
            await cloud.put("a.md", b"text")
            await until(lambda: about(sink, "a.md") == 2)
        assert await left(cloud) == 0


async def test_a_slow_message_stays_ours(tmp_path: Path) -> None:
    """While a message is handled its visibility is extended, so it isn't handled twice."""
    sink = Taken()
    async with local_cloud(tmp_path / "log") as cloud:
        async with running(cloud, sink):
            await until(lambda: about(sink, "TestEvent"))
            sink.hold = asyncio.Event()
            await cloud.put("slow.md", b"text")
            await until(lambda: about(sink, "slow.md"))
            await cloud.put("later.md", b"text")
            loop = asyncio.get_running_loop()
            held_until = loop.time() + 3 * LIMITS.visibility
            await until(lambda: loop.time() > held_until)
            assert about(sink, "slow.md") == 1
            sink.hold.set()
        assert await left(cloud) == 0


async def test_a_message_is_in_the_queue_until_it_is_accepted(tmp_path: Path) -> None:
    """While its signal isn't taken, a crash of ours would lose nothing."""
    sink = Taken()
    async with local_cloud(tmp_path / "log") as cloud:
        async with running(cloud, sink):
            await until(lambda: about(sink, "TestEvent"))
            sink.hold = asyncio.Event()
            await cloud.put("held.md", b"text")
            await until(lambda: about(sink, "held.md"))
            assert await left(cloud) == 1
            sink.hold.set()
        assert await left(cloud) == 0


async def test_a_message_that_comes_twice_is_handled_once(tmp_path: Path) -> None:
    """While it is in hand, its second coming only brings the handle that deletes it."""
    sink = Taken()
    async with local_cloud(tmp_path / "log") as cloud:
        limits = BridgeLimits(visibility=60, long_poll=1, drain=5.0)
        consumer = SqsConsumer(QueueAddress(cloud.queue_url, cloud.endpoint), limits)
        task = asyncio.create_task(consumer.run(sink))
        await until(lambda: about(sink, "TestEvent"))
        await until(lambda: not consumer._tasks)
        sink.hold = asyncio.Event()
        await cloud.put("twice.md", b"text")
        await until(lambda: about(sink, "twice.md"))
        [(name, first)] = consumer._handles.items()
        await show_again(cloud, first)
        await until(lambda: consumer._handles[name] != first)
        sink.hold.set()
        await consumer.stop()
        await asyncio.wait_for(task, BOUND)
        assert about(sink, "twice.md") == 1
        assert await left(cloud) == 0


async def show_again(cloud: Cloud, handle: str) -> None:
    """End a message's visibility, as if its time had run out."""
    session = aiobotocore.session.get_session()
    async with session.create_client(
        "sqs", endpoint_url=cloud.endpoint, region_name="us-east-1"
    ) as sqs:
        await sqs.change_message_visibility(
            QueueUrl=cloud.queue_url, ReceiptHandle=handle, VisibilityTimeout=0
        )


async def test_a_bucket_s_changes_reach_its_source(tmp_path: Path) -> None:
    """From the bucket over the queue to the coordinator: keys decoded, poison parked, nothing
    left."""
    objects, orchestrator = MemoryObjects(), RecordingOrchestrator()
    letters = ObjectDeadLetters(objects)
    key = "docs/a+b c%20ü.md"
    async with local_cloud(tmp_path / "log") as cloud:
        config = {
            "source_id": "s",
            "kind": "s3",
            "container": BUCKET,
            "options": {"queue_url": cloud.queue_url, "endpoint_url": cloud.endpoint},
        }
        record = SourceRecord.model_validate(
            {"config": config, "revision": 1, "created_at": "2026-01-01T00:00:00Z"}
        )

        async def sources() -> list[SourceRecord]:
            return [record]

        bridge = Bridge(
            orchestrator=orchestrator,
            sources=sources,
            dead_letters=letters,
            objects=objects,
            limits=LIMITS,
        )
        task = asyncio.create_task(bridge.run())
        await send(cloud, '{"odd": 1}')
        await cloud.put(key, b"text")
        await until(lambda: bridge.status().delivered == 1 and bridge.status().parked == 1)
        await cloud.delete(key)
        await until(lambda: bridge.status().delivered == 2)
        await bridge.stop()
        await asyncio.wait_for(task, BOUND)
        assert await left(cloud) == 0
    assert {dirty.key for _, signal in orchestrator.signals for dirty in signal.keys} == {key}
    assert sum(signal.events for _, signal in orchestrator.signals) == 2
    [letter] = [letter async for letter in letters.parked()]
    assert letter.body == b'{"odd": 1}'
    assert letter.attributes["queue"] == cloud.queue_url


async def send(cloud: Cloud, body: str) -> None:
    session = aiobotocore.session.get_session()
    async with session.create_client(
        "sqs", endpoint_url=cloud.endpoint, region_name="us-east-1"
    ) as sqs:
        await sqs.send_message(QueueUrl=cloud.queue_url, MessageBody=body)


async def test_a_stop_finishes_what_is_in_hand(tmp_path: Path) -> None:
    """The message that is being handled at the stop is handed over and deleted."""
    sink = Taken()
    sink.hold = asyncio.Event()
    async with local_cloud(tmp_path / "log") as cloud:
        consumer = SqsConsumer(QueueAddress(cloud.queue_url, cloud.endpoint), LIMITS)
        task = asyncio.create_task(consumer.run(sink))
        await until(lambda: bool(sink.bodies))
        await consumer.stop()
        sink.hold.set()
        await asyncio.wait_for(task, BOUND)
        assert await left(cloud) == 0


async def test_a_missing_queue_is_one_sentence(tmp_path: Path) -> None:
    """A queue that doesn't exist is a wrong setting."""
    async with local_cloud(tmp_path / "log") as cloud:
        address = QueueAddress(cloud.queue_url + "-missing", cloud.endpoint)
        with pytest.raises(ConfigurationError, match="doesn't exist"):
            await SqsConsumer(address, LIMITS).run(Taken())


async def test_an_endpoint_that_does_not_answer_is_one_sentence() -> None:
    """A refused connection is not reachable, and may be tried again."""
    address = QueueAddress("http://127.0.0.1:9/000000000000/q", "http://127.0.0.1:9")
    with pytest.raises(NotReachable):
        await SqsConsumer(address, LIMITS).run(Taken())
