"""The dispatcher's patience, and the form that keys travel in."""

import asyncio
from itertools import pairwise

import pytest

from bridge.dispatcher import Dispatcher
from bridge.limits import BridgeLimits
from bridge.memory import RecordingOrchestrator
from contracts.errors import NotReachable, StoreUnavailable
from contracts.events import ChangeSignal, DirtyKey
from storage.objects.memory import MemoryObjects

BOUND = 5.0  # seconds
QUICK = BridgeLimits(patience=0.2, first_retry=0.01, longest_retry=0.04)
KEYS = [DirtyKey(key="a.md", hinted_at=1.5), DirtyKey(key="b.md", recheck=True)]


class Timed(RecordingOrchestrator):
    """Notes when it was asked, refused or not."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[float] = []

    async def signal_changed(self, source_id: str, signal: ChangeSignal) -> None:
        self.asked.append(asyncio.get_running_loop().time())
        await super().signal_changed(source_id, signal)


class FullStore(MemoryObjects):
    async def put(self, key: str, data: bytes, *, if_absent: bool = False) -> bool:
        raise StoreUnavailable("the disk is full")


def dispatcher(
    orchestrator: RecordingOrchestrator, limits: BridgeLimits = QUICK
) -> tuple[Dispatcher, MemoryObjects]:
    objects = MemoryObjects()
    return Dispatcher(orchestrator, objects, limits), objects


async def test_few_keys_travel_in_the_signal() -> None:
    """What fits needs no object, and is carried whole, with the events that it stands for."""
    orchestrator = RecordingOrchestrator()
    opened, objects = dispatcher(orchestrator)
    await opened.dispatch("s", KEYS, 7)
    assert orchestrator.signals == [("s", ChangeSignal(keys=tuple(KEYS), events=7))]
    assert [info async for info in objects.list("")] == []


@pytest.mark.parametrize(("over", "segments"), [(0, 0), (1, 1)])
async def test_the_bound_of_inline_keys_is_exact(over: int, segments: int) -> None:
    """Keys of exactly the bound are inline; with one byte less of room they are a segment."""
    size = sum(len(key.model_dump_json().encode()) for key in KEYS)
    orchestrator = RecordingOrchestrator()
    opened, _ = dispatcher(orchestrator, BridgeLimits(inline_bytes=size - over))
    await opened.dispatch("s", KEYS, 2)
    [(_, signal)] = orchestrator.signals
    assert (len(signal.segments), signal.events) == (segments, 2)


async def test_the_tries_of_a_signal_use_one_segment() -> None:
    """A server that is away for a while leaves no pile of objects."""
    orchestrator = RecordingOrchestrator()
    orchestrator.failures.extend([NotReachable("down")] * 3)
    limits = BridgeLimits(inline_bytes=1, first_retry=0.001, patience=BOUND)
    opened, objects = dispatcher(orchestrator, limits)
    await opened.dispatch("s", KEYS, 2)
    stored = [info.key async for info in objects.list("")]
    [(_, signal)] = orchestrator.signals
    assert stored == list(signal.segments)


async def test_a_segment_that_can_not_be_stored_sends_nothing() -> None:
    """A signal never names what isn't there; its messages come again."""
    orchestrator = RecordingOrchestrator()
    opened = Dispatcher(orchestrator, FullStore(), BridgeLimits(inline_bytes=1))
    with pytest.raises(StoreUnavailable):
        await opened.dispatch("s", KEYS, 2)
    assert not orchestrator.signals


async def test_patience_ends_with_the_error_itself() -> None:
    """After its time the last failure comes through, and not later than promised."""
    orchestrator = Timed()
    orchestrator.failures.extend(NotReachable(f"down {n}") for n in range(1_000))
    opened, _ = dispatcher(orchestrator)
    started = asyncio.get_running_loop().time()
    with pytest.raises(NotReachable) as caught:
        await opened.dispatch("s", KEYS, 2)
    assert str(caught.value) == f"down {len(orchestrator.asked) - 1}"
    assert len(orchestrator.asked) > 1
    assert orchestrator.asked[-1] - started <= QUICK.patience + 0.1
    assert not orchestrator.signals
    assert opened.signals == 0


async def test_waits_between_tries_double_to_their_limit() -> None:
    """A server in trouble is asked ever less often."""
    orchestrator = Timed()
    orchestrator.failures.extend([NotReachable("down")] * 4)
    opened, _ = dispatcher(
        orchestrator, BridgeLimits(patience=BOUND, first_retry=0.02, longest_retry=0.05)
    )
    await opened.dispatch("s", KEYS, 2)
    asked = orchestrator.asked
    waits = [later - earlier for earlier, later in pairwise(asked)]
    least = [0.02, 0.04, 0.05, 0.05]
    assert len(waits) == len(least)
    # The loop may wake a timer early by its clock's resolution.
    assert all(wait >= bound - 0.002 for wait, bound in zip(waits, least, strict=True)), waits


async def test_held_says_why_until_the_signal_is_taken() -> None:
    """Whoever looks at the status while a signal is tried sees what keeps it."""
    orchestrator = RecordingOrchestrator()
    orchestrator.failures.append(NotReachable("Temporal doesn't answer"))
    opened, _ = dispatcher(orchestrator)
    task = asyncio.create_task(opened.dispatch("s", KEYS, 2))
    async with asyncio.timeout(BOUND):
        while opened.held is None:
            await asyncio.sleep(0)
        assert opened.held == "Temporal doesn't answer"
        await task
    assert opened.held is None
    assert opened.signals == 1


async def test_a_fault_of_ours_is_not_tried_again() -> None:
    """What isn't in the error tree is a defect: it comes through at once."""

    class Defective(Timed):
        async def signal_changed(self, source_id: str, signal: ChangeSignal) -> None:
            self.asked.append(0.0)
            raise KeyError("defect")

    orchestrator = Defective()
    opened, _ = dispatcher(orchestrator)
    with pytest.raises(KeyError):
        await opened.dispatch("s", KEYS, 2)
    assert len(orchestrator.asked) == 1


async def test_a_crawl_is_one_signal_without_keys() -> None:
    """It says that every key may have changed, and is refused with the server's error."""
    orchestrator = RecordingOrchestrator()
    opened, _ = dispatcher(orchestrator)
    await opened.crawl("s")
    assert orchestrator.signals == [("s", ChangeSignal(crawl=True))]
    orchestrator.failures.append(NotReachable("down"))
    with pytest.raises(NotReachable):
        await opened.crawl("s")
