"""How commands reach the desk: through a running stack, or by opening the state themselves."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from console.client import ApiClient
    from console.desk import Desk
    from sluice.settings import Settings
    from sluice.state import StateFolder

LOCK_WAIT: Final = 10.0  # seconds that another command, or a starting stack, may take
POLL: Final = 0.1  # seconds

T = TypeVar("T")


def ask(call: Callable[["Desk"], Awaitable[T]]) -> T:
    """The answer of the desk to one call."""
    from sluice.settings import load_settings  # noqa: PLC0415 - `--help` doesn't need it
    from sluice.telemetry import configure  # noqa: PLC0415

    async def answer() -> T:
        async with open_desk(settings) as desk:
            return await call(desk)

    settings = load_settings()
    configure("debug" if settings.log_level == "debug" else "warning")
    return asyncio.run(answer())


@asynccontextmanager
async def open_desk(settings: "Settings") -> AsyncIterator["Desk"]:
    """The desk of the running stack; without one, the state folder's own, under its lock.

    Raises:
        StateLocked: somebody holds the state folder and doesn't answer.
    """
    from contracts.errors import ConfigurationError, StoreUnavailable  # noqa: PLC0415
    from sluice.state import StateFolder, StateLocked  # noqa: PLC0415

    state = StateFolder(settings.state)
    deadline = time.monotonic() + LOCK_WAIT
    async with AsyncExitStack() as stack:
        while True:
            try:
                stack.enter_context(state.lock("a sluice command"))
            except StateLocked:
                client = _client(state)
                if client is not None:
                    yield await stack.enter_async_context(client)
                    return
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(POLL)
            except (StoreUnavailable, ConfigurationError):
                # Nothing can be written there now, and a stack that runs can still be asked.
                client = _client(state)
                if client is None:
                    raise
                yield await stack.enter_async_context(client)
                return
            else:
                yield await _open_local(settings, stack)
                return


def _client(state: "StateFolder") -> "ApiClient | None":
    from console.client import ApiClient  # noqa: PLC0415

    access = state.known_access()
    if access is None or access.address is None:
        return None
    return ApiClient(access.address, access.key)


async def _open_local(settings: "Settings", stack: AsyncExitStack) -> "Desk":
    from console.local_desk import LocalDesk  # noqa: PLC0415
    from sluice.wiring import open_services  # noqa: PLC0415 - loads every engine

    return LocalDesk(await stack.enter_async_context(open_services(settings)))
