"""Parsing in child processes: killed, timed out, replaced, and never in the way of the next."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from contracts.errors import (
    CorruptDocument,
    DangerousDocument,
    EmptyDocument,
    EncryptedDocument,
    OversizedDocument,
    ParseError,
    ParserDied,
    ParserTimedOut,
)
from documents.parsers.sandbox import SandboxedParser, SandboxLimits

CORPUS = Path(__file__).parents[2] / "sluice" / "demo_corpus" / "documents"


@asynccontextmanager
async def parser(**limits: float) -> AsyncIterator[SandboxedParser]:
    opened = SandboxedParser(SandboxLimits(**{"children": 1, **limits}))  # type: ignore[arg-type]
    try:
        yield opened
    finally:
        await opened.close()


def write(folder: Path, name: str, content: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def slow(folder: Path) -> Path:
    """Takes seconds to cut: a text without structure, large."""
    return write(folder, "slow.txt", "word " * 6_000_000)


async def good(opened: SandboxedParser, folder: Path) -> None:
    found = await opened.chunk(write(folder, "good.md", "# Good\n\nText."), "good.md", None)
    assert found.chunks[0].body == "# Good\n\nText."


def children_of(opened: SandboxedParser) -> list[int]:
    return [child.process.pid for child in [*opened._idle, *opened._busy]]


async def busy_child(opened: SandboxedParser) -> int:
    async with asyncio.timeout(10):
        while not opened._busy:
            await asyncio.sleep(0.01)
    return next(iter(opened._busy)).process.pid


async def test_a_killed_parser_costs_its_document_only(tmp_path: Path) -> None:
    """SIGKILL in the middle fails that document as ParserDied, and the next one is fine."""
    async with parser() as opened:
        task = asyncio.create_task(opened.chunk(slow(tmp_path), "slow.txt", None))
        os.kill(await busy_child(opened), signal.SIGKILL)
        with pytest.raises(ParserDied, match="SIGKILL"):
            await task
        await good(opened, tmp_path)


async def test_a_parser_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    """The time limit ends the process, and the next document is fine."""
    async with parser(seconds=0.5) as opened:
        await opened.warm()
        [pid] = children_of(opened)
        with pytest.raises(ParserTimedOut):
            await opened.chunk(slow(tmp_path), "slow.txt", None)
        assert not Path(f"/proc/{pid}").exists()
        await good(opened, tmp_path)


async def test_a_child_that_died_between_two_documents_is_replaced(tmp_path: Path) -> None:
    """No document is charged with a death that it had no part in."""
    async with parser() as opened:
        await good(opened, tmp_path)
        [pid] = children_of(opened)
        os.kill(pid, signal.SIGKILL)
        await opened._idle[0].process.wait()
        await good(opened, tmp_path)


async def test_too_much_memory_ends_the_document(tmp_path: Path) -> None:
    """The memory limit fails the document that exceeds it, and no other."""
    async with parser(memory=700 * 1024 * 1024) as opened:
        with pytest.raises(ParserDied):
            await opened.chunk(slow(tmp_path), "slow.txt", None)
        await good(opened, tmp_path)


async def test_a_cancelled_document_ends_its_child(tmp_path: Path) -> None:
    """Cancellation kills the process that works for it."""
    async with parser() as opened:
        task = asyncio.create_task(opened.chunk(slow(tmp_path), "slow.txt", None))
        pid = await busy_child(opened)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not Path(f"/proc/{pid}").exists()
        await good(opened, tmp_path)


async def test_children_see_no_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What parses foreign content has nothing of ours in its environment."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-ours")
    async with parser() as opened:
        await good(opened, tmp_path)
        [pid] = children_of(opened)
        assert b"secret-of-ours" not in Path(f"/proc/{pid}/environ").read_bytes()


def running(pid: int) -> bool:
    """Whether a process is there, and no zombie that nobody waits for."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


async def gone(pid: int) -> None:
    async with asyncio.timeout(10):
        while running(pid):
            await asyncio.sleep(0.01)


async def test_what_a_parser_has_started_ends_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time limit ends the whole group, not the one process that we know."""
    note, program = tmp_path / "pid", tmp_path / "python"
    program.write_text(
        f'#!/bin/sh\nsleep 600 <&- >&- 2>&- &\necho $! > "{note}"\nexec "{sys.executable}" "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    async with parser(seconds=0.5) as opened:
        await opened.warm()
        helper = int(note.read_text())
        assert running(helper)
        with pytest.raises(ParserTimedOut):
            await opened.chunk(slow(tmp_path), "slow.txt", None)
        await gone(helper)


async def test_closing_ends_every_child(tmp_path: Path) -> None:
    """The idle ones and the one that works: its document fails, and nothing is left behind."""
    opened = SandboxedParser(SandboxLimits(children=2))
    await opened.warm()
    pids = children_of(opened)
    task = asyncio.create_task(opened.chunk(slow(tmp_path), "slow.txt", None))
    await busy_child(opened)
    home = Path(opened._home.name)
    await opened.close()
    with pytest.raises(ParserDied):
        await task
    assert len(pids) == 2
    assert not any(running(pid) for pid in pids)
    assert not home.exists()


async def test_documents_are_parsed_at_once_each_with_its_answer(tmp_path: Path) -> None:
    """There are as many at work as children, and the rest wait."""
    names = [f"{n}.md" for n in range(8)]
    for name in names:
        write(tmp_path, name, f"# Title {name}\n\nText.")
    async with parser(children=2) as opened:
        await opened.warm()
        tasks = [asyncio.create_task(opened.chunk(tmp_path / n, n, None)) for n in names]
        async with asyncio.timeout(10):
            while len(opened._busy) < 2:
                await asyncio.sleep(0)
        assert not opened._idle
        documents = await asyncio.gather(*tasks)
        assert len(children_of(opened)) == 2
    assert [document.title for document in documents] == [f"Title {name}" for name in names]


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("empty.md", EmptyDocument),
        ("half-a-letter.docx", CorruptDocument),
        ("not-really.txt", CorruptDocument),
        ("sealed.pdf", EncryptedDocument),
        ("swollen.docx", OversizedDocument),
    ],
)
async def test_a_broken_document_fails_with_its_class(name: str, error: type[ParseError]) -> None:
    """Each way to be broken has a class of its own."""
    async with parser() as opened:
        with pytest.raises(error):
            await opened.chunk(CORPUS / "broken" / name, name, None)


async def test_a_deep_document_is_refused_or_read_but_kills_nobody(tmp_path: Path) -> None:
    """Nesting of a hundred thousand levels ends as text or as an error of the tree."""
    deep = write(tmp_path, "deep.html", "<div>" * 100_000 + "text" + "</div>" * 100_000)
    async with parser() as opened:
        with contextlib.suppress(CorruptDocument, DangerousDocument, EmptyDocument, ParserDied):
            await opened.chunk(deep, "deep.html", None)
        await good(opened, tmp_path)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "latin-1", "gb18030"])
async def test_text_is_decoded_as_it_was_written(tmp_path: Path, encoding: str) -> None:
    """Marks, UTF-16 without one, and legacy encodings come out as the text that went in."""
    text = (
        "中文的文本文件应当被正确地解码。" * 8
        if encoding == "gb18030"
        else ("Größe und Gewicht der Fähre, façade déjà vu. " * 8)
    )
    if encoding == "utf-16-le":
        text = "Plain words of a report about ferries. " * 8
    path = write(tmp_path, "t.txt", text.encode(encoding))
    async with parser() as opened:
        found = await opened.chunk(path, "t.txt", None)
    assert found.chunks[0].body.startswith(text[:20])
