"""Routes of the stack as a whole: whether it answers, what runs, what nobody could decode."""

from fastapi import APIRouter, Request, Response

from console import examples
from console.answers import declared
from console.examples import shown
from console.listing import page
from console.parameters import After, Limit, TheDesk
from console.views import Health, ParkedMessage, StackStatus

router = APIRouter(tags=["stack"])
open_router = APIRouter(tags=["stack"])


@open_router.get("/healthz", summary="Ask whether the API answers")
async def health() -> Health:
    """The only answer that needs no key; it says nothing of what is behind the API."""
    return Health()


@router.get("/status", summary="Show what runs", responses=declared(shown(examples.STACK)))
async def status(desk: TheDesk) -> StackStatus:
    """Versions, the figures of the bridge, and the number of sources."""
    return await desk.status()


@router.get(
    "/events/parked",
    summary="List the messages that no decoder understood",
    responses=declared([shown(examples.PARKED)], listing=True),
)
async def list_parked(
    desk: TheDesk, request: Request, response: Response, after: After = "", limit: Limit = 100
) -> list[ParkedMessage]:
    """By the day that they came, each with the reason and the original."""
    found = await desk.parked(after, limit + 1)
    return page(request, response, found, limit, lambda message: message.place)
