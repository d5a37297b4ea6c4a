"""Plain text, Markdown, code and logs: decoded by us, never by guessing what is binary."""

import codecs
import contextlib
from typing import Final

from charset_normalizer import from_bytes

from contracts.errors import CorruptDocument, EmptyDocument
from documents.parsers.parsed import Content, Parsed

VERSION: Final = "text/1"

SUFFIXES: Final = frozenset(
    {
        ".txt",
        ".text",
        ".md",
        ".markdown",
        ".rst",
        ".adoc",
        ".log",
        ".csv",
        ".tsv",
        ".json",
        ".jsonl",
        ".ndjson",
        ".yaml",
        ".yml",
        ".toml",
        ".ini",
        ".cfg",
        ".conf",
        ".properties",
        ".py",
        ".js",
        ".mjs",
        ".ts",
        ".tsx",
        ".jsx",
        ".java",
        ".kt",
        ".go",
        ".rs",
        ".c",
        ".h",
        ".cc",
        ".cpp",
        ".hpp",
        ".cs",
        ".rb",
        ".php",
        ".swift",
        ".scala",
        ".sh",
        ".bash",
        ".ps1",
        ".sql",
        ".r",
        ".lua",
        ".pl",
        ".css",
        ".scss",
        ".tf",
        ".hcl",
        ".proto",
        ".dockerfile",
        ".makefile",
        ".tex",
    }
)
MEDIA_TYPES: Final = frozenset(
    {
        "text/plain",
        "text/markdown",
        "text/csv",
        "application/json",
        "text/x-python",
        "application/x-ndjson",
        "application/yaml",
        "text/yaml",
    }
)
MARKDOWN: Final = frozenset({".md", ".markdown"})

SAMPLE: Final = 256 * 1024  # bytes that the guess of an encoding looks at
# A NUL, or a larger share of other control characters than this, says that it isn't text.
CONTROL_SHARE: Final = 0.02

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def parse(content: Content) -> Parsed:
    """Decode.

    Raises:
        EmptyDocument: nothing but blanks.
        CorruptDocument: not text in any encoding that we know.
    """
    text = decode(content.path.read_bytes(), content.name)
    if not text.strip():
        raise EmptyDocument(f"{content.name} has no text")
    markdown = content.suffix in MARKDOWN
    return Parsed(
        pages=(text,),
        media_type="text/markdown" if markdown else content.media_type or "text/plain",
        parser=VERSION,
        title=_title(text) if markdown else None,
    )


def decode(data: bytes, name: str) -> str:
    """Text of the bytes: by its mark, as UTF-8, as UTF-16 without a mark, or by statistics."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _strictly(data, encoding, name)
    with contextlib.suppress(UnicodeDecodeError):
        text = data.decode("utf-8")
        if _is_text(text):
            return text
    if unmarked := _unmarked_utf16(data):
        return _strictly(data, unmarked, name)
    if b"\0" in data:
        raise CorruptDocument(f"{name} isn't text, though its name says so")
    return _guessed(data, name)


def _strictly(data: bytes, encoding: str, name: str) -> str:
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise CorruptDocument(f"{name} isn't the {encoding} text that it starts as") from error
    if not _is_text(text):
        raise CorruptDocument(f"{name} isn't text, though its name says so")
    return text


def _is_text(text: str) -> bool:
    if "\0" in text:
        return False
    sample = text[:SAMPLE]
    control = sum(1 for character in sample if character < " " and character not in "\t\n\r\f")
    return control <= len(sample) * CONTROL_SHARE


def _unmarked_utf16(data: bytes) -> str | None:
    """UTF-16 of mostly Latin text has a zero in every other byte."""
    sample = data[:SAMPLE]
    if not sample or len(data) % 2:
        return None
    half = len(sample) // 2
    if sample[1::2].count(0) > half * 0.7 and sample[0::2].count(0) < half * 0.1:
        return "utf-16-le"
    if sample[0::2].count(0) > half * 0.7 and sample[1::2].count(0) < half * 0.1:
        return "utf-16-be"
    return None


def _guessed(data: bytes, name: str) -> str:
    best = from_bytes(data[:SAMPLE]).best()
    if best is None:
        raise CorruptDocument(f"{name} isn't text in any encoding that we know")
    try:
        text = data.decode(best.encoding)
    except (UnicodeDecodeError, LookupError):
        text = data.decode(best.encoding, errors="replace")
    if not _is_text(text):
        raise CorruptDocument(f"{name} isn't text, though its name says so")
    return text


def _title(text: str) -> str | None:
    """The first heading of the first level."""
    for line in text.splitlines()[:50]:
        if line.startswith("# "):
            return line[2:].strip() or None
    return None
