"""Housekeeping of a source: purges of withdrawn sequences, and retirement of old versions."""

import structlog
from temporalio import activity

from activities.heartbeat import heartbeats
from activities.ports import Ports
from activities.promotion import purge
from activities.references import run_prefix
from contracts.activities import SWEEP_SOURCE, SourceRequest, SweepReport
from contracts.visibility import View

log = structlog.get_logger(__name__)


class Retirement:
    """Activities that delete what nobody can reach any more."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    @activity.defn(name=SWEEP_SOURCE)
    async def sweep_source(self, request: SourceRequest) -> SweepReport:
        """Do what is due: purge, highest sequence first, then retire. Stores before catalog."""
        async with heartbeats("sweeping") as progress:
            sweep = await self._ports.catalog.due_sweep(request.source_id, self._ports.now())
            for view in sweep.purge:
                await purge(self._ports, view)
                await self._drop_working_objects(view)
                # No chunk of the sequence lives, and none ever will.
                await self._drop(f"packs/{view.source_id}/{view.seq}/")
                progress.done += 1
            if sweep.retire is not None:
                await self._retire(sweep.retire)
            return SweepReport(
                purged=tuple(view.seq for view in sweep.purge),
                retired=sweep.retire.seq if sweep.retire is not None else None,
            )

    async def _retire(self, view: View) -> None:
        """Stores and objects first: what the rows name can be found again after a crash."""
        catalog = self._ports.catalog
        for store in self._ports.stores:
            await store.retire(view)
        packs = await catalog.unreachable_packs(view)
        await self._ports.objects.delete(packs)
        await self._drop_earlier_working_objects(view)
        await catalog.retire(view, self._ports.now())
        log.info("retired", source=view.source_id, up_to=view.seq, packs=len(packs))

    async def _drop_working_objects(self, view: View) -> None:
        """Plans and prepared documents of a run that has ended are of no use to anybody."""
        await self._drop(f"{run_prefix(view.source_id, view.seq)}/")

    async def _drop_earlier_working_objects(self, view: View) -> None:
        """Those of every run up to this one, promoted or not."""
        runs = run_prefix(view.source_id, 0).removesuffix("0")
        old = [
            info.key
            async for info in self._ports.objects.list(runs)
            if int(info.key.removeprefix(runs).split("/")[0]) <= view.seq
        ]
        await self._ports.objects.delete(old)

    async def _drop(self, prefix: str) -> None:
        keys = [info.key async for info in self._ports.objects.list(prefix)]
        await self._ports.objects.delete(keys)
