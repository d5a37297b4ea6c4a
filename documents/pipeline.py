"""From a content to its chunks: parse, clean, cut. Runs inside a child process."""

from importlib.metadata import version

from contracts.documents import ChunkedDocument
from contracts.errors import EmptyDocument
from contracts.ids import digest
from documents import chunking, cleaning, tokens
from documents.parsers import chains, rich, text
from documents.parsers.parsed import Content
from documents.parsers.recognition import Recognition, find

BETWEEN_PAGES = "\n\n"
LONGEST_TITLE = 300  # characters


def fingerprint(recognition: Recognition | None = None) -> str:
    """Over the version of every component, and how text in pictures is recognized."""
    return digest(
        text.VERSION,
        rich.VERSION,
        version("xberg"),
        (recognition or find()).fingerprint,
        cleaning.VERSION,
        chunking.VERSION,
        tokens.VERSION,
    )


def chunk(content: Content) -> ChunkedDocument:
    """Parse, clean and cut.

    Raises:
        ParseError: the content can't become chunks.
    """
    parsed = chains.parser_for(content)(content)
    pages, cleaned, offset = [], [], 0
    for number, page in enumerate(parsed.pages, 1):
        pages.append(chunking.Page(number, offset))
        cleaned.append(cleaning.clean(page))
        offset += len(cleaned[-1]) + len(BETWEEN_PAGES)
    whole = BETWEEN_PAGES.join(cleaned)
    found = chunking.chunks(whole, pages if parsed.numbered else (), marked=parsed.marked)
    if not found:
        raise EmptyDocument(f"{content.name} has no text")
    return ChunkedDocument(
        title=cleaning.clean_line(parsed.title or "", LONGEST_TITLE) or None,
        media_type=parsed.media_type,
        parser=parsed.parser,
        chunker=chunking.VERSION,
        pages=len(parsed.pages) if parsed.numbered else 0,
        characters=len(whole),
        chunks=tuple(found),
        warnings=parsed.warnings,
    )
