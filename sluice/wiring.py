"""Who gets which adapter: the one place that knows them all."""

import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path

import sources
from activities.ports import Limits, Ports
from bridge.dead_letters import ObjectDeadLetters
from bridge.limits import BridgeLimits
from bridge.pipeline import Bridge
from console.services import Services
from console.views import Figure, ParkedMessage
from contracts.activities import Command, CommandResult, RunReport
from contracts.errors import NotReachable
from contracts.events import ChangeSignal
from contracts.gate import Verdict
from contracts.ports import Catalog, Embedder, ObjectStore, Orchestrator, Source
from contracts.sources import SourceConfig
from documents.embedders import OPENAI
from documents.parsers import recognition
from documents.parsers.sandbox import SandboxedParser, SandboxLimits
from indexers.qdrant_edge import EdgeVectorStore
from indexers.search import HybridSearch
from indexers.sqlite_fts import FtsKeywordStore
from sluice.embedders import configured_embedder
from sluice.settings import Settings
from sluice.state import StateFolder
from storage.catalog.repository import open_catalog, sqlite_url
from storage.objects.directory import DirectoryObjects

VERSIONS = ("sluice", "temporalio", "qdrant-edge-py", "xberg")


def open_source(config: SourceConfig) -> Source:
    """A source of any installed kind."""
    return sources.kind(config.kind).open(config)


class _NoOrchestrator:
    """Stands in where no stack runs: nothing asks Temporal then."""

    async def signal_changed(self, source_id: str, signal: ChangeSignal) -> None:
        """Refuse."""
        raise _no_stack()

    async def report_run(self, source_id: str, report: RunReport) -> None:
        """Refuse."""
        raise _no_stack()

    async def command(self, source_id: str, command: Command) -> CommandResult:
        """Refuse."""
        raise _no_stack()

    async def decide(self, source_id: str, seq: int, verdict: Verdict) -> CommandResult:
        """Refuse."""
        raise _no_stack()

    async def collected(self, source_id: str) -> int:
        """Refuse."""
        raise _no_stack()

    async def is_running(self, workflow_id: str) -> bool:
        """Refuse."""
        raise _no_stack()


def _no_stack() -> NotReachable:
    return NotReachable("no stack is running: start it with `sluice up`")


@dataclass(frozen=True)
class Wiring:
    """Opened adapters of one installation."""

    settings: Settings
    state: StateFolder
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

    def services(self, bridge: Bridge | None = None) -> Services:
        """What the desk needs; without a bridge there is no Temporal either."""
        return Services(
            catalog=self.catalog,
            search=self.search,
            kind=sources.kind,
            key=self.state.access().key,
            orchestrator=self.ports.orchestrator if bridge is not None else None,
            parked=self._parked,
            bridge_status=lambda: _figures(bridge),
            versions={name: version(name) for name in VERSIONS},
        )

    async def _parked(self, after: str, limit: int | None) -> list[ParkedMessage]:
        return [
            ParkedMessage(
                id=message.id,
                reason=message.reason,
                parked_at=message.at,
                original=message.body.decode(errors="replace"),
                attributes=message.attributes,
            )
            async for message in ObjectDeadLetters(self.objects).parked(after, limit)
        ]


def _figures(bridge: Bridge | None) -> dict[str, Figure]:
    if bridge is None:
        return {}
    status = bridge.status()
    figures: dict[str, Figure] = status.model_dump(exclude={"consumers"})
    return figures | {f"consumer {name}": state for name, state in status.consumers.items()}


@asynccontextmanager
async def open_wiring(
    settings: Settings,
    state: StateFolder,
    orchestrator: Orchestrator | None = None,
    *,
    embedder: Embedder | None = None,
) -> AsyncIterator[Wiring]:
    """Open every adapter; the caller holds the state folder's lock.

    Args:
        settings: which adapters, and their limits.
        state: where they keep what they keep.
        orchestrator: how Temporal is asked; None where no stack runs.
        embedder: instead of the one that the settings name.
    """
    async with AsyncExitStack() as stack:
        catalog = await open_catalog(
            sqlite_url(state.catalog),
            reader_grace=timedelta(seconds=settings.reader_grace_seconds),
            late_writer=timedelta(seconds=settings.late_writer_seconds),
            retry_backoff=settings.retry_backoff_seconds,
            longest_backoff=settings.retry_backoff_max_seconds,
        )
        stack.push_async_callback(catalog.close)
        objects = DirectoryObjects(state.objects)
        embedder = embedder or configured_embedder(settings)
        stack.push_async_callback(embedder.close)
        state.claim(embedder.space)
        vectors = EdgeVectorStore(state.vectors, embedder.space.dimension)
        stack.push_async_callback(vectors.close)
        keywords = FtsKeywordStore(state.keywords.parent)
        stack.push_async_callback(keywords.close)
        _empty(state.scratch)
        parser = SandboxedParser(
            SandboxLimits(
                memory=settings.parser_memory_bytes,
                seconds=settings.parser_seconds,
                children=settings.parser_children,
            ),
            state.scratch,
            recognition.find(settings.recognition_languages),
        )
        stack.push_async_callback(parser.close)
        ports = Ports(
            catalog=catalog,
            objects=objects,
            stores=(vectors, keywords),
            parser=parser,
            embedder=embedder,
            orchestrator=orchestrator or _NoOrchestrator(),
            open_source=open_source,
            scratch=state.scratch,
            whole=True,
            limits=Limits(
                batch_documents=settings.batch_documents,
                batch_bytes=settings.batch_bytes,
                window=settings.window,
                max_document=settings.max_document_bytes,
                concurrent_embeddings=(
                    settings.embedding_concurrency if settings.embedder == OPENAI else 1
                ),
            ),
        )
        search = HybridSearch(catalog, vectors, keywords, embedder, objects)
        yield Wiring(settings, state, catalog, objects, search, ports)


@asynccontextmanager
async def open_services(settings: Settings) -> AsyncIterator[Services]:
    """What the desk needs where no stack runs; the caller holds the state folder's lock."""
    async with open_wiring(settings, StateFolder(settings.state)) as wiring:
        yield wiring.services()


def _empty(scratch: Path) -> None:
    """Contents that a killed process left on their way to the parser."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
