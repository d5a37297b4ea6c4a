"""Vectors from hashed words: deterministic and quick, and blind to meaning."""

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np

from contracts.documents import Bought, EmbeddingSpace, Vector

DIMENSION: Final = 256
AT_ONCE: Final = 128  # texts
_WORD: Final = re.compile(r"\w+")


def hashed(text: str) -> Vector:
    """The unit vector of a text's words."""
    vector = np.zeros(DIMENSION, dtype=np.float32)
    for word, count in Counter(_WORD.findall(text.lower())).items():
        digest = hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=8).digest()
        place = int.from_bytes(digest[:4], "big") % DIMENSION
        vector[place] += np.sqrt(count) * (1.0 if digest[4] & 1 else -1.0)
    length = float(np.linalg.norm(vector))
    if length == 0.0:
        vector[0] = 1.0
        return vector
    unit: Vector = vector / np.float32(length)
    return unit


class HashingEmbedder:
    """Texts that share words are near; others are not."""

    @property
    def space(self) -> EmbeddingSpace:
        """256 dimensions."""
        return EmbeddingSpace(name="hashing-256/1", dimension=DIMENSION)

    def split(self, texts: Sequence[str]) -> list[Sequence[str]]:
        """In pieces that are soon done."""
        return [texts[start : start + AT_ONCE] for start in range(0, len(texts), AT_ONCE)]

    async def embed_passages(self, texts: Sequence[str]) -> Bought:
        """One vector a text."""
        if not texts:
            return Bought(np.zeros((0, DIMENSION), dtype=np.float32))
        return Bought(np.stack([hashed(text) for text in texts]))

    async def embed_query(self, text: str) -> Vector:
        """As a passage."""
        return hashed(text)

    async def close(self) -> None:
        """Nothing is held open."""
