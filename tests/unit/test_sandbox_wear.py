"""A child's wear is its own."""

from pathlib import Path

from documents.parsers.sandbox import MOST_RESIDENT, SandboxedParser, SandboxLimits


async def test_a_large_parent_makes_no_child_look_worn(tmp_path: Path) -> None:
    """A child is kept for the next document, however much memory the process has that starts it."""
    ballast = bytearray(MOST_RESIDENT + 50 * 1024 * 1024)
    ballast[::4096] = b"x" * len(ballast[::4096])
    path = tmp_path / "a.md"
    path.write_text("# A\n\nText.")
    parser = SandboxedParser(SandboxLimits(children=1))
    try:
        await parser.chunk(path, "a.md", None)
        [child] = parser._idle
        await parser.chunk(path, "a.md", None)
        assert parser._idle == [child]
    finally:
        await parser.close()
    del ballast
