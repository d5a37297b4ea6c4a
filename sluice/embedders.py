"""The embedder that the settings name, with its endpoint and key."""

import os
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from contracts.errors import ConfigurationError
from contracts.ports import Embedder
from documents.embedders import OPENAI, open_embedder
from documents.embedders.openai_compatible import NO_KEY, Endpoint
from sluice.settings import Settings

KEY: Final = "SLUICE_EMBEDDING_KEY"
KEY_FILE: Final = "SLUICE_EMBEDDING_KEY_FILE"


def configured_embedder(settings: Settings) -> Embedder:
    """Open it.

    Raises:
        ConfigurationError: its endpoint isn't complete, or its key can't be read.
    """
    return open_embedder(settings.embedder, _endpoint(settings))


def _endpoint(settings: Settings) -> Endpoint | None:
    if settings.embedder != OPENAI:
        return None
    url, model = settings.embedding_url, settings.embedding_model
    dimension = settings.embedding_dimension
    if url is None or model is None or dimension is None:
        missing = {"url": url, "model": model, "dimension": dimension}
        names = " and ".join(
            f"SLUICE_EMBEDDING_{name.upper()}" for name, value in missing.items() if value is None
        )
        raise ConfigurationError(f"the embedder `openai` asks an endpoint: set {names}")
    return Endpoint(
        url=_address(url),
        model=model,
        dimension=dimension,
        key=_key(),
        batch_texts=settings.embedding_batch_texts,
        batch_tokens=settings.embedding_batch_tokens,
        seconds=settings.embedding_seconds,
        passage_prefix=settings.embedding_passage_prefix,
        query_prefix=settings.embedding_query_prefix,
    )


def _address(url: str) -> str:
    """Messages show it, so it holds no secret."""
    try:
        parts = urlsplit(url)
        plain = parts.hostname and parts.port != 0 and not ("@" in url or "?" in url or "#" in url)
    except ValueError:
        plain = False
    if not plain:
        raise ConfigurationError(
            f"SLUICE_EMBEDDING_URL must be http(s)://HOST[:PORT]/v1 and no more: its key goes into "
            f"{KEY} or the file that {KEY_FILE} names"
        )
    return url


def _key() -> str:
    """A secret comes from the environment or from a file, and is no setting."""
    if key := os.environ.get(KEY, "").strip():
        return _one_line(key, KEY)
    path = os.environ.get(KEY_FILE)
    if not path:
        return NO_KEY
    try:
        return _one_line(Path(path).expanduser().read_text().strip(), KEY_FILE) or NO_KEY
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"{KEY_FILE} names {path}, which can't be read: {error}"
        ) from error


def _one_line(key: str, name: str) -> str:
    # What else the client refuses, it shows.
    if key.isascii() and (key.isprintable() or not key):
        return key
    raise ConfigurationError(f"the key of {name} isn't one line of ASCII characters: correct it")
