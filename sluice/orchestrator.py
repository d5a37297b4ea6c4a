"""The orchestrator port on a Temporal client."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from temporalio.client import (
    Client,
    RPCError,
    WithStartWorkflowOperation,
    WorkflowExecutionStatus,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCStatusCode

from contracts import ids, queues
from contracts.activities import (
    CHANGED,
    COLLECTED,
    COMMAND,
    COORDINATOR,
    DECIDE,
    RUN_FINISHED,
    Command,
    CommandResult,
    CoordinatorState,
    RunReport,
)
from contracts.errors import ConfigurationError, NotReachable, RunError, SluiceError
from contracts.events import ChangeSignal
from contracts.gate import Verdict
from contracts.wire import WireModel

SIGNAL_TIMEOUT = timedelta(seconds=10)  # of one signal-with-start, the SDK's retries included
QUERY_TIMEOUT = timedelta(seconds=5)
COMMAND_TIMEOUT = timedelta(seconds=120)  # until a worker has obeyed


async def connect(address: str, namespace: str) -> Client:
    """A client that speaks the project's models.

    Raises:
        NotReachable: nothing answers.
    """
    try:
        return await Client.connect(
            address, namespace=namespace, data_converter=pydantic_data_converter
        )
    except (RPCError, RuntimeError, OSError) as error:
        raise NotReachable(
            f"Temporal doesn't answer at {address}: start it, or correct SLUICE_TEMPORAL_ADDRESS"
        ) from error


@asynccontextmanager
async def _translated(what: str) -> AsyncIterator[None]:
    try:
        yield
    except RPCError as error:
        raise NotReachable(
            f"Temporal did not take {what} ({error.message}): see that its server runs, and try "
            "again"
        ) from error
    except WorkflowUpdateRPCTimeoutOrCancelledError as error:
        raise NotReachable(
            f"no worker obeyed {what} within {COMMAND_TIMEOUT.total_seconds():.0f} s: "
            "see whether a worker runs"
        ) from error


class TemporalOrchestrator:
    """Signals, updates and questions to coordinators."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def signal_changed(self, source_id: str, signal: ChangeSignal) -> None:
        """Signal-with-start; returns when the server has it."""
        await self._signal(source_id, CHANGED, signal)

    async def report_run(self, source_id: str, report: RunReport) -> None:
        """Signal-with-start with a run's end."""
        await self._signal(source_id, RUN_FINISHED, report)

    async def command(self, source_id: str, command: Command) -> CommandResult:
        """Update-with-start; returns what the command did."""
        start: WithStartWorkflowOperation[object, None] = WithStartWorkflowOperation(
            COORDINATOR,
            CoordinatorState(source_id=source_id),
            id=ids.coordinator_workflow_id(source_id),
            task_queue=queues.WORKFLOWS,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        )
        async with _translated(f"the command {command.verb!r}"):
            try:
                result: CommandResult = await self._client.execute_update_with_start_workflow(
                    COMMAND,
                    command,
                    start_workflow_operation=start,
                    result_type=CommandResult,
                    rpc_timeout=COMMAND_TIMEOUT,
                )
            except WorkflowUpdateFailedError as error:
                raise _refusal(source_id, error) from error
        return result

    async def decide(self, source_id: str, seq: int, verdict: Verdict) -> CommandResult:
        """Update of the run's workflow; returns what became of the run."""
        handle = self._client.get_workflow_handle(ids.run_workflow_id(source_id, seq))
        async with _translated("the decision"):
            try:
                result: CommandResult = await handle.execute_update(
                    DECIDE, verdict, result_type=CommandResult, rpc_timeout=COMMAND_TIMEOUT
                )
            except WorkflowUpdateFailedError as error:
                raise _refusal(source_id, error) from error
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND:
                    raise RunError(f"run {seq} of {source_id} has ended") from error
                raise
        return result

    async def collected(self, source_id: str) -> int:
        """Asked of the coordinator; one that has ended holds nothing."""
        handle = self._client.get_workflow_handle(ids.coordinator_workflow_id(source_id))
        try:
            answer: int = await handle.query(COLLECTED, result_type=int, rpc_timeout=QUERY_TIMEOUT)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return 0
            raise NotReachable(f"the coordinator did not answer: {error.message}") from error
        except WorkflowQueryFailedError as error:
            raise NotReachable(f"the coordinator of {source_id} did not answer: {error}") from error
        return answer

    async def is_running(self, workflow_id: str) -> bool:
        """Whether the newest execution of that id is open."""
        try:
            description = await self._client.get_workflow_handle(workflow_id).describe()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise NotReachable(f"Temporal did not answer: {error.message}") from error
        return description.status is WorkflowExecutionStatus.RUNNING

    async def _signal(self, source_id: str, name: str, argument: WireModel) -> None:
        async with _translated(f"a signal for {source_id}"):
            await self._client.start_workflow(
                COORDINATOR,
                CoordinatorState(source_id=source_id),
                id=ids.coordinator_workflow_id(source_id),
                task_queue=queues.WORKFLOWS,
                start_signal=name,
                start_signal_args=[argument],
                rpc_timeout=SIGNAL_TIMEOUT,
            )


def _refusal(source_id: str, error: WorkflowUpdateFailedError) -> SluiceError:
    """What a failed update means: the validator refused it, or the coordinator ended with it."""
    cause = error.cause
    if isinstance(cause, ApplicationError) and cause.type == ValueError.__name__:
        return ConfigurationError(cause.message)
    return NotReachable(f"the coordinator of {source_id} ended before it answered: ask again")
