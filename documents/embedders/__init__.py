"""Embedders: texts in, unit vectors out. One more is a module and a line in `EMBEDDERS`."""

from collections.abc import Callable
from typing import Final

from contracts.errors import ConfigurationError
from contracts.ports import Embedder
from documents.embedders.hashing import HashingEmbedder
from documents.embedders.static import WordLlamaEmbedder

EMBEDDERS: Final[dict[str, Callable[[], Embedder]]] = {
    "hashing": HashingEmbedder,
    "wordllama": WordLlamaEmbedder,
}


def open_embedder(name: str) -> Embedder:
    """The embedder of that name."""
    if name not in EMBEDDERS:
        known = ", ".join(sorted(EMBEDDERS))
        raise ConfigurationError(f"there is no embedder {name!r}: use one of {known}")
    return EMBEDDERS[name]()
