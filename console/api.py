"""The HTTP API: one thin route an operation of the desk."""

from http import HTTPStatus
from typing import Annotated

import structlog
from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from console.auth import BearerKey
from console.desk import Desk
from console.local_desk import LocalDesk
from console.problems import MEDIA_TYPE, Problem
from console.services import Services
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
from contracts.errors import ConfigurationError, SluiceError
from contracts.runs import DocumentOutcome, DocumentStatus, RunRecord
from contracts.search import SearchAnswer, SearchQuestion
from contracts.sources import SourceConfig

log = structlog.get_logger("console")

Actor = Annotated[str, Query(min_length=1, max_length=100)]
Limit = Annotated[int, Query(ge=1, le=1_000)]


def create_app(services: Services) -> FastAPI:
    """The application.

    Raises:
        ConfigurationError: the services have no key, and nobody could be told from a stranger.
    """
    if not services.key:
        raise ConfigurationError("the API needs a key: give the services one")
    desk = LocalDesk(services)
    app = FastAPI(title="Sluice", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(BearerKey, key=services.key)
    _add_problems(app)
    _add_sources(app, desk)
    _add_runs(app, desk)
    _add_documents(app, desk)
    _add_stack(app, desk)
    return app


def _add_sources(app: FastAPI, desk: Desk) -> None:
    @app.get("/sources")
    async def sources() -> list[SourceView]:
        return await desk.sources()

    @app.post("/sources", status_code=HTTPStatus.CREATED)
    async def add(config: SourceConfig, actor: Actor = "api") -> AddedSource:
        return await desk.add(config, actor)

    @app.get("/sources/{source_id}")
    async def show(source_id: str) -> SourceView:
        return await desk.show(source_id)

    @app.delete("/sources/{source_id}")
    async def remove(source_id: str, actor: Actor = "api") -> CommandResult:
        return await desk.command(source_id, Command(verb="remove", actor=actor))

    @app.post("/sources/{source_id}/commands")
    async def command(source_id: str, command: Command) -> CommandResult:
        return await desk.command(source_id, command)


def _add_runs(app: FastAPI, desk: Desk) -> None:
    @app.get("/sources/{source_id}/runs")
    async def runs(source_id: str, limit: Limit = 50) -> list[RunRecord]:
        return await desk.runs(source_id, limit)

    @app.get("/sources/{source_id}/runs/{seq}")
    async def run(source_id: str, seq: int) -> RunRecord:
        return await desk.run(source_id, seq)

    @app.post("/sources/{source_id}/verdict")
    async def decide(
        source_id: str, verdict: Judgement, seq: Annotated[int | None, Query(ge=1)] = None
    ) -> CommandResult:
        return await desk.decide(source_id, seq, verdict)

    @app.get("/sources/{source_id}/runs/{seq}/outcomes")
    async def outcomes(source_id: str, seq: int) -> list[DocumentOutcome]:
        return await desk.outcomes(source_id, seq)


def _add_documents(app: FastAPI, desk: Desk) -> None:
    @app.get("/sources/{source_id}/documents")
    async def documents(
        source_id: str, after: str = "", limit: Limit = 1_000
    ) -> list[DocumentStatus]:
        return await desk.documents(source_id, after, limit)

    # The key is a query parameter: keys hold slashes, and paths are normalised on their way.
    @app.get("/sources/{source_id}/document")
    async def document(
        source_id: str, key: Annotated[str, Query(min_length=1, max_length=4_096)]
    ) -> DocumentView:
        return await desk.document(source_id, key)

    @app.post("/sources/{source_id}/documents/retry")
    async def retry(source_id: str, request: DocumentKeys) -> int:
        return await desk.retry(source_id, request)

    @app.post("/sources/{source_id}/documents/acknowledge")
    async def acknowledge(source_id: str, request: DocumentKeys) -> int:
        return await desk.acknowledge(source_id, request)

    @app.post("/search")
    async def search(question: SearchQuestion) -> SearchAnswer:
        return await desk.search(question)


def _add_stack(app: FastAPI, desk: Desk) -> None:
    @app.get("/healthz")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/status")
    async def status() -> StackStatus:
        return await desk.status()

    @app.get("/events/parked")
    async def parked() -> list[ParkedMessage]:
        return await desk.parked()


def _add_problems(app: FastAPI) -> None:
    @app.exception_handler(SluiceError)
    async def of_the_tree(_request: Request, error: SluiceError) -> JSONResponse:
        return _answer(Problem.of(error))

    @app.exception_handler(RequestValidationError)
    async def wrong_request(_request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"] if part != "body") or "the body"
        wrong = ConfigurationError(f"{place} is wrong: {first['msg']}")
        return _answer(Problem.of(wrong, HTTPStatus.UNPROCESSABLE_ENTITY))

    @app.exception_handler(HTTPException)
    async def no_route(request: Request, error: HTTPException) -> JSONResponse:
        wrong = ConfigurationError(
            f"{request.method} {request.url.path}: {error.detail.lower()} in this API"
        )
        return _answer(Problem.of(wrong, HTTPStatus(error.status_code)))

    @app.exception_handler(Exception)
    async def unforeseen(_request: Request, error: Exception) -> JSONResponse:
        log.error("request failed", error=type(error).__name__, exc_info=error)
        return _answer(
            Problem.of(SluiceError(f"the stack failed ({type(error).__name__}): see its log"))
        )


def _answer(problem: Problem) -> JSONResponse:
    return JSONResponse(problem.model_dump(), status_code=problem.status, media_type=MEDIA_TYPE)
