"""Embeddings from any endpoint that speaks OpenAI's protocol, by the client `openai`."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from contracts.documents import Bought, EmbeddingSpace, Vector
from contracts.errors import EmbeddingRefused, EmbeddingUnavailable
from contracts.ids import digest
from documents import tokens
from documents.embedders.answers import bought, retry_after, words_of

if TYPE_CHECKING:  # most installations never load it: it takes half a second
    from openai import APIStatusError, AsyncOpenAI

NO_KEY: Final = "none"  # local servers ask for none, and the client wants one
PLAIN: Final = "word"  # what every endpoint takes that takes anything of ours
# Statuses that may say what is wrong with the texts; all others are about us, or pass.
OF_THE_TEXTS: Final = frozenset({400, 413, 422})
OF_OURS: Final = {
    401: "it refuses the key: correct SLUICE_EMBEDDING_KEY",
    403: "it refuses this key that model: correct SLUICE_EMBEDDING_KEY or the account's rights",
    404: "it knows no such address or model: correct SLUICE_EMBEDDING_URL or _MODEL",
}


@dataclass(frozen=True)
class Endpoint:
    """Where vectors are bought, and how.

    `key` is never shown. `batch_texts` and `batch_tokens` bound one request; a text that alone has
    more tokens is a request of its own.
    """

    url: str  # up to /v1
    model: str
    dimension: int
    key: str = field(default=NO_KEY, repr=False)
    batch_texts: int = 128
    batch_tokens: int = 8_000
    seconds: float = 60.0  # for one request
    passage_prefix: str = ""
    query_prefix: str = ""


class OpenAICompatibleEmbedder:
    """Asks once and never by itself again: who retries is the stage, which knows what is bought."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._client: AsyncOpenAI | None = None

    @property
    def space(self) -> EmbeddingSpace:
        """Model and dimension; other prefixes make another space."""
        endpoint = self._endpoint
        name = f"{endpoint.model}-{endpoint.dimension}"
        if endpoint.passage_prefix or endpoint.query_prefix:
            name += f"/{digest(endpoint.passage_prefix, endpoint.query_prefix)[:8]}"
        return EmbeddingSpace(name=name, dimension=endpoint.dimension)

    def split(self, texts: Sequence[str]) -> list[Sequence[str]]:
        """By number and by tokens."""
        pieces: list[Sequence[str]] = []
        piece: list[str] = []
        held = 0
        for text in texts:
            size = tokens.count(text)
            full = len(piece) == self._endpoint.batch_texts
            if piece and (full or held + size > self._endpoint.batch_tokens):
                pieces.append(piece)
                piece, held = [], 0
            piece.append(text)
            held += size
        return [*pieces, piece] if piece else pieces

    async def embed_passages(self, texts: Sequence[str]) -> Bought:
        """One vector a text, by one request. A text that is sent alone is refused only if a plain
        word isn't: some endpoints say of a wrong key or model what others say of a text."""
        if not texts:
            return Bought(np.zeros((0, self._endpoint.dimension), dtype=np.float32))
        prefix = self._endpoint.passage_prefix
        try:
            return await self._ask([prefix + text for text in texts])
        except EmbeddingRefused as refusal:
            if len(texts) == 1:
                await self._take_a_plain_word(refusal)
            raise

    async def embed_query(self, text: str) -> Vector:
        """The vector of a question."""
        answer = await self._ask([self._endpoint.query_prefix + text])
        return np.asarray(answer.vectors[0], dtype=np.float32)

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()

    async def _take_a_plain_word(self, refusal: EmbeddingRefused) -> None:
        try:
            await self._ask([self._endpoint.passage_prefix + PLAIN])
        except EmbeddingRefused as error:
            raise EmbeddingUnavailable(
                f"{refusal}; it refuses {PLAIN!r} too: correct SLUICE_EMBEDDING_KEY or _MODEL"
            ) from error

    async def _ask(self, texts: list[str]) -> Bought:
        client = self._opened()
        # Endpoints refuse an empty text, some end a text at NUL, and JSON has no lone surrogates.
        readable = [
            text.replace("\0", " ").encode("utf-8", "replace").decode()
            if text.strip("\0 ")
            else "-"
            for text in texts
        ]
        endpoint = self._endpoint
        with self._translated():
            # The client bounds each wait for a byte, and an answer may drip.
            async with asyncio.timeout(endpoint.seconds):
                answer = await client.embeddings.with_raw_response.create(
                    input=readable, model=endpoint.model, encoding_format="float"
                )
        return bought(answer.content, len(texts), endpoint.dimension, endpoint.url)

    def _opened(self) -> "AsyncOpenAI":
        if self._client is None:
            from openai import AsyncOpenAI  # noqa: PLC0415 - see above

            self._client = AsyncOpenAI(
                base_url=self._endpoint.url,
                api_key=self._endpoint.key,
                timeout=self._endpoint.seconds,
                max_retries=0,
            )
        return self._client

    @contextmanager
    def _translated(self) -> Iterator[None]:
        import openai  # noqa: PLC0415 - see above

        url = self._endpoint.url
        try:
            yield
        except (openai.APITimeoutError, TimeoutError) as error:
            raise EmbeddingUnavailable(
                f"{url} did not answer within {self._endpoint.seconds:g} s"
            ) from error
        except openai.APIConnectionError as error:
            raise EmbeddingUnavailable(
                f"{url} can't be reached: start it, or correct SLUICE_EMBEDDING_URL"
            ) from error
        except openai.APIStatusError as error:
            raise self._of_status(error) from error
        except openai.OpenAIError as error:
            raise EmbeddingUnavailable(f"{url} answers something else than vectors") from error

    def _of_status(self, error: "APIStatusError") -> EmbeddingRefused | EmbeddingUnavailable:
        url, status = self._endpoint.url, error.status_code
        if status in OF_OURS:
            return EmbeddingUnavailable(f"{url} says {status}: {OF_OURS[status]}")
        key = self._endpoint.key
        said = words_of(error.message, key if key != NO_KEY else None)
        if status in OF_THE_TEXTS:
            return EmbeddingRefused(f"{url} refuses a text (status {status}): {said}")
        wait = retry_after(error.response.headers)
        return EmbeddingUnavailable(f"{url} says {status} ({said}): it is tried again", wait)
