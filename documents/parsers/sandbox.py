"""The parser port over child processes that are killed, as a group, when they take too much."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from contracts import errors
from contracts.documents import ChunkedDocument
from contracts.errors import (
    OversizedDocument,
    ParserDied,
    ParserTimedOut,
    SluiceError,
    UnexpectedFailure,
)
from documents import pipeline
from documents.parsers.child import LENGTH_BYTES
from documents.parsers.parsed import Content
from documents.parsers.recognition import DATA_VARIABLE, Recognition, find

log = structlog.get_logger(__name__)

MEBIBYTE: Final = 1024 * 1024
READY_SECONDS: Final = 60.0  # until a new child has loaded its libraries
MOST_ANSWER: Final = 128 * MEBIBYTE  # bytes of one result
JOBS_PER_CHILD: Final = 5_000  # documents, after which a child is replaced; a start takes 0.7 s
MOST_RESIDENT: Final = 600 * MEBIBYTE  # bytes, beyond which a child is replaced


@dataclass(frozen=True)
class SandboxLimits:
    """What one document may take."""

    memory: int = 1_536 * MEBIBYTE  # bytes of address space
    seconds: float = 120.0
    children: int = 2


class _Child:
    """One child process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.jobs = 0
        self.resident = 0  # bytes at most so far

    @property
    def alive(self) -> bool:
        # The end of its output is seen before its exit status is.
        reader = self.process.stdout
        return self.process.returncode is None and reader is not None and not reader.at_eof()

    @property
    def worn(self) -> bool:
        return self.jobs >= JOBS_PER_CHILD or self.resident > MOST_RESIDENT

    async def ask(self, job: dict[str, str | None]) -> dict[str, str | int]:
        """One job. `EOFError` and `ConnectionError` say that the child has died."""
        data = json.dumps(job).encode()
        writer = self.process.stdin
        if writer is None:
            raise EOFError
        writer.write(len(data).to_bytes(LENGTH_BYTES, "big") + data)
        await writer.drain()
        answer = await self.read()
        self.jobs += 1
        self.resident = max(self.resident, int(answer["kilobytes"]) * 1024)
        return answer

    async def read(self) -> dict[str, str | int]:
        reader = self.process.stdout
        if reader is None:
            raise EOFError
        length = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big")
        if length > MOST_ANSWER:
            raise OversizedDocument(f"parsing made {length} bytes, and {MOST_ANSWER} are allowed")
        answer: dict[str, str | int] = json.loads(await reader.readexactly(length))
        return answer

    async def kill(self) -> None:
        """End the whole group, and wait for it."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()
        # asyncio closes the pipes of a process only when somebody asks it to.
        transport = getattr(self.process, "_transport", None)
        if transport is not None:
            transport.close()


class SandboxedParser:
    """Children are started when they are needed, kept warm, and replaced when worn.

    Args:
        limits: on each child.
        scratch: folder for what children leave while they work; None: the system's.
        recognition: what pictures of text are read with; None: what is installed.
    """

    def __init__(
        self,
        limits: SandboxLimits | None = None,
        scratch: Path | None = None,
        recognition: Recognition | None = None,
    ) -> None:
        self._limits = limits or SandboxLimits()
        self._places = asyncio.Semaphore(self._limits.children)
        self._idle: list[_Child] = []
        self._busy: set[_Child] = set()
        # A home that is empty: libraries look for caches and settings in it.
        self._home = tempfile.TemporaryDirectory(prefix="sluice-parser-", dir=scratch)
        self._recognition = recognition or find()
        self._fingerprint = pipeline.fingerprint(self._recognition)

    @property
    def fingerprint(self) -> str:
        """See `documents.pipeline.fingerprint`."""
        return self._fingerprint

    async def warm(self) -> None:
        """Start every child before the first document comes."""
        missing = self._limits.children - len(self._idle)
        self._idle.extend(await asyncio.gather(*(self._start() for _ in range(missing))))

    async def chunk(self, path: Path, doc_key: str, media_type: str | None) -> ChunkedDocument:
        """Chunks of the content, or the class of the error tree that it fails with."""
        job = {"path": str(path), "name": doc_key, "media_type": media_type}
        async with self._child() as child:
            try:
                async with asyncio.timeout(self._limits.seconds):
                    answer = await child.ask(job)
            except TimeoutError as error:
                raise ParserTimedOut(
                    f"{doc_key} took longer than {self._limits.seconds:.0f} s to parse: "
                    "SLUICE_PARSER_SECONDS says how long one document may take"
                ) from error
            except (EOFError, ConnectionError) as error:
                status = await child.process.wait()
                raise ParserDied(f"{doc_key} killed its parser ({_how(status)})") from error
        if "document" in answer:
            return ChunkedDocument.model_validate_json(str(answer["document"]))
        raise _error(str(answer["error"]), str(answer["message"]))

    async def close(self) -> None:
        """End the children."""
        children, self._idle = [*self._idle, *self._busy], []
        for child in children:
            await child.kill()
        self._home.cleanup()

    @asynccontextmanager
    async def _child(self) -> AsyncIterator[_Child]:
        """A child for one job. One that was cancelled, timed out or failed in its frames is
        killed; a job's own error leaves it usable."""
        async with self._places:
            child = await self._take()
            self._busy.add(child)
            jobs = child.jobs
            try:
                yield child
            finally:
                self._busy.discard(child)
                if child.jobs == jobs or child.worn or not child.alive:
                    await asyncio.shield(child.kill())
                else:
                    self._idle.append(child)

    async def _take(self) -> _Child:
        while self._idle:
            child = self._idle.pop()
            if child.alive:
                return child
            # It died between two jobs, so no document is to blame.
            await child.kill()
        return await self._start()

    async def _start(self) -> _Child:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "documents.parsers.child",
            str(self._limits.memory),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
            env=self._environment(),
        )
        child = _Child(process)
        try:
            async with asyncio.timeout(READY_SECONDS):
                await child.read()
        except BaseException as error:
            await asyncio.shield(child.kill())
            if isinstance(error, EOFError | TimeoutError):
                # No document is to blame for it.
                raise UnexpectedFailure(
                    "a parser process doesn't start: `sluice doctor` says what is missing"
                ) from error
            raise
        log.debug("parser started", child=process.pid)
        return child

    def _environment(self) -> dict[str, str]:
        """Nothing of ours but what Python needs: no credentials near foreign content."""
        kept = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "VIRTUAL_ENV", DATA_VARIABLE)
        environment = {name: os.environ[name] for name in kept if name in os.environ}
        places = {"HOME": self._home.name, "TMPDIR": self._home.name}
        return environment | places | self._recognition.environment()


def _how(status: int) -> str:
    if status < 0:
        return f"ended by {signal.Signals(-status).name}"
    return f"exit status {status}"


def _error(name: str, message: str) -> SluiceError:
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, SluiceError):
        return kind(message)
    return UnexpectedFailure(f"{name}: {message}")


class InProcessParser:
    """The same pipeline without isolation, for tests of what is around it."""

    @property
    def fingerprint(self) -> str:
        """See `documents.pipeline.fingerprint`."""
        return pipeline.fingerprint()

    async def chunk(self, path: Path, doc_key: str, media_type: str | None) -> ChunkedDocument:
        """Chunks of the content."""
        content = Content(path, doc_key, media_type)
        return await asyncio.to_thread(pipeline.chunk, content)

    async def close(self) -> None:
        """Nothing is held open."""
