"""The SQS consumer on a queue in memory: what a real queue does too seldom to wait for."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import pytest

from bridge.consumers.sqs import QueueAddress, SqsConsumer
from bridge.limits import BridgeLimits
from contracts.events import ChangeEvent

BOUND = 5.0  # seconds


class Queue:
    """Answers as SQS does. `closed` once its client is."""

    def __init__(self, messages: int) -> None:
        self.waiting = [
            {"MessageId": f"m{n}", "ReceiptHandle": f"r{n}", "Body": "{}"} for n in range(messages)
        ]
        self.asked: list[int] = []
        self.extended: list[str] = []
        self.deleted: list[str] = []
        self.lost: set[str] = set()
        self.deleting = asyncio.Event()
        self.may_delete = asyncio.Event()
        self.may_delete.set()
        self.closed = False

    async def receive_message(self, **call: object) -> dict[str, object]:
        wanted = call["MaxNumberOfMessages"]
        assert isinstance(wanted, int)
        self.asked.append(wanted)
        await asyncio.sleep(0)
        if not self.waiting:
            await asyncio.Event().wait()
        given, self.waiting = self.waiting[:wanted], self.waiting[wanted:]
        return {"Messages": given}

    async def change_message_visibility_batch(
        self, **call: list[dict[str, str]]
    ) -> dict[str, object]:
        entries = call["Entries"]
        self.extended += [entry["ReceiptHandle"] for entry in entries]
        lost = [entry["Id"] for entry in entries if entry["ReceiptHandle"] in self.lost]
        return {"Failed": [{"Id": name, "SenderFault": True} for name in lost]}

    async def delete_message_batch(self, **call: list[dict[str, str]]) -> dict[str, object]:
        self.deleting.set()
        await self.may_delete.wait()
        assert not self.closed
        self.deleted += [entry["ReceiptHandle"] for entry in call["Entries"]]
        return {}


class Broken(Queue):
    """A queue whose deletions fail in a way that nobody foresaw."""

    async def delete_message_batch(self, **call: list[dict[str, str]]) -> dict[str, object]:
        raise KeyError("Id")


class Sink:
    """Takes everything, or holds it."""

    def __init__(self) -> None:
        self.taken = 0
        self.free = asyncio.Event()
        self.free.set()

    async def take_message(self, body: bytes, attributes: Mapping[str, str]) -> None:
        self.taken += 1
        await self.free.wait()

    async def take_events(self, events: Sequence[ChangeEvent]) -> None:
        raise AssertionError(events)

    async def take_crawl(self, origin: str, container: str) -> None:
        raise AssertionError(origin, container)


def consumer(queue: Queue, limits: BridgeLimits | None = None) -> SqsConsumer:
    opened = SqsConsumer(QueueAddress("queue"), limits or BridgeLimits())

    @asynccontextmanager
    async def client() -> AsyncIterator[Queue]:
        try:
            yield queue
        finally:
            queue.closed = True

    opened._client = client  # type: ignore[method-assign] # the queue stands in for the network
    return opened


async def test_a_stop_waits_for_the_deletion_under_way() -> None:
    """What was accepted is deleted before the client is closed."""
    queue, sink = Queue(1), Sink()
    queue.may_delete.clear()
    opened = consumer(queue)
    task = asyncio.create_task(opened.run(sink))
    async with asyncio.timeout(BOUND):
        await queue.deleting.wait()
        await opened.stop()
        for _ in range(50):
            await asyncio.sleep(0)
        assert not queue.closed
        queue.may_delete.set()
        await task
    assert queue.deleted == ["r0"]


async def test_a_consumer_that_can_not_delete_ends() -> None:
    """It says so, instead of taking the same messages again for ever."""
    task = asyncio.create_task(consumer(Broken(1)).run(Sink()))
    ended, _ = await asyncio.wait({task}, timeout=BOUND)
    assert ended, "it goes on, and deletes nothing"
    with pytest.raises(KeyError):
        await task


async def test_no_more_is_received_than_has_a_place() -> None:
    """A message that waits for a place would be nobody's, and come again."""
    queue, sink = Queue(30), Sink()
    sink.free.clear()
    opened = consumer(queue, BridgeLimits(in_flight=14))
    task = asyncio.create_task(opened.run(sink))
    async with asyncio.timeout(BOUND):
        while sink.taken < 14:
            await asyncio.sleep(0)
        assert queue.asked == [10, 4]
        sink.free.set()
        while len(queue.deleted) < 30:
            await asyncio.sleep(0)
        await opened.stop()
        await task


async def test_a_lost_handle_is_extended_no_more() -> None:
    """A message that is somebody else's by now is left to them (elastic/beats#29480)."""
    queue, sink = Queue(2), Sink()
    queue.lost.add("r0")
    sink.free.clear()
    opened = consumer(queue, BridgeLimits(visibility=0))
    task = asyncio.create_task(opened.run(sink))
    async with asyncio.timeout(BOUND):
        while queue.extended.count("r1") < 3:
            await asyncio.sleep(0)
        sink.free.set()
        await opened.stop()
        await task
    assert queue.extended.count("r0") == 1
