"""The desk over HTTP: what the command line uses while a stack runs."""

from collections.abc import Callable, Hashable, Mapping
from typing import Final, Self, TypeVar
from urllib.parse import quote

import httpx
from pydantic import TypeAdapter

from console.pages import LARGEST_PAGE, next_after
from console.problems import Problem
from console.views import (
    AddedSource,
    Count,
    DocumentKeys,
    DocumentView,
    Judgement,
    ParkedMessage,
    SourceView,
    StackStatus,
)
from contracts.activities import Command, CommandResult
from contracts.errors import NotReachable
from contracts.provenance import DocumentRun, SourceProgress
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

    async def sources(self, after: str = "", limit: int | None = None) -> list[SourceView]:
        """Sources, by id."""
        return await self._list(
            "/sources", list[SourceView], after, limit, lambda view: view.config.source_id
        )

    async def add(self, config: SourceConfig, actor: str) -> AddedSource:
        """Check, store, ask for a crawl."""
        return await self._post("/sources", config, AddedSource, {"actor": actor})

    async def show(self, source_id: str) -> SourceView:
        """One source."""
        return await self._get(_at(source_id), SourceView)

    async def command(self, source_id: str, command: Command) -> CommandResult:
        """Have a command obeyed."""
        return await self._post(_at(source_id, "commands"), command, CommandResult)

    async def runs(
        self, source_id: str, limit: int = 50, after: int | None = None
    ) -> list[RunRecord]:
        """The newest runs, newest first."""
        path, start = _at(source_id, "runs"), "" if after is None else str(after)
        return await self._list(path, list[RunRecord], start, limit, lambda run: run.seq)

    async def run(self, source_id: str, seq: int) -> RunRecord:
        """One run."""
        return await self._get(_at(source_id, "runs", str(seq)), RunRecord)

    async def decide(self, source_id: str, seq: int | None, verdict: Judgement) -> CommandResult:
        """Approve or reject the run that waits."""
        query: Query = {} if seq is None else {"seq": seq}
        return await self._post(_at(source_id, "verdict"), verdict, CommandResult, query)

    async def outcomes(
        self, source_id: str, seq: int, after: str = "", limit: int | None = None
    ) -> list[DocumentOutcome]:
        """How each document left each stage of a run."""
        path = _at(source_id, "runs", str(seq), "outcomes")
        return await self._list(
            path, list[DocumentOutcome], after, limit, lambda outcome: outcome.doc_key
        )

    async def documents(
        self, source_id: str, after: str = "", limit: int | None = None
    ) -> list[DocumentStatus]:
        """Documents that there is something to say of, ascending by key."""
        path = _at(source_id, "documents")
        return await self._list(
            path, list[DocumentStatus], after, limit, lambda status: status.doc_key
        )

    async def document(self, source_id: str, doc_key: str) -> DocumentView:
        """One document."""
        return await self._get(_at(source_id, "document"), DocumentView, {"key": doc_key})

    async def history(
        self, source_id: str, doc_key: str, limit: int = 20, after: int | None = None
    ) -> list[DocumentRun]:
        """The newest runs that touched a document, newest first."""
        path, start = _at(source_id, "document", "history"), "" if after is None else str(after)
        return await self._list(
            path, list[DocumentRun], start, limit, lambda run: run.seq, {"key": doc_key}
        )

    async def progress(self, source_id: str) -> SourceProgress:
        """What a source is doing now, and what waits."""
        return await self._get(_at(source_id, "progress"), SourceProgress)

    async def retry(self, source_id: str, request: DocumentKeys) -> int:
        """Have documents tried again as they are."""
        path = _at(source_id, "documents", "retry")
        return (await self._post(path, request, Count)).documents

    async def acknowledge(self, source_id: str, request: DocumentKeys) -> int:
        """Accept that documents fail as they are."""
        path = _at(source_id, "documents", "acknowledge")
        return (await self._post(path, request, Count)).documents

    async def search(self, question: SearchQuestion) -> SearchAnswer:
        """The best chunks of the sources."""
        return await self._post("/search", question, SearchAnswer)

    async def parked(self, after: str = "", limit: int | None = None) -> list[ParkedMessage]:
        """Messages that no decoder understands."""
        return await self._list(
            "/events/parked", list[ParkedMessage], after, limit, lambda message: message.place
        )

    async def status(self) -> StackStatus:
        """What runs."""
        return await self._get("/status", StackStatus)

    async def _list(
        self,
        path: str,
        shape: type[list[T]],
        after: str,
        limit: int | None,
        key: Callable[[T], Hashable],
        also: Query | None = None,
    ) -> list[T]:
        """The pages of a listing, followed until there are enough items or none is left."""
        found: list[T] = []
        start: str | None = after
        missing = LARGEST_PAGE if limit is None else limit
        while start is not None and missing > 0:
            query = {**(also or {}), "limit": min(missing, LARGEST_PAGE)}
            if start:
                query["after"] = start
            response = await self._answer(self._http.build_request("GET", path, params=query))
            page = TypeAdapter(shape).validate_json(response.content)
            found += page
            if limit is not None:
                missing -= len(set(map(key, page)))
            start = next_after(response)
        return found

    async def _get(self, path: str, shape: type[T], query: Query | None = None) -> T:
        request = self._http.build_request("GET", path, params=query)
        return TypeAdapter(shape).validate_json((await self._answer(request)).content)

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
        return TypeAdapter(shape).validate_json((await self._answer(request)).content)

    async def _answer(self, request: httpx.Request) -> httpx.Response:
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
            raise Problem.read(response.content, response.status_code).exception()
        return response


def _at(source_id: str, *parts: str) -> str:
    return "/".join(("/sources", quote(source_id, safe=""), *parts))
