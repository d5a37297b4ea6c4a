"""What the activities are given: one adapter for each port, chosen by the composition root."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from contracts.ports import (
    Catalog,
    Embedder,
    ObjectStore,
    Orchestrator,
    Parser,
    SearchStore,
    Source,
)
from contracts.sources import SourceConfig


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Limits:
    """Bounds of the work on documents."""

    batch_documents: int = 250
    batch_bytes: int = 32 * 1024 * 1024
    large_document: int = 50 * 1024 * 1024  # bytes; a larger one is a batch of its own
    max_document: int = 200 * 1024 * 1024  # bytes; a larger one fails as oversized
    concurrent_looks: int = 16  # HEAD requests of one plan in flight
    concurrent_fetches: int = 32  # documents of one batch being fetched or parsed
    window: int = 4  # batches of one run in flight
    concurrent_embeddings: int = 1  # requests of one batch to the embedder on their way at once


@dataclass(frozen=True)
class Ports:
    """Adapters and limits."""

    catalog: Catalog
    objects: ObjectStore
    stores: tuple[SearchStore, ...]
    parser: Parser
    embedder: Embedder
    orchestrator: Orchestrator
    open_source: Callable[[SourceConfig], Source]
    scratch: Path  # folder for contents on their way to the parser
    limits: Limits = Limits()
    whole: bool = False  # this process owns the stores and serves every queue
    now: Callable[[], datetime] = _utc_now
