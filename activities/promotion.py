"""How a run ends: the flip, or fence and purge."""

import structlog
from temporalio import activity

from activities.heartbeat import heartbeats
from activities.indexing import view_of
from activities.ports import Ports
from contracts.activities import (
    END_RUN,
    PROMOTE_RUN,
    WAIT_RUN,
    EndRequest,
    PromoteReport,
    PromoteRequest,
    RunReport,
    WaitRequest,
)
from contracts.errors import Fenced, PromotionRefused, StageMismatch
from contracts.runs import AuditEntry, RunState, RunTicket
from contracts.visibility import View

log = structlog.get_logger(__name__)

# These give their keys back to start a run again. What cancels a run holds its source by itself.
UNSUCCESSFUL = frozenset({RunState.FAILED, RunState.CANCELLED})


async def purge(ports: Ports, view: View) -> None:
    """Remove every trace of a sequence from every store, and see that it is gone; then the
    catalog's rows.

    Raises:
        StageMismatch: a store still holds something of it.
    """
    for store in ports.stores:
        await store.purge(view)
        left = await store.census(view)
        if left.opened or left.closed:
            raise StageMismatch(
                f"{store.name} still holds {len(left.opened)} opened and {len(left.closed)} closed "
                f"chunks of {view.source_id} at {view.seq} after a purge"
            )
    await ports.catalog.forget(view, ports.now())


class Promotion:
    """Activities that end a run."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    @activity.defn(name=WAIT_RUN)
    async def wait_run(self, request: WaitRequest) -> RunReport:
        """Say that the run waits, so that a person sees it and can search what it staged."""
        ticket, report = request.ticket, request.report
        counts = request.counts.model_copy(
            update={"chunks_opened": report.opened, "chunks_closed": report.closed}
        )
        await self._ports.catalog.update_run(
            ticket, RunState.WAITING, counts, request.reason, report.manifest_digest
        )
        log.info("waits for a decision", source=ticket.source_id, run=ticket.run_id)
        return RunReport(seq=ticket.seq, state=RunState.WAITING, counts=counts)

    @activity.defn(name=PROMOTE_RUN)
    async def promote_run(self, request: PromoteRequest) -> PromoteReport:
        """One compare-and-set. Then the keys of the run are settled."""
        catalog, ticket = self._ports.catalog, request.ticket
        now = self._ports.now()
        counts = request.counts.model_copy(
            update={
                "chunks_opened": request.report.opened,
                "chunks_closed": request.report.closed,
            }
        )
        try:
            await catalog.promote(ticket, counts, request.report.manifest_digest, now)
        except (Fenced, PromotionRefused) as error:
            return PromoteReport(promoted=False, reason=str(error))
        await self._settle(ticket)
        await catalog.append(
            AuditEntry(
                source_id=ticket.source_id,
                seq=ticket.seq,
                actor=request.decision.actor,
                action="promote",
                reason=request.decision.reason,
                details={"digest": request.report.manifest_digest},
                at=now,
            )
        )
        log.info("promoted", source=ticket.source_id, run=ticket.run_id)
        return PromoteReport(promoted=True)

    @activity.defn(name=END_RUN)
    async def end_run(self, request: EndRequest) -> RunReport:
        """Fence, purge, verify, then give the keys back or settle them."""
        ports, ticket = self._ports, request.ticket
        async with heartbeats("ending"):
            record = await ports.catalog.run(ticket.source_id, ticket.seq)
            if record is not None and record.state in {RunState.PROMOTED, RunState.WITHDRAWN}:
                # The flip was committed, and what follows it may not have been.
                await self._settle(ticket)
                return RunReport(seq=ticket.seq, state=record.state, counts=record.counts)
            now = ports.now()
            if request.state is RunState.NO_CHANGE:
                await self._settle(ticket)
            await ports.catalog.fence(ticket.source_id, ticket.seq)
            await purge(ports, view_of(ticket))
            # Of a run that found no change nothing is left to release.
            await ports.catalog.pending_keys.release(
                ticket.source_id,
                ticket.seq,
                starts_run=request.state in UNSUCCESSFUL,
                now=now,
            )
            await ports.catalog.end_run(ticket, request.state, request.reason, request.counts, now)
            if request.state is RunState.REJECTED and record is not None and not record.ended_at:
                await ports.catalog.append(
                    AuditEntry(
                        source_id=ticket.source_id,
                        seq=ticket.seq,
                        actor=request.actor,
                        action="reject",
                        reason=request.reason,
                        at=now,
                    )
                )
            log.info(
                "ended",
                source=ticket.source_id,
                run=ticket.run_id,
                state=request.state.value,
                reason=request.reason,
            )
            return RunReport(seq=ticket.seq, state=request.state, reason=request.reason)

    async def _settle(self, ticket: RunTicket) -> None:
        """Drop the run's keys; give them back if a rollback came in between."""
        pending, now = self._ports.catalog.pending_keys, self._ports.now()
        try:
            await pending.settle(ticket, now)
        except Fenced:
            await pending.release(ticket.source_id, ticket.seq, starts_run=True, now=now)
