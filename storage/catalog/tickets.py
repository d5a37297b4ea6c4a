"""Tickets inside a transaction: their check, and what keeps a new one from being given."""

from typing import Any

from sqlalchemy import Row, exists, select
from sqlalchemy.ext.asyncio import AsyncConnection

from contracts.errors import Fenced
from contracts.runs import RunTicket
from storage.catalog import schema


async def check_ticket(connection: AsyncConnection, ticket: RunTicket) -> None:
    """Refuse what carries an older token, in the transaction of the write that it guards."""
    row = await _pointer(connection, ticket.source_id)
    if row is None or row.token != ticket.token or row.open_seq != ticket.seq:
        raise _fenced(ticket)


async def check_settled(connection: AsyncConnection, ticket: RunTicket) -> None:
    """Refuse a run that is neither live nor open any more."""
    row = await _pointer(connection, ticket.source_id)
    if row is None or ticket.seq not in {row.open_seq, row.seq}:
        raise _fenced(ticket)


async def _pointer(connection: AsyncConnection, source_id: str) -> Row[Any] | None:
    """The pointer's row, held until the transaction ends: nobody fences in between."""
    pointer = schema.live_pointers
    statement = select(pointer).where(pointer.c.source_id == source_id).with_for_update()
    return (await connection.execute(statement)).one_or_none()


def _fenced(ticket: RunTicket) -> Fenced:
    return Fenced(f"run {ticket.seq} of {ticket.source_id} is no longer the open one: it must stop")


async def ticket_of(connection: AsyncConnection, source_id: str, seq: int) -> RunTicket | None:
    """The ticket of a run, with the token that it was given."""
    runs = schema.runs
    row = (
        await connection.execute(
            select(runs).where(runs.c.source_id == source_id, runs.c.seq == seq)
        )
    ).one_or_none()
    if row is None:
        return None
    return RunTicket(
        source_id=source_id,
        seq=seq,
        run_id=row.run_id,
        generation=row.generation,
        base_seq=row.base_seq,
        token=row.token,
    )


async def waits_for_purge(connection: AsyncConnection, source_id: str) -> bool:
    """Whether a sequence above the live one still waits for its first purge: nothing may stage."""
    purges = schema.purges
    statement = select(exists().where(purges.c.source_id == source_id, purges.c.first.is_(True)))
    return bool(await connection.scalar(statement))
