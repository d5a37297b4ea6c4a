"""What the gate looks at: every store against the catalog, and the way to put a store right."""

import asyncio
from datetime import UTC, datetime

from temporalio import activity

from activities.heartbeat import heartbeats
from activities.indexing import view_of
from activities.packs import AT_ONCE, indexed_chunks
from activities.ports import Ports
from activities.recovery import behind, refill
from contracts.activities import CHECK_RUN, RESTAGE_RUN, CheckRequest
from contracts.gate import Check, CheckReport
from contracts.ids import digest
from contracts.ports import SearchStore
from contracts.runs import RunState, RunTicket
from contracts.visibility import Census, StageDelta, StoreWrite, View

END_OF_TIME = datetime.max.replace(tzinfo=UTC)
EXAMPLES = 5  # keys of failed documents in a report


class Checks:
    """Activities that compare."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    @activity.defn(name=CHECK_RUN)
    async def check_run(self, request: CheckRequest) -> CheckReport:
        """The set of opened ids, of closed ids, and the visible count, in every store."""
        async with heartbeats("checking"):
            ports, ticket = self._ports, request.ticket
            await ports.catalog.update_run(ticket, RunState.CHECKING)
            view = view_of(ticket)
            base = view.model_copy(update={"seq": ticket.base_seq})
            visible = await ports.catalog.has_documents(view)
            live = await ports.catalog.has_documents(base)
            expected, *found = await asyncio.gather(
                ports.catalog.census(view), *(store.census(view) for store in ports.stores)
            )
            failures, examples = await ports.catalog.unacknowledged(ticket.source_id, EXAMPLES)
            checks = [
                check
                for store, census in zip(ports.stores, found, strict=True)
                for check in _compare(store.name, expected, census)
            ]
            return CheckReport(
                checks=tuple(checks),
                manifest_digest=digest(
                    ticket.run_id, *sorted(expected.opened), "closed", *sorted(expected.closed)
                ),
                opened=len(expected.opened),
                closed=len(expected.closed),
                has_documents=visible,
                had_documents=live,
                listed_documents=request.listed,
                unacknowledged=failures + request.retryable,
                examples=tuple(examples),
            )

    @activity.defn(name=RESTAGE_RUN)
    async def restage_run(self, request: CheckRequest) -> CheckReport:
        """Bring every store to what the catalog says of this sequence, and of those before."""
        async with heartbeats("restaging"):
            view = view_of(request.ticket)
            staged = await self._ports.catalog.staged(view)
            await self._purge_again(request.ticket.source_id)
            for store in self._ports.stores:
                await self._restage(store, request.ticket, view, staged)
            base = view.model_copy(update={"seq": request.ticket.base_seq})
            for store in await behind(self._ports, view):
                await refill(self._ports, store, base)
                await self._restage(store, request.ticket, view, staged)
        return await self.check_run(request)

    async def _purge_again(self, source_id: str) -> None:
        """What a late writer of an ended run has left in a store; the purge that is due later to
        find such stays due."""
        owed = await self._ports.catalog.due_sweep(source_id, END_OF_TIME)
        for view in owed.purge:
            for store in self._ports.stores:
                await store.purge(view)

    async def _restage(
        self, store: SearchStore, ticket: RunTicket, view: View, staged: StageDelta
    ) -> None:
        found = await store.census(view)
        await store.apply(
            StoreWrite(
                view,
                closes=tuple(set(staged.closes) - found.closed),
                reopens=tuple(found.closed - set(staged.closes)),
                removes=tuple(found.opened - {chunk.chunk_id for chunk in staged.opens}),
            )
        )
        missing = [chunk for chunk in staged.opens if chunk.chunk_id not in found.opened]
        for start in range(0, len(missing), AT_ONCE):
            some = missing[start : start + AT_ONCE]
            opens = await indexed_chunks(self._ports.objects, view, ticket.run_id, some)
            await store.apply(StoreWrite(view, opens=opens))


def _compare(store: str, expected: Census, found: Census) -> list[Check]:
    return [
        _sets(f"{store}: opened chunks", expected.opened, found.opened),
        _sets(f"{store}: closed chunks", expected.closed, found.closed),
        Check(
            name=f"{store}: visible chunks",
            passed=expected.visible == found.visible,
            expected=str(expected.visible),
            found=str(found.visible),
        ),
    ]


def _sets(name: str, expected: frozenset[str], found: frozenset[str]) -> Check:
    missing, surplus = len(expected - found), len(found - expected)
    return Check(
        name=name,
        passed=not missing and not surplus,
        expected=str(len(expected)),
        found=f"{len(found)} ({missing} missing, {surplus} surplus)",
    )
