"""Group commit: what many ask for at once is done in one go."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


LINGER: Final = 0.05  # seconds that an item waits at most for others to come along
MOST: Final = 64  # items of one call that waits for no more


class Together(Generic[Item, Result]):
    """While one call is on its way the next one gathers; each caller waits for the call that its
    item is in. A call waits a moment for items that are on their way, and never where none is.

    Args:
        work: does it for several items; answers a result for each, in their order. What it raises
            every caller of that call gets.
        coming: how many items may come soon.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        coming: Callable[[], int] = lambda: 0,
    ) -> None:
        self._work = work
        self._coming = coming
        self._came = asyncio.Event()
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._serving: asyncio.Task[None] | None = None

    async def add(self, item: Item) -> Result:
        """Do it for the item, with whatever else has come until then."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        self._came.set()
        if self._serving is None:
            self._serving = asyncio.create_task(self._serve())
        return await future

    async def _serve(self) -> None:
        # What is ready in this turn of the loop goes along.
        await asyncio.sleep(0)
        while self._waiting:
            await self._gather()
            group, self._waiting = self._waiting, []
            try:
                results = await self._work([item for item, _ in group])
            except Exception as error:  # noqa: BLE001 - whoever waits is told, and decides
                for _, future in group:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, future), result in zip(group, results, strict=True):
                if not future.done():
                    future.set_result(result)
        self._serving = None

    async def _gather(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER):
                while self._coming() and len(self._waiting) < MOST:
                    self._came.clear()
                    await self._came.wait()
