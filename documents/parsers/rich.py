"""Office files, PDF, HTML, mail, books, archives: xberg in its hardened configuration."""

import asyncio
import re
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Final

import xberg

from contracts.errors import (
    CorruptDocument,
    DangerousDocument,
    EmptyDocument,
    EncryptedDocument,
    MissingText,
    OversizedDocument,
    ParseError,
    ParserTimedOut,
    UnsupportedDocument,
)
from documents.cleaning import clean_line
from documents.parsers.parsed import Content, Parsed
from documents.parsers.recognition import Recognition, find

VERSION: Final = "xberg/1.3.9-2"  # the parser's, and behind the dash ours

SECONDS: Final = 7_200  # beyond any limit of the sandbox, which is the one that counts
MEBIBYTE: Final = 1024 * 1024
LONGEST_NESTING: Final = 3  # archives in mails in archives
LONGEST_PATH: Final = 80  # characters of a member's name in its heading

# The parser's own text of these is their members' once more, in an order that changes.
ARCHIVES: Final = (
    "application/zip",
    "application/gzip",
    "application/x-tar",
    "application/x-7z-compressed",
)
# Formats whose pages without text are pictures of text.
PICTURES: Final = ("application/pdf", "image/")
# The parser puts a page's metadata before its text.
_FRONT_MATTER: Final = re.compile(r"\A---\n\n?(?:#* ?[\w-]+: .*\n\n?)+(?:---\n+)?")

# First match wins: the parser's exceptions differ in their message only.
_CLASSES: Final[tuple[tuple[str, type[ParseError]], ...]] = (
    ("password", EncryptedDocument),
    ("encrypted", EncryptedDocument),
    ("security violation", DangerousDocument),
    ("zip bomb", DangerousDocument),
    ("exceeds", OversizedDocument),
    ("too large", OversizedDocument),
    ("too many", OversizedDocument),
    ("nesting", DangerousDocument),
    ("depth", DangerousDocument),
    ("timed out", ParserTimedOut),
    ("timeout", ParserTimedOut),
    ("unsupported", UnsupportedDocument),
    ("no extractor", UnsupportedDocument),
    ("cannot detect", UnsupportedDocument),
    ("transcription", UnsupportedDocument),
    ("mime", UnsupportedDocument),
)


@cache
def suffixes() -> frozenset[str]:
    """Endings of names that the parser knows, lower case, with their dot."""
    return frozenset(f".{known.extension}" for known in xberg.list_supported_formats())


@cache
def media_types() -> frozenset[str]:
    """Media types that the parser knows."""
    return frozenset(known.mime_type for known in xberg.list_supported_formats())


def configuration(recognition: Recognition) -> xberg.ExtractionConfig:
    """The parser without caches, downloads, code grammars and threads; with limits.

    Without Tesseract's data character recognition is off. (Off together with a strategy is an
    error for every file.)
    """
    limits = xberg.SecurityLimits(
        max_archive_size=256 * MEBIBYTE,
        max_files_in_archive=5_000,
        max_content_size=64 * MEBIBYTE,
        max_pages=5_000,
    )
    configured = partial(
        xberg.ExtractionConfig,
        use_cache=False,
        output_format="markdown",
        escape_markdown=False,
        pages=xberg.PageConfig(extract_pages=True),
        max_archive_depth=2,
        extraction_timeout_secs=SECONDS,
        concurrency=xberg.ConcurrencyConfig(max_threads=1, max_concurrent_ocr=1),
        tree_sitter=xberg.TreeSitterConfig(enabled=False),
        security_limits=limits,
    )
    if recognition.data is None:
        return configured(disable_ocr=True)
    strategy = {"mode": "scanned_pages", "min_confidence": 0.5}
    return configured(
        ocr=_recognized_by(recognition.data, recognition.languages),
        ocr_strategy=strategy,  # type: ignore[arg-type]  # the binding takes a dict for it
    )


def _recognized_by(data: Path, languages: Sequence[str]) -> xberg.OcrConfig:
    stage = xberg.OcrPipelineStage(backend="tesseract")
    return xberg.OcrConfig(
        backend="tesseract",
        language=list(languages),
        tessdata_path=str(data),
        tesseract_config=xberg.TesseractConfig(use_cache=False),
        pipeline=xberg.OcrPipelineConfig(
            stages=[stage], quality_thresholds=xberg.OcrQualityThresholds()
        ),
    )


def parse(content: Content) -> Parsed:
    """Extract text page by page, members of archives and mails included."""
    if not content.path.stat().st_size:
        raise EmptyDocument(f"{content.name} is empty")
    recognition = find()
    given = xberg.ExtractInput(
        kind="bytes",
        bytes=content.path.read_bytes(),
        filename=Path(content.name).name,
        mime_type=_told(content),
    )
    try:
        result = asyncio.run(xberg.extract(given, configuration(recognition)))
    except Exception as error:
        raise _classified(content.name, error) from error
    if not result.results:
        raise CorruptDocument(f"{content.name} has nothing that the parser could read")
    return _parsed(content, result.results[0], recognized=recognition.data is not None)


def _told(content: Content) -> str | None:
    """The media type where it is the best that is known; else the parser looks itself."""
    known = content.plain_media_type
    return known if content.suffix not in suffixes() and known in media_types() else None


def _classified(name: str, error: Exception) -> ParseError:
    message = str(error)
    lowered = message.lower()
    for sign, kind in _CLASSES:
        if sign in lowered:
            return kind(f"{name}: {message}")
    return CorruptDocument(f"{name}: {message}")


def _parsed(content: Content, document: xberg.ExtractedDocument, *, recognized: bool) -> Parsed:
    if document.mime_type == "text/plain" and content.suffix not in suffixes():
        # Text doesn't come here: that is what the parser calls what it doesn't know.
        raise UnsupportedDocument(f"{content.name} is of no type that can be parsed")
    numbered = bool(document.pages)
    pages = list(_pages(document))
    empty = [number for number, page in enumerate(pages, 1) if not page.strip()]
    members = [text for child in _children(document) for text in _member(child)]
    if members and pages:
        pages[-1] = "\n\n".join([pages[-1], *members])
    pictures = document.mime_type.startswith(PICTURES)
    if not any(page.strip() for page in pages):
        if pictures and not recognized:
            raise MissingText(
                f"{content.name} has no text, only pictures of it: install Tesseract's data "
                "(`sluice doctor` says how) and try again"
            )
        raise EmptyDocument(f"{content.name} has no text")
    warnings = [f"page {number} has no text" for number in empty if pictures and numbered]
    return Parsed(
        pages=tuple(pages),
        media_type=document.mime_type,
        parser=VERSION,
        title=document.metadata.title or None,
        numbered=numbered,
        warnings=tuple(warnings),
    )


def _pages(document: xberg.ExtractedDocument) -> Iterator[str]:
    if not document.pages:
        yield _FRONT_MATTER.sub("", _own_text(document))
        return
    for page in document.pages:
        notes = page.speaker_notes
        yield f"{page.content}\n\nNotes: {notes}" if notes else page.content


def _own_text(document: xberg.ExtractedDocument) -> str:
    """The text without that of its members, which some formats have in both places."""
    if document.mime_type in ARCHIVES:
        return ""
    members = _children(document)
    places = [document.content.find(f"\n## {member.path}\n") for member in members]
    first = min((place for place in places if place >= 0), default=len(document.content))
    return document.content[:first]


def _children(document: xberg.ExtractedDocument) -> list[xberg.ArchiveEntry]:
    """Members by name: the parser gives them in an order that changes from call to call."""
    return sorted(document.children or [], key=lambda member: (member.path, member.result.content))


def _member(entry: xberg.ArchiveEntry, above: tuple[str, ...] = ()) -> Iterator[str]:
    """A member's text under a heading that names it, its own members after it."""
    path = (*above, clean_line(entry.path, LONGEST_PATH))
    if len(path) > LONGEST_NESTING:
        return
    text = "\n\n".join(_pages(entry.result)).strip()
    if text:
        # Of the first level, so that it ends what the member before it has opened.
        yield f"# {'/'.join(path)}\n\n{text}"
    for child in _children(entry.result):
        yield from _member(child, path)
