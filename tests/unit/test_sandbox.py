"""Parsing in child processes: killed, timed out, replaced, and never in the way of the next."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from contracts.errors import (
    CorruptDocument,
    DangerousDocument,
    EmptyDocument,
    EncryptedDocument,
    MissingText,
    OversizedDocument,
    ParseError,
    ParserDied,
    ParserTimedOut,
)
from documents.parsers import rich
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


async def test_pages_without_text_fail_as_such_without_recognition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A picture of text doesn't come out empty where Tesseract's data is missing."""
    monkeypatch.setattr(rich, "TESSDATA", tmp_path / "none")
    monkeypatch.setenv("TESSDATA_PREFIX", str(tmp_path))
    if rich.tessdata() is None:
        content = rich.Content(CORPUS / "broken" / "scan.pdf", "scan.pdf")
        with pytest.raises(MissingText):
            await asyncio.to_thread(rich.parse, content)


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
