"""Group commit: together what comes together, each with its own answer."""

import asyncio
from collections.abc import Sequence

import pytest

from activities.together import Together
from contracts.errors import StoreUnavailable

BOUND = 5.0  # seconds


class Slow:
    """Doubles numbers when it may; fails while it is told to."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.free = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self, items: Sequence[int]) -> list[int]:
        self.groups.append(list(items))
        await self.free.wait()
        if self.error is not None:
            raise self.error
        return [2 * item for item in items]


async def begun(slow: Slow, groups: int = 1) -> None:
    async with asyncio.timeout(BOUND):
        while len(slow.groups) < groups:
            await asyncio.sleep(0)


async def test_what_comes_meanwhile_goes_in_one_go() -> None:
    """The first goes at once with its peers, the rest with the next call; answers aren't mixed."""
    together = Together(slow := Slow())
    first = [asyncio.create_task(together.add(n)) for n in range(3)]
    await begun(slow)
    rest = [asyncio.create_task(together.add(n)) for n in range(3, 50)]
    await asyncio.sleep(0)
    slow.free.set()
    async with asyncio.timeout(BOUND):
        answers = await asyncio.gather(*first, *rest)
    assert answers == [2 * n for n in range(50)]
    assert slow.groups == [[0, 1, 2], list(range(3, 50))]


async def test_a_failure_is_that_of_its_group() -> None:
    """Whoever was in the failed call is told; the next one is made all the same."""
    together = Together(slow := Slow())
    slow.error = StoreUnavailable("the disk is full")
    lost = asyncio.create_task(together.add(1))
    await begun(slow)
    slow.free.set()
    with pytest.raises(StoreUnavailable):
        await lost
    slow.error = None
    async with asyncio.timeout(BOUND):
        assert await together.add(2) == 4


async def test_who_gives_up_takes_nobody_along() -> None:
    """Its item is done with the others, which get their answers."""
    together = Together(slow := Slow())
    gone, stays = [asyncio.create_task(together.add(n)) for n in (1, 2)]
    await begun(slow)
    gone.cancel()
    slow.free.set()
    async with asyncio.timeout(BOUND):
        assert await stays == 4
    assert slow.groups == [[1, 2]]


async def test_a_call_waits_for_what_is_on_its_way() -> None:
    """An item whose companions are expected goes with them, in one call."""
    coming = {2, 3}
    together = Together(slow := Slow(), lambda: len(coming))
    slow.free.set()

    async def come(number: int) -> int:
        coming.discard(number)
        return await together.add(number)

    waits = [asyncio.create_task(come(1))]
    for number in (2, 3):
        await asyncio.sleep(0)
        waits.append(asyncio.create_task(come(number)))
    assert await asyncio.gather(*waits) == [2, 4, 6]
    assert slow.groups == [[1, 2, 3]]


async def test_a_companion_that_does_not_come_is_not_waited_for_long() -> None:
    """One that is on its way for ever holds nobody up."""
    together = Together(slow := Slow(), lambda: 1)
    slow.free.set()
    async with asyncio.timeout(BOUND):
        assert await together.add(1) == 2
    assert slow.groups == [[1]]
