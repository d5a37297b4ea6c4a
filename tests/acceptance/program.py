"""The program as a person starts it: `sluice up` as a process, and commands beside it."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from console.client import ApiClient

SLUICE = Path(sys.executable).parent / "sluice"
BOUND = 90.0  # seconds for anything that a test waits for
POLL = 0.05  # seconds


def environment(state: Path, **more: str) -> dict[str, str]:
    settings = {"SLUICE_STATE": str(state), "SLUICE_LOG_LEVEL": "info", "NO_COLOR": "1"}
    return {**os.environ, **settings, **more}


def run(state: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """One command, as a shell would run it."""
    return subprocess.run(
        [str(SLUICE), *arguments],
        env=environment(state, **more),
        cwd=state.parent,
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=False,
    )


@dataclass
class Up:
    """A running `sluice up`; `lines` are its log lines so far."""

    process: asyncio.subprocess.Process
    state: Path
    address: str
    lines: list[dict[str, Any]] = field(default_factory=list)
    watchers: list[Callable[[dict[str, Any]], None]] = field(default_factory=list)

    def client(self) -> ApiClient:
        key = json.loads((self.state / "api.json").read_text())["key"]
        return ApiClient(self.address, key)

    def kill(self) -> None:
        """Kill -9 of the stack, Temporal's server included."""
        for file in (self.state / "pids").iterdir():
            pid = json.loads(file.read_text())["pid"]
            os.kill(pid, signal.SIGKILL)
        self.process.kill()

    async def read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            if not line.startswith(b"{"):
                continue
            record = json.loads(line)
            self.lines.append(record)
            for watcher in list(self.watchers):
                watcher(record)


@asynccontextmanager
async def up(state: Path, **more: str) -> AsyncIterator[Up]:
    """Start the stack, wait until it answers, and end it as Ctrl-C does."""
    process = await asyncio.create_subprocess_exec(
        str(SLUICE),
        "up",
        "--json",
        env=environment(state, **more),
        cwd=state.parent,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        limit=1 << 22,
    )
    assert process.stdout is not None
    stack = Up(process, state, "")
    reading = asyncio.create_task(stack.read())
    try:
        async with asyncio.timeout(BOUND):
            announced = await process.stdout.readline()
        assert announced, stack.lines[-5:]
        stack.address = json.loads(announced)["api"]
        yield stack
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
        await asyncio.wait_for(process.wait(), BOUND)
        await reading
        # asyncio closes the pipes of a process only when somebody asks it to.
        process._transport.close()  # type: ignore[attr-defined]  # has no public name


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for something, but not for ever."""
    async with asyncio.timeout(BOUND):
        while not await condition():
            await asyncio.sleep(POLL)
