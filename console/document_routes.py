"""Routes of documents: what is served of each, what went wrong, and the search in them."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Body, Request, Response

from console import examples
from console.answers import WITH_BODY, declared
from console.examples import shown
from console.listing import page
from console.parameters import After, AfterRun, DocumentKey, Limit, SourceName, TheDesk
from console.strict import strictly
from console.views import Count, DocumentKeys, DocumentView, Question
from contracts.provenance import DocumentRun
from contracts.runs import DocumentStatus
from contracts.search import SearchAnswer

router = APIRouter(tags=["documents"])

Keys = Annotated[
    DocumentKeys,
    strictly(DocumentKeys),
    Body(
        openapi_examples={
            "one": {
                "summary": "One document",
                "value": {"keys": ["guide/start.md"], "actor": "ann", "reason": "repaired"},
            }
        }
    ),
]
Asked = Annotated[
    Question,
    strictly(Question),
    Body(
        openapi_examples={
            "live": {
                "summary": "What readers see",
                "value": {"text": "when does the tide turn?", "sources": ["handbook"]},
            },
            "staged": {
                "summary": "A sequence instead of the live one",
                "value": {"text": "tide", "sources": ["handbook"], "at": 1, "fusion": "rrf"},
            },
        }
    ),
]


@router.get(
    "/sources/{source_id}/documents",
    summary="List the documents of a source",
    responses=declared([shown(examples.STATUS)], HTTPStatus.NOT_FOUND, listing=True),
)
async def list_documents(
    desk: TheDesk,
    request: Request,
    response: Response,
    source_id: SourceName,
    after: After = "",
    limit: Limit = 1_000,
) -> list[DocumentStatus]:
    """Documents that are served, failed, on their way or waiting: where each is, since when and
    why. Ascending by the UTF-8 bytes of their keys."""
    found = await desk.documents(source_id, after, limit + 1)
    return page(request, response, found, limit, lambda status: status.doc_key)


@router.get(
    "/sources/{source_id}/document",
    summary="Show a document",
    responses=declared(shown(examples.DOCUMENT), HTTPStatus.NOT_FOUND),
)
async def show_document(desk: TheDesk, source_id: SourceName, key: DocumentKey) -> DocumentView:
    """Where it is, what is served of it, the run that made that, and the newest one."""
    return await desk.document(source_id, key)


@router.get(
    "/sources/{source_id}/document/history",
    summary="List the runs that touched a document",
    responses=declared([shown(examples.DOCUMENT_RUN)], HTTPStatus.NOT_FOUND, listing=True),
)
async def list_history(
    desk: TheDesk,
    request: Request,
    response: Response,
    source_id: SourceName,
    key: DocumentKey,
    after: AfterRun = None,
    limit: Limit = 20,
) -> list[DocumentRun]:
    """Newest first: what named the document, what made its version, and how each stage went.

    `after` is a sequence, and what follows is below it: the run that made a hit's chunk is the
    first that comes after its `from_seq` + 1.
    """
    found = await desk.history(source_id, key, limit + 1, after)
    return page(request, response, found, limit, lambda run: run.seq, {"key": key})


@router.post(
    "/sources/{source_id}/documents/retry",
    summary="Try documents again",
    responses=declared({"version": 1, "documents": 1}, *WITH_BODY, HTTPStatus.NOT_FOUND),
)
async def retry(desk: TheDesk, source_id: SourceName, wanted: Keys) -> Count:
    """Have documents that failed tried again as they are, though nothing has changed."""
    return Count(documents=await desk.retry(source_id, wanted))


@router.post(
    "/sources/{source_id}/documents/acknowledge",
    summary="Accept failures",
    responses=declared({"version": 1, "documents": 1}, *WITH_BODY, HTTPStatus.NOT_FOUND),
)
async def acknowledge(desk: TheDesk, source_id: SourceName, wanted: Keys) -> Count:
    """Accept that documents fail as they are: a strict gate no longer minds them."""
    return Count(documents=await desk.acknowledge(source_id, wanted))


@router.post(
    "/search",
    tags=["search"],
    summary="Search",
    responses=declared(
        shown(examples.ANSWER), *WITH_BODY, HTTPStatus.NOT_FOUND, HTTPStatus.BAD_GATEWAY
    ),
)
async def search(desk: TheDesk, question: Asked) -> SearchAnswer:
    """The best passages by meaning and by words, and the sequences that they were read at."""
    return await desk.search(question)
