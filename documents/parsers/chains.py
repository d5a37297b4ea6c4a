"""Which parser takes which content. One more parser is one more line."""

from collections.abc import Callable

from documents.parsers import rich, text
from documents.parsers.parsed import Content, Parsed

ParserFunction = Callable[[Content], Parsed]


def parser_for(content: Content) -> ParserFunction:
    """By the ending of the name; without one, by what the source says of the type."""
    if content.suffix in text.SUFFIXES:
        return text.parse
    if not content.suffix and (content.media_type or "text/plain") in text.MEDIA_TYPES:
        return text.parse
    return rich.parse
