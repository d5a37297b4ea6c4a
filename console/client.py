"""The desk over HTTP: what the command line uses while a stack runs."""

from collections.abc import Mapping
from typing import Final, Self, TypeVar
from urllib.parse import quote

import httpx
from pydantic import TypeAdapter

from console.problems import Problem
from console.views import (
    AddedSource,
    DocumentKeys,
    DocumentView,
    Judgement,
    ParkedMessage,
    SourceView,
    StackStatus,
)
from contracts.activities import Command, CommandResult
from contracts.errors import NotReachable
from contracts.runs import DocumentOutcome, DocumentStatus, RunRecord
from contracts.search import SearchAnswer, SearchQuestion
from contracts.sources import SourceConfig
from contracts.wire import WireModel

ANSWER_BOUND: Final = 150.0  # seconds; a command may wait two minutes for its worker
CONNECT_BOUND: Final = 5.0  # seconds

T = TypeVar("T")
Query = Mapping[str, str | int]


class ApiClient:
    """Every operation, asked of a stack. See `console.desk.Desk`.

    Args:
        address: `http://host:port`.
        key: the key of that stack.
        transport: how requests travel; None: over the network.
    """

    def __init__(
        self, address: str, key: str, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._address = address
        self._http = httpx.AsyncClient(
            base_url=address,
            headers={"Authorization": f"Bearer {key}"},
            timeout=httpx.Timeout(ANSWER_BOUND, connect=CONNECT_BOUND),
            transport=transport,
            trust_env=False,  # a proxy has no business between a person and their own stack
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self._http.aclose()

    async def sources(self) -> list[SourceView]:
        """All sources, by id."""
        return await self._get("/sources", list[SourceView])

    async def add(self, config: SourceConfig, actor: str) -> AddedSource:
        """Check, store, ask for a crawl."""
        return await self._post("/sources", config, AddedSource, {"actor": actor})

    async def show(self, source_id: str) -> SourceView:
        """One source."""
        return await self._get(_at(source_id), SourceView)

    async def command(self, source_id: str, command: Command) -> CommandResult:
        """Have a command obeyed."""
        return await self._post(_at(source_id, "commands"), command, CommandResult)

    async def runs(self, source_id: str, limit: int = 50) -> list[RunRecord]:
        """The newest runs, newest first."""
        return await self._get(_at(source_id, "runs"), list[RunRecord], {"limit": limit})

    async def run(self, source_id: str, seq: int) -> RunRecord:
        """One run."""
        return await self._get(_at(source_id, "runs", str(seq)), RunRecord)

    async def decide(self, source_id: str, seq: int | None, verdict: Judgement) -> CommandResult:
        """Approve or reject the run that waits."""
        query: Query = {} if seq is None else {"seq": seq}
        return await self._post(_at(source_id, "verdict"), verdict, CommandResult, query)

    async def outcomes(self, source_id: str, seq: int) -> list[DocumentOutcome]:
        """How each document left each stage of a run."""
        path = _at(source_id, "runs", str(seq), "outcomes")
        return await self._get(path, list[DocumentOutcome])

    async def documents(
        self, source_id: str, after: str = "", limit: int = 1_000
    ) -> list[DocumentStatus]:
        """A page of documents after a key."""
        query: Query = {"after": after, "limit": limit}
        return await self._get(_at(source_id, "documents"), list[DocumentStatus], query)

    async def document(self, source_id: str, doc_key: str) -> DocumentView:
        """One document."""
        return await self._get(_at(source_id, "document"), DocumentView, {"key": doc_key})

    async def retry(self, source_id: str, request: DocumentKeys) -> int:
        """Have documents tried again as they are."""
        return await self._post(_at(source_id, "documents", "retry"), request, int)

    async def acknowledge(self, source_id: str, request: DocumentKeys) -> int:
        """Accept that documents fail as they are."""
        return await self._post(_at(source_id, "documents", "acknowledge"), request, int)

    async def search(self, question: SearchQuestion) -> SearchAnswer:
        """The best chunks of the sources."""
        return await self._post("/search", question, SearchAnswer)

    async def parked(self) -> list[ParkedMessage]:
        """Messages that no decoder understands."""
        return await self._get("/events/parked", list[ParkedMessage])

    async def status(self) -> StackStatus:
        """What runs."""
        return await self._get("/status", StackStatus)

    async def _get(self, path: str, shape: type[T], query: Query | None = None) -> T:
        return await self._send(self._http.build_request("GET", path, params=query), shape)

    async def _post(
        self, path: str, body: WireModel, shape: type[T], query: Query | None = None
    ) -> T:
        request = self._http.build_request(
            "POST",
            path,
            params=query,
            content=body.model_dump_json(),
            headers={"Content-Type": "application/json"},
        )
        return await self._send(request, shape)

    async def _send(self, request: httpx.Request, shape: type[T]) -> T:
        try:
            response = await self._http.send(request)
        except httpx.TimeoutException as error:
            raise NotReachable(
                f"the stack at {self._address} did not answer in time: see its log"
            ) from error
        except httpx.TransportError as error:
            raise NotReachable(
                f"no stack answers at {self._address}: start it with `sluice up`"
            ) from error
        if response.is_error:
            raise Problem.read(response.content, response.status_code).error()
        return TypeAdapter(shape).validate_json(response.content)


def _at(source_id: str, *parts: str) -> str:
    return "/".join(("/sources", quote(source_id, safe=""), *parts))
