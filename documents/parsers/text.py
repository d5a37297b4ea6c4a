"""Plain text, Markdown, code and logs: decoded by us, never by guessing what is binary."""

import codecs
import contextlib
import io
import re
from pathlib import Path
from typing import Final

from charset_normalizer import CharsetMatch, CharsetMatches, from_bytes

from contracts.errors import CorruptDocument, EmptyDocument
from documents.parsers.parsed import Content, Parsed

VERSION: Final = "text/3"

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
# Prose, whose writer may have meant headings and tables; a hash in anything else is a comment.
MARKED: Final = MARKDOWN | {"", ".txt", ".text", ".rst", ".adoc"}

SAMPLE: Final = 256 * 1024  # bytes that a guess looks at
LONGEST_TITLE: Final = 300  # characters
# Valid characters of several bytes for each invalid byte: what has more is damaged UTF-8.
DAMAGED: Final = 10
# Single bytes that aren't ASCII; fewer are too few for statistics.
FEW: Final = 64
LONGEST_CHARACTER: Final = 4  # bytes, in any encoding that is guessed
# The encoding that browsers assume (WHATWG Encoding, section 9). Statistics see hardly any
# difference between it and its neighbours, and name whichever comes first in the alphabet.
WESTERN: Final = "cp1252"
TURKISH: Final = "cp1254"  # comes later in the alphabet: where it is named it was better
AS_CLEAN: Final = 0.03  # of the share of unlikely characters; above it the texts differ
# A NUL, or a larger share of other control characters than this, says that it isn't text.
CONTROL_SHARE: Final = 0.02

_HIGH: Final = re.compile(rb"[\x80-\xff]+")
# A sign before a small letter is a letter of another encoding.
_SIGN_IN_WORD: Final = re.compile("[\u00aa\u00b2\u00b3\u00b9\u00ba][a-z]")
# Terminal orders are no sign of a binary: coloured logs have several in a line.
_CONTROL: Final = frozenset(map(chr, range(32))) - set("\t\n\r\f\a\b\x1b")

# Text that is the source of a document: the other parser knows what it says.
_FORMATS: Final = (b"%pdf-", b"{\\rtf", b"<!doctype html", b"<html", b"<?xml", b"<svg")

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
    # The replacement character stands where bytes had no meaning.
    lost = text.count("\ufffd")
    return Parsed(
        pages=(text,),
        media_type="text/markdown" if markdown else content.media_type or "text/plain",
        parser=VERSION,
        title=_title(text) if markdown else None,
        marked=content.suffix in MARKED or content.suffix not in SUFFIXES,
        warnings=(f"{lost} characters could not be decoded",) if lost else (),
    )


def looks_like_text(path: Path) -> bool:
    """Whether the first bytes of a file are text and not the source of a document."""
    with path.open("rb") as file:
        data = file.read(SAMPLE)
    if data.lstrip()[:32].lower().startswith(_FORMATS):
        return False
    if data.startswith(tuple(mark for mark, _ in _MARKS)) or _unmarked_utf16(data):
        return True
    return _is_text(data.decode("latin-1"))


def decode(data: bytes, name: str) -> str:
    """Text of the bytes: by its mark, as UTF-8, as UTF-16 without a mark, as damaged UTF-8, or by
    statistics."""
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
    return _damaged(data) or _guessed(data, name)


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
    control = sum(sample.count(character) for character in _CONTROL)
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


def _damaged(data: bytes) -> str | None:
    """UTF-8 with some bytes that aren't; its valid characters say that it is."""
    text = data.decode("utf-8", errors="replace")
    lost = text.count("\ufffd")
    # Each such character is one in the text and several in the data.
    several = sum(1 for character in text if character > "\x7f") - lost
    return text if several >= DAMAGED * lost and _is_text(text) else None


def _guessed(data: bytes, name: str) -> str:
    encoding = _encoding(data)
    if encoding is None:
        raise CorruptDocument(f"{name} isn't text in any encoding that we know")
    text = data.decode(encoding, errors="replace")
    if not _is_text(text):
        raise CorruptDocument(f"{name} isn't text, though its name says so")
    return text


def _encoding(data: bytes) -> str | None:
    """By the statistics of what isn't ASCII; where that is a few letters in Latin words, the
    Western one."""
    runs = _HIGH.findall(data)
    if len(runs) < FEW and all(len(run) == 1 for run in runs):
        return WESTERN
    sample = _sample(data)
    # The end of a sample may be the middle of a character.
    for end in range(len(sample), max(len(sample) - LONGEST_CHARACTER, 0), -1):
        matches = from_bytes(sample[:end])
        best = matches.best()
        if best is not None:
            return WESTERN if _as_well_western(matches, best) else best.encoding
    return None


def _as_well_western(matches: CharsetMatches, best: CharsetMatch) -> bool:
    """Whether the Western encoding makes as likely a text as the one that was found best."""
    if best.encoding == TURKISH:
        return False
    return any(
        match.encoding == WESTERN
        and match.chaos - best.chaos <= AS_CLEAN
        and not _SIGN_IN_WORD.search(str(match))
        for match in matches
    )


def _sample(data: bytes) -> bytes:
    """The lines that aren't ASCII, from the first such byte on: the others say nothing."""
    sample = bytearray()
    for line in io.BytesIO(data):
        if found := _HIGH.search(line):
            sample += line[found.start() if len(line) > SAMPLE else 0 :]
        if len(sample) >= SAMPLE:
            break
    return bytes(sample[:SAMPLE])


def _title(text: str) -> str | None:
    """The first heading of the first level."""
    for line in text[: 50 * LONGEST_TITLE].splitlines()[:50]:
        if line.startswith("# "):
            return line[2:].strip() or None
    return None
