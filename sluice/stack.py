"""The local stack: Temporal's server, workers, bridge and HTTP API on one state folder."""

import asyncio
import contextlib
import gc
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import structlog
import uvicorn
from fastapi import FastAPI

from activities.ports import Ports
from activities.recovery import recover_stores
from bridge.pipeline import Bridge
from console.api import create_app
from contracts.errors import ConfigurationError, NotReachable
from contracts.events import ChangeSignal
from contracts.ports import Embedder
from documents.fingerprints import document_fingerprint
from sluice.local import TemporalServer
from sluice.orchestrator import TemporalOrchestrator, connect
from sluice.settings import Settings
from sluice.state import ApiAccess, StateFolder
from sluice.telemetry import configure, route_temporal_core
from sluice.wiring import Wiring, open_wiring
from sluice.worker import serve

log = structlog.get_logger(__name__)

REQUEST_DRAIN = 5  # seconds for requests that the API is answering
DEFAULT_NAMESPACE = "default"  # which every Temporal server has
DRAIN = 15.0  # seconds for bridge and workers to finish what they have in hand


class Temporal(NamedTuple):
    """A server of Temporal's. One that is `fresh` knows nothing of what was collected before."""

    address: str  # HOST:PORT
    namespace: str
    fresh: bool


@dataclass(frozen=True)
class Stack:
    """A running stack."""

    access: ApiAccess
    temporal: Temporal
    wiring: Wiring
    bridge: Bridge
    failed: asyncio.Event  # set when a part of the stack ends by itself


@asynccontextmanager
async def running_stack(
    settings: Settings, embedder: Embedder | None = None
) -> AsyncIterator[Stack]:
    """Everything, from the lock to the first answer, and back down in the reverse order.

    Args:
        settings: where and how.
        embedder: instead of the one that the settings name.
    """
    state = StateFolder(settings.state)
    with state.lock("sluice up"):
        for role in state.pids.end_leftovers():
            log.info("ended what an earlier stack left running", role=role)
        route_temporal_core()
        failed = asyncio.Event()
        async with _temporal(settings, state, failed) as temporal:
            client = await connect(temporal.address, temporal.namespace)
            orchestrator = TemporalOrchestrator(client)
            async with open_wiring(settings, state, orchestrator, embedder=embedder) as wiring:
                await recover_stores(wiring.ports)
                bridge = wiring.bridge()
                app = create_app(wiring.services(bridge))
                async with (
                    _background("workers", lambda stop: serve(client, wiring.ports, stop), failed),
                    _background("bridge", lambda stop: _run_bridge(bridge, stop), failed),
                    _api(app, settings) as url,
                ):
                    # What is loaded stays: the collector needn't walk through it again and again.
                    gc.freeze()
                    await _wake(wiring.ports, crawl=temporal.fresh)
                    with state.announced(url) as access:
                        yield Stack(access, temporal, wiring, bridge, failed)


async def run_up(settings: Settings, announce: Callable[[Stack], None]) -> None:
    """`sluice up`: run until SIGINT or SIGTERM.

    Raises:
        NotReachable: a part of the stack ended by itself.
    """
    configure(settings.log_level)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with running_stack(settings) as stack:
        announce(stack)
        waits = [asyncio.create_task(stop.wait()), asyncio.create_task(stack.failed.wait())]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        if stack.failed.is_set():
            raise NotReachable(
                "a part of the stack ended by itself: the lines above and "
                f"{StateFolder(settings.state).temporal_log} say why; start it again"
            )


async def _wake(ports: Ports, *, crawl: bool) -> None:
    """Start every source's coordinator, so that it adopts or ends what it finds unresolved. A
    source that was never ingested is crawled anyway, and so is one with documents that failed
    under another parser or embedder than today's: they may come through now."""
    catalog = ports.catalog
    today = document_fingerprint(ports.parser.fingerprint, ports.embedder.space)
    for record in await catalog.sources():
        source_id = record.config.source_id
        first = not await catalog.runs(source_id, limit=1)
        failures = await catalog.known_failures(source_id)
        otherwise = any(failure.fingerprint != today for failure in failures.values())
        signal = ChangeSignal(crawl=crawl or first or otherwise)
        await ports.orchestrator.signal_changed(source_id, signal)


@asynccontextmanager
async def _temporal(
    settings: Settings, state: StateFolder, failed: asyncio.Event
) -> AsyncIterator[Temporal]:
    """The server that is named, or our own for as long."""
    if settings.temporal_address is not None:
        namespace = settings.temporal_namespace or DEFAULT_NAMESPACE
        yield Temporal(settings.temporal_address, namespace, fresh=False)
        return
    async with (
        TemporalServer(state, settings.temporal_namespace) as server,
        _background("Temporal's server", partial(_keep_alive, server), failed),
    ):
        yield Temporal(server.address, server.namespace, server.fresh)


async def _keep_alive(server: TemporalServer, stop: asyncio.Event) -> None:
    keeping = asyncio.create_task(server.keep_alive())
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({keeping, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if keeping.done():
        await keeping
        return
    keeping.cancel()


async def _run_bridge(bridge: Bridge, stop: asyncio.Event) -> None:
    running = asyncio.create_task(bridge.run())
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    await bridge.stop()
    await running


@asynccontextmanager
async def _background(
    name: str,
    run: Callable[[asyncio.Event], Coroutine[None, None, None]],
    failed: asyncio.Event,
) -> AsyncIterator[None]:
    """Run beside the body; asked to stop afterwards, and cancelled if it doesn't in time."""
    stop = asyncio.Event()
    task = asyncio.create_task(run(stop))

    def ended(finished: "asyncio.Task[None]") -> None:
        if stop.is_set() or finished.cancelled():
            return
        log.error("a part of the stack ended", part=name, error=str(finished.exception()))
        failed.set()

    task.add_done_callback(ended)
    try:
        yield
    finally:
        stop.set()
        done, _ = await asyncio.wait({task}, timeout=DRAIN)
        if not done:
            log.warning("a part of the stack did not stop in time", part=name)
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


class _Server(uvicorn.Server):
    """Uvicorn without its signal handlers: the stack has its own."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield


@asynccontextmanager
async def _api(app: FastAPI, settings: Settings) -> AsyncIterator[str]:
    """The HTTP API on a bound socket, so that its port is known before it is told to anybody."""
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((settings.api_host, settings.api_port))
    except OSError as error:
        listener.close()
        raise ConfigurationError(
            f"the API can't listen on {settings.api_host}:{settings.api_port} "
            f"({error.strerror}): choose another with SLUICE_API_PORT"
        ) from error
    host, port = listener.getsockname()[:2]
    server = _Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=REQUEST_DRAIN,
        )
    )
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        while not server.started and not task.done():
            await asyncio.sleep(0.01)
        yield f"http://{host}:{port}"
    finally:
        server.should_exit = True
        await task
        listener.close()
