"""wordllama: static word vectors whose weights come with the package, more than 1,000 chunks/s."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from contracts.documents import Bought, EmbeddingSpace, Vector, Vectors

DIMENSION: Final = 256
AT_ONCE: Final = 128  # texts


class WordLlamaEmbedder:
    """Loaded at the first use, from the package's own folder: no network."""

    def __init__(self) -> None:
        self._model: Any = None
        self._loading = threading.Lock()

    @property
    def space(self) -> EmbeddingSpace:
        """256 dimensions."""
        return EmbeddingSpace(name="wordllama-256/1", dimension=DIMENSION)

    async def warm(self) -> None:
        """Load the weights before they are needed."""
        await asyncio.to_thread(self._loaded)

    def split(self, texts: Sequence[str]) -> list[Sequence[str]]:
        """In pieces that are soon done."""
        return [texts[start : start + AT_ONCE] for start in range(0, len(texts), AT_ONCE)]

    async def embed_passages(self, texts: Sequence[str]) -> Bought:
        """One vector a text."""
        if not texts:
            return Bought(np.zeros((0, DIMENSION), dtype=np.float32))
        return Bought(await asyncio.to_thread(self._embed, list(texts)))

    async def embed_query(self, text: str) -> Vector:
        """As a passage."""
        vectors = await asyncio.to_thread(self._embed, [text])
        return np.asarray(vectors[0], dtype=np.float32)

    async def close(self) -> None:
        """Nothing is held open."""

    def _embed(self, texts: list[str]) -> Vectors:
        # A lone surrogate can't be encoded, and a text without words has no vector.
        readable = [text.encode("utf-8", "replace").decode() or " " for text in texts]
        vectors = np.asarray(self._loaded().embed(readable), dtype=np.float32)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        wordless = (lengths == 0.0).ravel()
        unit = np.asarray(vectors / np.where(lengths == 0.0, 1.0, lengths), dtype=np.float32)
        unit[wordless, 0] = 1.0
        return unit

    def _loaded(self) -> Any:
        with self._loading:
            if self._model is None:
                import wordllama  # noqa: PLC0415 - half a second that only its users pay

                folder = Path(wordllama.__file__).parent
                self._model = wordllama.WordLlama.load(
                    cache_dir=folder, disable_download=True, dim=DIMENSION
                )
            return self._model
