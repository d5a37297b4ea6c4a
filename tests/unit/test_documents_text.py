"""Plain text: which contents are text, in which encoding, and what in them is markup."""

from pathlib import Path

import pytest

from contracts.errors import UnsupportedDocument
from documents import pipeline
from documents.cleaning import clean, clean_line
from documents.parsers.parsed import Content
from documents.parsers.text import SAMPLE, decode


def content(folder: Path, name: str, data: bytes | str, media_type: str | None = None) -> Content:
    path = folder / "content"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return Content(path, name, media_type)


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("README", "binary/octet-stream"),
        ("README", "text/plain; charset=utf-8"),
        ("Makefile", "text/x-makefile"),
        ("notes.v2", None),
        ("settings.env", "application/octet-stream"),
    ],
)
def test_text_is_text_whatever_its_name_and_type(
    tmp_path: Path, name: str, media_type: str | None
) -> None:
    """An unknown ending or a store's type for what it doesn't know makes text no binary."""
    found = pipeline.chunk(content(tmp_path, name, "first = 1\nsecond = 2\n", media_type))
    assert [chunk.body for chunk in found.chunks] == ["first = 1\nsecond = 2"]


@pytest.mark.parametrize("name", ["tool.exe", "data", "film.mp4"])
def test_a_binary_of_an_unknown_type_is_refused(tmp_path: Path, name: str) -> None:
    """Bytes without a meaning are no text with one letter in it."""
    with pytest.raises(UnsupportedDocument):
        pipeline.chunk(content(tmp_path, name, b"MZ\x90\x00\x03" + bytes(200)))


def test_a_coloured_log_is_text_without_its_colours(tmp_path: Path) -> None:
    """Orders to a terminal are left out, and are no sign of a binary."""
    line = "\x1b[32mINFO\x1b[0m up \x1b]8;;http://x\x07link\x1b]8;;\x07\n"
    found = pipeline.chunk(content(tmp_path, "run.log", line * 3))
    assert found.chunks[0].body == "INFO up link\nINFO up link\nINFO up link"


def test_letters_that_come_late_are_not_lost() -> None:
    """The guess looks at what isn't ASCII, wherever it stands."""
    text = "plain words " * (SAMPLE // 8) + "\ncafé, déjà vu"
    assert decode(text.encode("latin-1"), "late.txt") == text


@pytest.mark.parametrize("encoding", ["gb18030", "shift_jis", "cp1251"])
def test_a_long_text_without_lines_keeps_its_encoding(encoding: str) -> None:
    """A sample that ends within a character doesn't hide the encoding."""
    text = {
        "gb18030": "中文的文本文件应当被正确地解码。这是一个很长的句子。",
        "shift_jis": "日本語の文書は正しく読まれなければならない。カタカナもある。",
        "cp1251": "Русский текст должен быть прочитан правильно, и это важно. ",
    }[encoding]
    whole = "x" + text * 12_000
    assert decode(whole.encode(encoding), "long.txt") == whole


def test_damaged_utf8_stays_utf8_and_says_so(tmp_path: Path) -> None:
    """One wrong byte turns no umlaut into two letters; the loss is a warning."""
    data = ("Größe und Höhe. " * 20).encode() + b"\xff end"
    found = pipeline.chunk(content(tmp_path, "d.txt", data))
    assert found.chunks[0].body.startswith("Größe und Höhe.")
    assert found.warnings == ("1 characters could not be decoded",)


@pytest.mark.parametrize("name", ["a.py", "a.yaml", "a.sh"])
def test_a_comment_is_no_heading(tmp_path: Path, name: str) -> None:
    """A hash in code begins a comment: nothing is cut there, nothing is below it."""
    [chunk] = pipeline.chunk(content(tmp_path, name, "# one\nx: 1\n\n# two\ny: 2\n")).chunks
    assert chunk.body == "# one\nx: 1\n\n# two\ny: 2"
    assert chunk.heading_path == ()


def test_a_title_is_one_clean_line(tmp_path: Path) -> None:
    """What a catalog keeps of a document has no control characters and a bound."""
    found = pipeline.chunk(content(tmp_path, "t.md", f"# A\x1b[1m b {'c' * 900}\n\nText."))
    assert found.title is not None
    assert found.title.startswith("A b ccc")
    assert len(found.title) <= pipeline.LONGEST_TITLE
    assert clean_line("a\x00\n b\ud800", 10) == "a b"


def test_cleaning_twice_changes_nothing() -> None:
    """Offsets are of the cleaned text: it must be a fixed point."""
    dirty = "\ufeffa\r\n\r\n\r\n\r\nb \t\n\x00c" + " " * 1_000_000 + "d\x1b[0m \ud800\n"
    assert clean(clean(dirty)) == clean(dirty)
