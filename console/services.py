"""What the desk is given: ports, and the few things that the composition root decides."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from console.views import Figure, ParkedMessage
from contracts.ports import Catalog, Orchestrator, SourceKind
from contracts.search import SearchAnswer, SearchQuestion


class Searcher(Protocol):
    """Answers questions to sources."""

    async def ask(self, question: SearchQuestion) -> SearchAnswer:
        """The best chunks, and the sequences that they were read at."""


async def _nothing_parked(_after: str, _limit: int | None) -> list[ParkedMessage]:
    return []


def _no_bridge() -> Mapping[str, Figure]:
    return {}


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Services:
    """Everything that a desk needs.

    `kind` finds a source kind by its name (`UnknownKind`). Without a running stack
    `orchestrator` is None: what needs Temporal is refused with a sentence. `key` is the bearer
    key of the HTTP API. `parked` answers the messages behind a `ParkedMessage.place`, at most so
    many.
    """

    catalog: Catalog
    search: Searcher
    kind: Callable[[str], SourceKind]
    key: str = field(default="", repr=False)
    orchestrator: Orchestrator | None = None
    parked: Callable[[str, int | None], Awaitable[list[ParkedMessage]]] = _nothing_parked
    bridge_status: Callable[[], Mapping[str, Figure]] = _no_bridge
    versions: Mapping[str, str] = field(default_factory=dict)
    check_bound: float = 20.0  # seconds for a new source's place to answer
    now: Callable[[], datetime] = _utc_now
