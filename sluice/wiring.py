"""Who gets which adapter: the one place that knows them all."""

import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import sources
from activities.ports import Limits, Ports
from bridge.batcher import BridgeLimits
from bridge.dead_letters import ObjectDeadLetters
from bridge.pipeline import Bridge
from console.services import Services
from contracts.ports import Catalog, Embedder, ObjectStore, Orchestrator, Source
from contracts.sources import SourceConfig
from documents.embedders import open_embedder
from documents.parsers.sandbox import SandboxedParser
from indexers.qdrant_edge import EdgeVectorStore
from indexers.search import HybridSearch
from indexers.sqlite_fts import FtsKeywordStore
from sluice.settings import Settings
from sluice.state import StateFolder
from storage.catalog.repository import open_catalog
from storage.objects.directory import DirectoryObjects


def open_source(config: SourceConfig) -> Source:
    """A source of any installed kind."""
    return sources.kind(config.kind).open(config)


@dataclass(frozen=True)
class Wiring:
    """Opened adapters of one installation."""

    settings: Settings
    catalog: Catalog
    objects: ObjectStore
    search: HybridSearch
    ports: Ports

    def bridge(self) -> Bridge:
        """The bridge over these adapters."""
        return Bridge(
            orchestrator=self.ports.orchestrator,
            sources=self.catalog.sources,
            dead_letters=ObjectDeadLetters(self.objects),
            objects=self.objects,
            limits=BridgeLimits(flush_interval=self.settings.bridge_flush_ms / 1000),
        )
