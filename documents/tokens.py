"""Counts tokens as `cl100k_base` does, without a network."""

import base64
import gzip
import hashlib
from functools import cache
from pathlib import Path
from typing import Final

import tiktoken

VERSION: Final = "cl100k/1"
VOCABULARY: Final = Path(__file__).parent / "vocabulary" / "cl100k_base.tiktoken.gz"
SHA256: Final = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
# The encoder panics on about a million spaces in a row, and no slice needs to be longer.
SLICE: Final = 50_000  # characters

# Of openai/tiktoken, tiktoken_ext/openai_public.py.
_PATTERN: Final = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)


@cache
def _encoding() -> tiktoken.Encoding:
    data = gzip.decompress(VOCABULARY.read_bytes())
    if hashlib.sha256(data).hexdigest() != SHA256:
        raise RuntimeError(f"{VOCABULARY} is damaged: install Sluice again")
    ranks = {
        base64.b64decode(token): int(rank)
        for token, rank in (line.split() for line in data.splitlines())
    }
    return tiktoken.Encoding(
        "cl100k_base", pat_str=_PATTERN, mergeable_ranks=ranks, special_tokens={}
    )


def warm() -> None:
    """Load the vocabulary, which takes about a second, before it is needed."""
    _encoding()


def count(text: str) -> int:
    """Number of tokens of a text; an upper bound beyond `SLICE` characters, which are counted in
    slices."""
    encoding = _encoding()
    if len(text) <= SLICE:
        return len(encoding.encode_ordinary(text))
    slices = (text[start : start + SLICE] for start in range(0, len(text), SLICE))
    return sum(len(encoding.encode_ordinary(part)) for part in slices)


def count_each(texts: list[str]) -> list[int]:
    """`count` of each text, in one call of the encoder's."""
    encoding = _encoding()
    return [len(encoding.encode_ordinary(text)) for text in texts]
