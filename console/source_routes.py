"""Routes of sources: to look at them, to add them, and to say what is wanted of them."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Body, Request, Response

from console import examples
from console.answers import WITH_BODY, declared
from console.examples import shown
from console.listing import page
from console.parameters import Actor, After, Limit, Reason, SourceName, TheDesk
from console.strict import strictly
from console.views import AddedSource, Order, SourceView
from contracts.activities import Command, CommandResult
from contracts.provenance import SourceProgress
from contracts.sources import SourceConfig

router = APIRouter(tags=["sources"])

Config = Annotated[
    SourceConfig,
    strictly(SourceConfig),
    Body(
        openapi_examples={
            "folder": {"summary": "A folder", "value": shown(examples.FOLDER)},
            "bucket": {"summary": "A bucket", "value": shown(examples.BUCKET)},
        }
    ),
]
Wanted = Annotated[
    Order,
    strictly(Order),
    Body(
        openapi_examples={
            "crawl": {
                "summary": "Look at every document again",
                "value": {"verb": "crawl", "actor": "ann"},
            },
            "rollback": {
                "summary": "Let readers see sequence 1 again",
                "value": {
                    "verb": "rollback",
                    "actor": "ann",
                    "reason": "a bad export",
                    "to_seq": 1,
                },
            },
        }
    ),
]


@router.get(
    "/sources",
    summary="List the sources",
    responses=declared([shown(examples.SOURCE)], listing=True),
)
async def list_sources(
    desk: TheDesk, request: Request, response: Response, after: After = "", limit: Limit = 100
) -> list[SourceView]:
    """Every source, ascending by name: its settings, what readers see, how far it is behind."""
    found = await desk.sources(after, limit + 1)
    return page(request, response, found, limit, lambda view: view.config.source_id)


@router.post(
    "/sources",
    summary="Add or change a source",
    status_code=HTTPStatus.CREATED,
    responses=declared(
        shown(examples.ADDED),
        *WITH_BODY,
        HTTPStatus.CONFLICT,
        HTTPStatus.BAD_GATEWAY,
        status=HTTPStatus.CREATED,
    ),
)
async def add_source(desk: TheDesk, config: Config, actor: Actor = "api") -> AddedSource:
    """Check that its place can be read, store it, and ask for a crawl.

    A known source gets the new settings; another place needs another name, or a removal first.
    """
    return await desk.add(config, actor)


@router.get(
    "/sources/{source_id}",
    summary="Show a source",
    responses=declared(shown(examples.SOURCE), HTTPStatus.NOT_FOUND),
)
async def show_source(desk: TheDesk, source_id: SourceName) -> SourceView:
    """Its settings, what readers see, how far it is behind, and its last run."""
    return await desk.show(source_id)


@router.get(
    "/sources/{source_id}/progress",
    summary="Show what a source is doing",
    responses=declared(shown(examples.PROGRESS), HTTPStatus.NOT_FOUND),
)
async def show_progress(desk: TheDesk, source_id: SourceName) -> SourceProgress:
    """Its open run, how many documents have left each stage, and what waits since when."""
    return await desk.progress(source_id)


@router.delete(
    "/sources/{source_id}",
    summary="Remove a source",
    responses=declared(
        shown(examples.DONE), HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT
    ),
)
async def remove_source(
    desk: TheDesk, source_id: SourceName, actor: Actor = "api", reason: Reason = ""
) -> CommandResult:
    """Remove it and everything that is indexed of it; what it was made of stays as it is."""
    return await desk.command(source_id, Command(verb="remove", actor=actor, reason=reason))


@router.post(
    "/sources/{source_id}/commands",
    summary="Command a source",
    responses=declared(shown(examples.DONE), *WITH_BODY, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
)
async def command_source(desk: TheDesk, source_id: SourceName, wanted: Wanted) -> CommandResult:
    """Have its coordinator obey.

    `crawl` looks at everything again, `pause` and `resume` hold and release runs, `rollback` flips
    back to an earlier sequence, `empty` serves nothing on purpose, `remove` deletes all of it.
    """
    return await desk.command(source_id, wanted.command())
