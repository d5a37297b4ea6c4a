"""What an endpoint answered, read with distrust: its vectors, the tokens that it charged for, and
the wait that it asks for."""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Annotated, Any, Final

import numpy as np
from pydantic import BaseModel, Field, ValidationError

from contracts.documents import Bought, Vectors
from contracts.errors import EmbeddingRefused, EmbeddingUnavailable

LONGEST_WAIT: Final = 600.0  # seconds that an endpoint may ask us to wait
MOST_TOKENS: Final = 2**31  # of one request; what says more counts something else
LONGEST_WORDS: Final = 300  # characters; some endpoints repeat the whole request


class _Row(BaseModel):
    index: int | None = None
    embedding: Annotated[list[float], Field(min_length=1)]


class _Answer(BaseModel):
    data: list[_Row]
    usage: Any = None  # vectors aren't refused for how they are charged


def bought(content: bytes, texts: int, dimension: int, endpoint: str) -> Bought:
    """The vectors of an answer, in the order of the texts and of unit length.

    Args:
        content: the answer's body.
        texts: how many were sent.
        dimension: numbers in a vector.
        endpoint: its name in sentences.

    Raises:
        EmbeddingUnavailable: it isn't an answer, or not to these texts, or of another dimension.
        EmbeddingRefused: a text has got a vector without direction.
    """
    try:
        answer = _Answer.model_validate_json(content)
    except ValidationError as error:
        raise EmbeddingUnavailable(f"{endpoint} answers something else than vectors") from error
    rows = _in_order(answer.data)
    if rows is None or len(rows) != texts:
        raise EmbeddingUnavailable(
            f"{endpoint} answered {len(answer.data)} vectors to {texts} texts, or not one to each"
        )
    sizes = {len(row) for row in rows}
    if len(sizes) > 1:
        raise EmbeddingUnavailable(f"{endpoint} answered vectors of {sorted(sizes)} numbers")
    if wrong := sizes - {dimension}:
        made = wrong.pop()
        raise EmbeddingUnavailable(
            f"{endpoint} makes vectors of {made} numbers, and {dimension} are expected: "
            f"set SLUICE_EMBEDDING_DIMENSION to {made}, or another model"
        )
    return Bought(_units(rows, endpoint), _charged(answer.usage))


def _in_order(data: list[_Row]) -> list[list[float]] | None:
    """By index, which some leave out altogether; None if the indexes aren't those of a list."""
    if all(row.index is None for row in data):
        return [row.embedding for row in data]
    rows = {row.index: row.embedding for row in data}
    if len(rows) != len(data) or rows.keys() != set(range(len(data))):
        return None
    return [rows[place] for place in range(len(data))]


def _units(rows: list[list[float]], endpoint: str) -> Vectors:
    vectors = np.asarray(rows, dtype=np.float64)
    with np.errstate(all="ignore"):
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or not lengths.all():
        raise EmbeddingRefused(f"{endpoint} answered a vector that has no direction to a text")
    return np.asarray(vectors / lengths, dtype=np.float32)


def _charged(usage: Any) -> int | None:
    tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    return tokens if isinstance(tokens, int) and 0 < tokens < MOST_TOKENS else None


def words_of(message: str, secret: str | None) -> str:
    """What an endpoint says, short, on one line, and without the key that some repeat."""
    shown = message.replace(secret, "…") if secret else message
    said = " ".join(shown.split())
    return said if len(said) <= LONGEST_WORDS else f"{said[:LONGEST_WORDS]}…"


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
