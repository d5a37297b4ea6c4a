"""Embeddings from any endpoint that speaks OpenAI's protocol, by the client `openai`."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

import numpy as np

from contracts.documents import EmbeddingSpace, Vector, Vectors
from contracts.errors import EmbeddingRefused, EmbeddingUnavailable
from contracts.ids import digest
from documents import tokens

if TYPE_CHECKING:  # most installations never load it: it takes half a second
    from openai import APIStatusError, AsyncOpenAI

LONGEST_WAIT: Final = 600.0  # seconds that an endpoint may ask us to wait
NO_KEY: Final = "none"  # local servers ask for none, and the client wants one
# Statuses that say what is wrong with the texts; all others are about us, or pass.
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

    async def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """One vector a text, by one request."""
        if not texts:
            return np.zeros((0, self._endpoint.dimension), dtype=np.float32)
        return await self._ask([self._endpoint.passage_prefix + text for text in texts])

    async def embed_query(self, text: str) -> Vector:
        """The vector of a question."""
        vectors = await self._ask([self._endpoint.query_prefix + text])
        return np.asarray(vectors[0], dtype=np.float32)

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()

    async def _ask(self, texts: list[str]) -> Vectors:
        client = self._opened()
        # Endpoints refuse an empty text, some end a text at NUL, and JSON has no lone surrogates.
        readable = [
            text.replace("\0", " ").encode("utf-8", "replace").decode()
            if text.strip("\0 ")
            else "-"
            for text in texts
        ]
        with self._translated():
            answer = await client.embeddings.create(
                input=readable, model=self._endpoint.model, encoding_format="float"
            )
        # The client passes on what it can't read.
        data = getattr(answer, "data", None)
        if data is None:
            raise EmbeddingUnavailable(f"{self._endpoint.url} answers something else than vectors")
        rows = {row.index: row.embedding for row in data}
        if sorted(rows) != list(range(len(texts))):
            raise EmbeddingUnavailable(
                f"{self._endpoint.url} answered {len(rows)} vectors to {len(texts)} texts"
            )
        return self._units([rows[place] for place in range(len(texts))])

    def _units(self, rows: Sequence[Sequence[float]]) -> Vectors:
        wanted = self._endpoint.dimension
        if wrong := {len(row) for row in rows} - {wanted}:
            raise EmbeddingUnavailable(
                f"{self._endpoint.model} makes vectors of {min(wrong)} numbers, and {wanted} are "
                f"expected: set SLUICE_EMBEDDING_DIMENSION to {min(wrong)}, or another model"
            )
        vectors = np.asarray(rows, dtype=np.float32)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(lengths).all() or not lengths.all():
            raise EmbeddingUnavailable(
                f"{self._endpoint.url} answered a vector that has no direction"
            )
        return np.asarray(vectors / lengths, dtype=np.float32)

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
        except openai.APITimeoutError as error:
            raise EmbeddingUnavailable(
                f"{url} did not answer within {self._endpoint.seconds:g} s"
            ) from error
        except openai.APIConnectionError as error:
            raise EmbeddingUnavailable(
                f"{url} can't be reached: start it, or correct SLUICE_EMBEDDING_URL"
            ) from error
        except openai.APIStatusError as error:
            raise self._of_status(error) from error
        except (openai.OpenAIError, ValueError) as error:  # an answer that isn't the protocol's
            raise EmbeddingUnavailable(f"{url} answers something else: {error}") from error

    def _of_status(self, error: "APIStatusError") -> EmbeddingRefused | EmbeddingUnavailable:
        url, status = self._endpoint.url, error.status_code
        if status in OF_THE_TEXTS:
            return EmbeddingRefused(f"{url} refuses a text (status {status}): {error.message}")
        if status in OF_OURS:
            return EmbeddingUnavailable(f"{url} says {status}: {OF_OURS[status]}")
        wait = retry_after(error.response.headers)
        return EmbeddingUnavailable(f"{url} says {status}: it is tried again", wait)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a server asks us to wait (RFC 9110, section 10.2.3: seconds or a date), or
    OpenAI's `retry-after-ms`; at most ten minutes."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value) * scale
        except ValueError:
            seconds = _until(value)
        if seconds == seconds:  # noqa: PLR0124 - not a number is what we look for
            return min(max(seconds, 0.0), LONGEST_WAIT)
    return None


def _until(date: str) -> float:
    """Seconds until an HTTP date; not a number where it is none."""
    try:
        return (parsedate_to_datetime(date) - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError):
        return float("nan")
