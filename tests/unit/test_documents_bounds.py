"""What a chunk costs: in time and in size no line makes it more than its own length."""

import time
from pathlib import Path

import pytest

from contracts.documents import Chunk
from contracts.errors import UnexpectedFailure
from documents.chunking import MOST, chunks
from documents.cleaning import clean
from documents.parsers.sandbox import SandboxedParser, SandboxLimits
from documents.parsing_report import report

LINES = {
    "hashes": lambda n: "# " + "#" * n + "x",
    "rule": lambda n: "| a |\n" + "|-" * (n // 2) + "x",
    "heading": lambda n: "# " + "word " * (n // 10) + "\n\n" + "text. " * (n // 12),
    "header": lambda n: (
        "|" + " a |" * (n // 8) + "\n|" + "-|" * (n // 8) + "\n" + "| b |\n" * (n // 24)
    ),
    "fences": lambda n: "```\n\n" * (n // 5),
    "blank": lambda n: "a" + "\u3000" * n + "b",
}


def cut(text: str) -> tuple[float, list[Chunk]]:
    started = time.process_time()
    found = chunks(clean(text))
    return time.process_time() - started, found


@pytest.mark.parametrize("name", LINES)
def test_cutting_takes_time_in_proportion(name: str) -> None:
    """Four times the text takes far less than the sixteen times of a quadratic way."""
    cut(LINES[name](1_000))
    short = max(cut(LINES[name](100_000))[0], 0.02)
    long, found = cut(LINES[name](400_000))
    assert long < 9 * short
    assert max(chunk.tokens for chunk in found) <= MOST


@pytest.mark.parametrize("name", LINES)
def test_chunks_are_not_larger_than_their_text(name: str) -> None:
    """Prefixes and heading paths repeat what is short only."""
    text = LINES[name](200_000)
    size = sum(
        len(chunk.embedded_text) + len("".join(chunk.heading_path)) for chunk in cut(text)[1]
    )
    assert size < 3 * len(text) + 1_000


def test_a_title_keeps_the_hash_of_its_name() -> None:
    """Hashes close a heading only behind a blank (CommonMark 0.31, section 4.2)."""
    found = chunks("# C#\n\nOne.\n\n# Two ##\n\nTwo.")
    assert [chunk.heading_path for chunk in found] == [("C#",), ("Two",)]


async def test_a_fault_of_ours_is_no_fault_of_the_document(tmp_path: Path) -> None:
    """A file that isn't there fails retryably, with its reason, and its process goes on."""
    parser = SandboxedParser(SandboxLimits(children=1))
    try:
        with pytest.raises(UnexpectedFailure, match="FileNotFoundError"):
            await parser.chunk(tmp_path / "gone.md", "gone.md", None)
        [child] = parser._idle
        assert child.alive
        answer = await report(tmp_path / "gone.md", parser)
        assert (answer.outcome, answer.error, answer.retryable) == (
            "failed",
            "UnexpectedFailure",
            True,
        )
        assert parser._idle == [child]
    finally:
        await parser.close()


async def test_a_parser_that_does_not_start_is_no_fault_of_the_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken installation is retried; it writes no document off."""
    monkeypatch.setattr("sys.executable", "/bin/false")
    parser = SandboxedParser(SandboxLimits(children=1))
    (tmp_path / "a.md").write_text("Text.")
    try:
        with pytest.raises(UnexpectedFailure, match="doesn't start"):
            await parser.chunk(tmp_path / "a.md", "a.md", None)
    finally:
        await parser.close()
