"""Routes of runs: what each did, and the decision on the one that waits."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Body, Request, Response

from console import examples
from console.answers import WITH_BODY, declared
from console.examples import shown
from console.listing import page
from console.parameters import After, AfterRun, Limit, RunNumber, SourceName, TheDesk, WaitingRun
from console.strict import strictly
from console.views import Judgement
from contracts.activities import CommandResult
from contracts.runs import DocumentOutcome, RunRecord

router = APIRouter(tags=["runs"])

Verdict = Annotated[
    Judgement,
    strictly(Judgement),
    Body(
        openapi_examples={
            "approve": {
                "summary": "Let readers see it",
                "value": {"approve": True, "actor": "ann", "reason": "looked at it"},
            },
            "reject": {
                "summary": "Take it back",
                "value": {"approve": False, "actor": "ann", "reason": "a bad export"},
            },
        }
    ),
]


@router.get(
    "/sources/{source_id}/runs",
    summary="List the runs of a source",
    responses=declared([shown(examples.RUN)], HTTPStatus.NOT_FOUND, listing=True),
)
async def list_runs(
    desk: TheDesk,
    request: Request,
    response: Response,
    source_id: SourceName,
    after: AfterRun = None,
    limit: Limit = 50,
) -> list[RunRecord]:
    """The newest runs, newest first; `after` is a sequence, and what follows is below it."""
    found = await desk.runs(source_id, limit + 1, after)
    return page(request, response, found, limit, lambda run: run.seq)


@router.get(
    "/sources/{source_id}/runs/{seq}",
    summary="Show a run",
    responses=declared(shown(examples.RUN), HTTPStatus.NOT_FOUND),
)
async def show_run(desk: TheDesk, source_id: SourceName, seq: RunNumber) -> RunRecord:
    """Where it is, what it did, and why it ended as it did."""
    return await desk.run(source_id, seq)


@router.get(
    "/sources/{source_id}/runs/{seq}/outcomes",
    summary="List the outcomes of a run",
    responses=declared([shown(examples.OUTCOME)], HTTPStatus.NOT_FOUND, listing=True),
)
async def list_outcomes(
    desk: TheDesk,
    request: Request,
    response: Response,
    source_id: SourceName,
    seq: RunNumber,
    after: After = "",
    limit: Limit = 1_000,
) -> list[DocumentOutcome]:
    """How each document left each stage, by key and stage.

    `limit` counts documents, and each has up to three outcomes.
    """
    found = await desk.outcomes(source_id, seq, after, limit + 1)
    return page(request, response, found, limit, lambda outcome: outcome.doc_key)


@router.post(
    "/sources/{source_id}/verdict",
    summary="Decide on the run that waits",
    responses=declared(shown(examples.DONE), *WITH_BODY, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
)
async def decide(
    desk: TheDesk, source_id: SourceName, verdict: Verdict, seq: WaitingRun = None
) -> CommandResult:
    """Approve it, and the flip follows; or reject it, and its changes join the next run."""
    return await desk.decide(source_id, seq, verdict)
