"""The workers: which workflow and which activity is served on which queue."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta

from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from activities.checks import Checks
from activities.commands import Commands
from activities.embedding import Embedding
from activities.indexing import Indexing
from activities.parsing import Parsing
from activities.planning import Planning
from activities.ports import Ports
from activities.promotion import Promotion
from activities.retirement import Retirement
from activities.status import Status
from activities.translation import ErrorTranslation
from contracts import queues
from workflows.coordinator import SourceCoordinator
from workflows.document_batch import DocumentBatch
from workflows.ingest_run import IngestRun

WORKFLOWS: Sequence[type] = (SourceCoordinator, IngestRun, DocumentBatch)

GRACE = timedelta(seconds=10)  # for running activities when a worker ends
HEARTBEAT_THROTTLE = timedelta(seconds=1)  # cancellation travels on heartbeats

# Modules that workflows use unchanged. Everything else is re-imported in the sandbox.
PASSED_THROUGH = ("contracts", "workflows", "pydantic", "pydantic_core", "numpy")

Activity = Callable[..., object]


def activities_by_queue(ports: Ports) -> dict[str, list[Activity]]:
    """Every activity on the queue that serves it; the workflow queue has the local ones."""
    planning, promotion, status = Planning(ports), Promotion(ports), Status(ports)
    checks = Checks(ports)
    served: dict[str, list[Activity]] = {
        queues.WORKFLOWS: [
            planning.spill_keys,
            planning.batch_list,
            promotion.wait_run,
            promotion.promote_run,
            status.open_run,
            status.source_state,
        ],
        queues.PARSING: [Parsing(ports).parse_batch],
        queues.INGESTION: [planning.plan_run, Embedding(ports).embed_batch],
        queues.INDEXING: [
            Indexing(ports).index_batch,
            checks.check_run,
            checks.restage_run,
            promotion.end_run,
            Retirement(ports).sweep_source,
            Commands(ports).obey_command,
        ],
        queues.STATUS: [status.find_runs, status.report_run],
    }
    if ports.whole:
        # Small work is done in the workflow worker; see `workflows.calls.near`.
        served[queues.WORKFLOWS] = [a for activities in served.values() for a in activities]
    return served


def workflow_runner(*, sandboxed: bool = True) -> WorkflowRunner:
    """The sandbox with our pure modules passed through: re-importing the models would cost 25 ms
    and half a megabyte a workflow."""
    if not sandboxed:
        return UnsandboxedWorkflowRunner()
    restrictions = SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH)
    return SandboxedWorkflowRunner(restrictions=restrictions)


def workers(client: Client, ports: Ports, serve: Sequence[str] = queues.ALL) -> list[Worker]:
    """One worker a queue."""
    activities = activities_by_queue(ports)
    return [
        Worker(
            client,
            task_queue=queue,
            workflows=list(WORKFLOWS) if queue == queues.WORKFLOWS else [],
            activities=activities[queue],
            workflow_runner=workflow_runner(),
            interceptors=[ErrorTranslation(ports.catalog)],
            graceful_shutdown_timeout=GRACE,
            max_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
            default_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
        )
        for queue in serve
    ]


async def serve(client: Client, ports: Ports, stop: asyncio.Event) -> None:
    """Run every worker until `stop` is set, then end them gracefully."""
    async with AsyncExitStack() as stack:
        for worker in workers(client, ports):
            await stack.enter_async_context(worker)
        await stop.wait()
