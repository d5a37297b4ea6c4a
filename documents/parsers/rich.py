"""Office files, PDF, HTML, mail, books, archives: xberg in its hardened configuration."""

import asyncio
import os
import re
from collections.abc import Iterator
from functools import partial
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
from documents.parsers.parsed import Content, Parsed

VERSION: Final = "xberg/1.3.9"

SECONDS: Final = 100  # the parser's own limit; the sandbox's is the one that counts
MEBIBYTE: Final = 1024 * 1024
TESSDATA: Final = Path("/usr/share/tesseract-ocr/5/tessdata")
LONGEST_NESTING: Final = 3  # archives in mails in archives

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
    ("mime", UnsupportedDocument),
)


def tessdata() -> Path | None:
    """Where Tesseract's data is, if it is installed."""
    for place in (os.environ.get("TESSDATA_PREFIX"), str(TESSDATA)):
        if place and any(Path(place).glob("*.traineddata")):
            return Path(place)
    return None


def configuration(data: Path | None) -> xberg.ExtractionConfig:
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
    if data is None:
        return configured(disable_ocr=True)
    strategy = {"mode": "scanned_pages", "min_confidence": 0.5}
    return configured(
        ocr=_recognition(data),
        ocr_strategy=strategy,  # type: ignore[arg-type]  # the binding takes a dict for it
    )


def _recognition(data: Path) -> xberg.OcrConfig:
    stage = xberg.OcrPipelineStage(backend="tesseract")
    return xberg.OcrConfig(
        backend="tesseract",
        language=["eng"],
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
    data = tessdata()
    given = xberg.ExtractInput(
        kind="bytes",
        bytes=content.path.read_bytes(),
        filename=Path(content.name).name,
        mime_type=content.media_type if not content.suffix else None,
    )
    try:
        result = asyncio.run(xberg.extract(given, configuration(data)))
    except Exception as error:
        raise _classified(content.name, error) from error
    return _parsed(content, result.results[0], recognized=data is not None)


def _classified(name: str, error: Exception) -> ParseError:
    message = str(error)
    lowered = message.lower()
    for sign, kind in _CLASSES:
        if sign in lowered:
            return kind(f"{name}: {message}")
    return CorruptDocument(f"{name}: {message}")


def _parsed(content: Content, document: xberg.ExtractedDocument, *, recognized: bool) -> Parsed:
    numbered = bool(document.pages)
    pages = list(_pages(document))
    empty = [number for number, page in enumerate(pages, 1) if not page.strip()]
    members = [text for child in document.children or [] for text in _member(child, 1)]
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
        yield _FRONT_MATTER.sub("", document.content)
        return
    for page in document.pages:
        notes = page.speaker_notes
        yield f"{page.content}\n\nNotes: {notes}" if notes else page.content


def _member(entry: xberg.ArchiveEntry, depth: int) -> Iterator[str]:
    """A member's text under a heading that names it, its own members after it."""
    if depth > LONGEST_NESTING:
        return
    text = "\n\n".join(_pages(entry.result)).strip()
    if text:
        yield f"## {entry.path}\n\n{text}"
    for child in entry.result.children or []:
        yield from _member(child, depth + 1)
