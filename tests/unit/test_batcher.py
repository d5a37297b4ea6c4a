"""The batcher's lanes: what they promise about spacing, failures, and being left behind."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest

from bridge.batcher import Batcher
from contracts.errors import NotReachable
from contracts.events import DirtyKey

BOUND = 5.0  # seconds
INTERVAL = 0.05  # seconds


class Flushes:
    """Keeps what is flushed and when; fails or hangs as it is told."""

    def __init__(self) -> None:
        self.keys: list[list[DirtyKey]] = []
        self.events: list[int] = []
        self.at: list[float] = []
        self.failures: list[BaseException] = []
        self.free = asyncio.Event()
        self.free.set()

    async def __call__(self, source_id: str, keys: Sequence[DirtyKey], events: int) -> None:
        self.at.append(asyncio.get_running_loop().time())
        self.keys.append(list(keys))
        self.events.append(events)
        await self.free.wait()
        if self.failures:
            raise self.failures.pop(0)

    @property
    def names(self) -> list[list[str]]:
        return [sorted(key.key for key in keys) for keys in self.keys]


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(BOUND):
        while not condition():
            await asyncio.sleep(0.001)


async def test_an_idle_source_does_not_wait_for_the_interval() -> None:
    """The first event goes at once, however long the interval is."""
    batcher = Batcher(flushes := Flushes(), interval=3_600)
    async with asyncio.timeout(BOUND):
        await batcher.add("s", DirtyKey(key="a"))
    assert flushes.names == [["a"]]


async def test_flushes_of_one_source_keep_their_distance() -> None:
    """At most one signal an interval, however fast events come."""
    batcher = Batcher(flushes := Flushes(), INTERVAL)
    async with asyncio.timeout(BOUND):
        for n in range(5):
            await batcher.add("s", DirtyKey(key=str(n)))
    assert len(flushes.at) == 5
    gaps = [later - earlier for earlier, later in pairwise(flushes.at)]
    # The loop may wake a timer early by its clock's resolution.
    assert min(gaps) >= INTERVAL - 0.002


async def test_what_comes_during_a_flush_goes_with_the_next() -> None:
    """A key whose signal is under way is signalled again: it has changed since."""
    batcher = Batcher(flushes := Flushes(), INTERVAL)
    flushes.free.clear()
    first = asyncio.create_task(batcher.add("s", DirtyKey(key="a")))
    await until(lambda: flushes.keys)
    rest = [asyncio.create_task(batcher.add("s", DirtyKey(key=key))) for key in ("a", "b")]
    await until(lambda: batcher.waiting == 2)
    flushes.free.set()
    async with asyncio.timeout(BOUND):
        await asyncio.gather(first, *rest)
    assert flushes.names == [["a"], ["a", "b"]]


async def test_one_key_is_sent_once_with_its_newest_hint_and_every_event_counted() -> None:
    """Ten events of a document are one key, and ten events."""
    batcher = Batcher(flushes := Flushes(), INTERVAL)
    async with asyncio.timeout(BOUND):
        await asyncio.gather(
            *(batcher.add("s", DirtyKey(key="a", hinted_at=float(n))) for n in range(10))
        )
    assert flushes.keys == [[DirtyKey(key="a", hinted_at=9.0)]]
    assert flushes.events == [10]


async def test_a_failure_is_told_to_its_own_waiters_only() -> None:
    """Those who came during the failing flush are flushed by themselves."""
    batcher = Batcher(flushes := Flushes(), INTERVAL)
    flushes.failures.append(NotReachable("down"))
    flushes.free.clear()
    refused = asyncio.create_task(batcher.add("s", DirtyKey(key="a")))
    await until(lambda: flushes.keys)
    taken = asyncio.create_task(batcher.add("s", DirtyKey(key="b")))
    await until(lambda: batcher.waiting)
    flushes.free.set()
    async with asyncio.timeout(BOUND):
        with pytest.raises(NotReachable, match="down"):
            await refused
        await taken
    assert flushes.names == [["a"], ["b"]]


async def test_a_source_that_failed_is_tried_again_with_its_next_event() -> None:
    """A failure leaves no lane behind that nobody serves."""
    batcher = Batcher(flushes := Flushes(), INTERVAL)
    flushes.failures.append(NotReachable("down"))
    async with asyncio.timeout(BOUND):
        with pytest.raises(NotReachable):
            await batcher.add("s", DirtyKey(key="a"))
        await batcher.add("s", DirtyKey(key="a"))
    assert flushes.names == [["a"], ["a"]]


async def test_a_flush_that_is_cancelled_leaves_nobody_waiting() -> None:
    """Its waiters are told, and the source's next event is served."""
    batcher = Batcher(flushes := Flushes(), INTERVAL)
    flushes.failures.append(asyncio.CancelledError())
    flushes.free.clear()
    refused = asyncio.create_task(batcher.add("s", DirtyKey(key="a")))
    await until(lambda: flushes.keys)
    behind = asyncio.create_task(batcher.add("s", DirtyKey(key="b")))
    await until(lambda: batcher.waiting)
    flushes.free.set()
    ended, _ = await asyncio.wait({refused, behind}, timeout=BOUND)
    assert ended == {refused, behind}, "somebody waits for ever"
    for task in ended:
        with pytest.raises(NotReachable, match="given up"):
            await task
    async with asyncio.timeout(BOUND):
        await batcher.add("s", DirtyKey(key="c"))
    assert flushes.names == [["a"], ["c"]]


async def test_who_gives_up_takes_nobody_along() -> None:
    """A cancelled waiter's key still goes, and those beside it are told."""
    batcher = Batcher(flushes := Flushes(), INTERVAL)
    flushes.free.clear()
    tasks = [asyncio.create_task(batcher.add("s", DirtyKey(key=key))) for key in ("a", "b")]
    await until(lambda: flushes.keys)
    tasks[0].cancel()
    flushes.free.set()
    async with asyncio.timeout(BOUND):
        results = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    assert results[1] is None


async def test_an_idle_source_costs_nothing() -> None:
    """After its interval a source without news has neither lane nor task."""
    batcher = Batcher(Flushes(), INTERVAL)
    async with asyncio.timeout(BOUND):
        await asyncio.gather(*(batcher.add(str(n), DirtyKey(key="a")) for n in range(20)))
    await until(lambda: not batcher._lanes)
    assert batcher.waiting == 0
