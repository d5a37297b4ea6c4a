"""Which parser takes which content. One more parser is one more line."""

from collections.abc import Callable

from documents.parsers import rich, text
from documents.parsers.parsed import Content, Parsed

ParserFunction = Callable[[Content], Parsed]


def parser_for(content: Content) -> ParserFunction:
    """By the ending of the name; by what the source says of the type; by the content itself.

    Object stores call what they don't know `binary/octet-stream`, and a name's ending can be
    anything (`notes.v2`): neither says that a content isn't text.
    """
    if content.suffix in text.SUFFIXES:
        return text.parse
    if content.suffix in rich.suffixes():
        return rich.parse
    if content.plain_media_type in text.MEDIA_TYPES:
        return text.parse
    if content.plain_media_type in rich.media_types():
        return rich.parse
    return text.parse if text.looks_like_text(content.path) else rich.parse
