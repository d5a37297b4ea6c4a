"""The embedder that the settings name, with its endpoint and key."""

import os
from pathlib import Path
from typing import Final

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
        url=url,
        model=model,
        dimension=dimension,
        key=_key(),
        batch_texts=settings.embedding_batch_texts,
        batch_tokens=settings.embedding_batch_tokens,
        seconds=settings.embedding_seconds,
        passage_prefix=settings.embedding_passage_prefix,
        query_prefix=settings.embedding_query_prefix,
    )


def _key() -> str:
    """A secret comes from the environment or from a file, and is no setting."""
    if key := os.environ.get(KEY, "").strip():
        return key
    path = os.environ.get(KEY_FILE)
    if not path:
        return NO_KEY
    try:
        return Path(path).expanduser().read_text().strip() or NO_KEY
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"{KEY_FILE} names {path}, which can't be read: {error}"
        ) from error
