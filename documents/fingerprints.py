"""What decides, beside the content, what a document becomes."""

from functools import cache

from contracts.documents import EmbeddingSpace
from contracts.ids import digest


@cache
def document_fingerprint(parser_fingerprint: str, space: EmbeddingSpace) -> str:
    """64 hex digits over the parser's fingerprint and the embedding space."""
    return digest(parser_fingerprint, space.name, str(space.dimension))
