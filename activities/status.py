"""What coordinators ask: the state of a source, the next run, who is still running."""

from temporalio import activity

from activities.ports import Ports
from activities.references import get_list
from contracts.activities import (
    FIND_RUNS,
    OPEN_RUN,
    REPORT_RUN,
    SOURCE_STATE,
    FindRunsAnswer,
    FindRunsRequest,
    OpenRunAnswer,
    OpenRunRequest,
    ReportRequest,
    RunReport,
    SourceRequest,
    SourceState,
)
from contracts.errors import ObjectMissing
from contracts.events import DirtyKey


class Status:
    """Small questions to the catalog and to Temporal."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    @activity.defn(name=SOURCE_STATE)
    async def source_state(self, request: SourceRequest) -> SourceState:
        """What the catalog says of the source."""
        return await self._ports.catalog.source_state(request.source_id)

    @activity.defn(name=OPEN_RUN)
    async def open_run(self, request: OpenRunRequest) -> OpenRunAnswer:
        """The next sequence, or why there is none now. The keys are the run's from here on: they
        outlive its workflow, whatever becomes of that."""
        ports = self._ports
        answer = await ports.catalog.open_run(
            request.source_id, request.request, request.cause, ports.now()
        )
        if answer.ticket is None:
            return answer
        keys = list(request.keys)
        for segment in request.segments:
            keys.extend(await self._segment(segment))
        taken, crawl = await ports.catalog.pending_keys.take(
            answer.ticket, keys, ports.now(), crawl=request.crawl
        )
        await ports.objects.delete(request.segments)
        return answer.model_copy(
            update={
                "keys": len(taken),
                "crawl": crawl,
                "local": ports.whole,
                "window": ports.limits.window,
            }
        )

    async def _segment(self, key: str) -> list[DirtyKey]:
        try:
            return await get_list(self._ports.objects, key, DirtyKey)
        except ObjectMissing:
            return []  # an earlier attempt took it and deleted it

    @activity.defn(name=FIND_RUNS)
    async def find_runs(self, request: FindRunsRequest) -> FindRunsAnswer:
        """Which executions are open."""
        found = [
            workflow_id
            for workflow_id in request.workflow_ids
            if await self._ports.orchestrator.is_running(workflow_id)
        ]
        return FindRunsAnswer(running=tuple(found))

    @activity.defn(name=REPORT_RUN)
    async def report_run(self, request: ReportRequest) -> RunReport:
        """Start a coordinator that has completed, with a run's end."""
        await self._ports.orchestrator.report_run(request.source_id, request.report)
        return request.report
