"""Which outcomes are forgotten: what nobody can ask for any more, document by document."""

from typing import Final

from sqlalchemy import ColumnElement, and_, delete, exists, func, not_, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from contracts.runs import OutcomeStatus
from contracts.visibility import View
from storage.catalog import schema
from storage.catalog.intervals import of_source

KEPT_OF_A_DOCUMENT: Final = 10  # newest runs of a document, while anything of it is held


async def forget_outcomes(connection: AsyncConnection, view: View, kept_runs: int) -> None:
    """Look at the documents of the runs that leave the source's newest ones with this retirement.

    Of each what made a version or a chunk that is still held stays, and what its newest runs did.
    A document is looked at again when a later run that touched it leaves: so the work follows the
    changes, and not the size of the source.

    To be called before `retired_to` is raised, and after the versions and chunks are deleted.
    """
    pointer, outcomes = schema.live_pointers, schema.outcomes
    edge = view.seq - kept_runs  # the first that stays
    before = await connection.scalar(
        select(pointer.c.retired_to).where(pointer.c.source_id == view.source_id)
    )
    first = (before or 0) - kept_runs
    if edge <= max(first, 1):
        return
    leaving = outcomes.alias("leaving")
    touched = select(leaving.c.doc_key).where(
        leaving.c.source_id == view.source_id, leaving.c.seq >= first, leaving.c.seq < edge
    )
    mine = and_(outcomes.c.source_id == view.source_id, outcomes.c.doc_key.in_(touched))
    last = schema.last_outcomes
    await connection.execute(
        delete(last).where(
            last.c.source_id == view.source_id,
            last.c.doc_key.in_(touched),
            last.c.status != OutcomeStatus.FAILED.value,
            last.c.seq < edge,
            not_(_held(view, last.c.doc_key)),
        )
    )
    await connection.execute(
        delete(outcomes).where(mine, outcomes.c.seq < edge, not_(_made(view)), _is_old(view))
    )


def _held(view: View, doc_key: ColumnElement[str]) -> ColumnElement[bool]:
    """Whether any version of the document is held."""
    versions = schema.document_versions
    return exists().where(of_source(versions, view), versions.c.doc_key == doc_key)


def _made(view: View) -> ColumnElement[bool]:
    """Whether the outcome's run made a version or a chunk of its document that is held."""
    outcomes, versions, chunks = schema.outcomes, schema.document_versions, schema.chunks
    return or_(
        exists().where(
            of_source(versions, view),
            versions.c.doc_key == outcomes.c.doc_key,
            versions.c.from_seq == outcomes.c.seq,
        ),
        exists().where(
            of_source(chunks, view),
            chunks.c.doc_key == outcomes.c.doc_key,
            # The sum hides it from SQLite, which would walk every chunk of that run.
            (chunks.c.from_seq + 0) == outcomes.c.seq,
        ),
    )


def _is_old(view: View) -> ColumnElement[bool]:
    """Whether the outcome isn't of the newest runs of a document of which anything is held."""
    outcomes = schema.outcomes
    newest = outcomes.alias("newest")
    oldest_kept = (
        select(newest.c.seq)
        .distinct()
        .where(newest.c.source_id == view.source_id, newest.c.doc_key == outcomes.c.doc_key)
        .order_by(newest.c.seq.desc())
        .limit(1)
        .offset(KEPT_OF_A_DOCUMENT - 1)
        .scalar_subquery()
    )
    return or_(
        not_(_held(view, outcomes.c.doc_key)),
        outcomes.c.seq < func.coalesce(oldest_kept, 0),
    )
