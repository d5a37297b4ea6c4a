"""How workflows call activities: one place for queues, time limits and retries."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, ChildWorkflowError

with workflow.unsafe.imports_passed_through():
    from contracts import queues
    from contracts.activities import FIND_RUNS, FindRunsAnswer, FindRunsRequest
    from contracts.wire import WireModel

Result = TypeVar("Result", bound=WireModel)

HEARTBEAT_TIMEOUT = timedelta(seconds=15)  # a dead worker is noticed within it
LOCAL_TIMEOUT = timedelta(seconds=10)  # of one attempt at a catalog statement
SHORT_TIMEOUT = timedelta(minutes=2)  # of one attempt at work on a run as a whole
LONG_TIMEOUT = timedelta(hours=2)  # of one attempt at work on documents
TOTAL_TIMEOUT = timedelta(hours=6)  # of all attempts

RETRY = RetryPolicy(
    initial_interval=timedelta(seconds=1),
    backoff_coefficient=2.0,
    maximum_interval=timedelta(seconds=30),
    maximum_attempts=20,
)

QUEUES = {
    "plan_run": queues.INGESTION,
    "parse_batch": queues.PARSING,
    "embed_batch": queues.INGESTION,
    "index_batch": queues.INDEXING,
    "check_run": queues.INDEXING,
    "restage_run": queues.INDEXING,
    "end_run": queues.INDEXING,
    "sweep_source": queues.INDEXING,
    "obey_command": queues.INDEXING,
    "find_runs": queues.STATUS,
    "report_run": queues.STATUS,
}


async def local(name: str, request: WireModel, result: type[Result]) -> Result:
    """Call a catalog activity in the workflow worker: no round trip to a queue."""
    answer: Result = await workflow.execute_local_activity(
        name,
        request,
        result_type=result,
        start_to_close_timeout=LOCAL_TIMEOUT,
        schedule_to_close_timeout=SHORT_TIMEOUT,
        retry_policy=RETRY,
    )
    return answer


async def remote(
    name: str, request: WireModel, result: type[Result], timeout: timedelta = SHORT_TIMEOUT
) -> Result:
    """Call an activity on its queue; it heartbeats, and is retried within `TOTAL_TIMEOUT`."""
    answer: Result = await workflow.execute_activity(
        name,
        request,
        result_type=result,
        task_queue=QUEUES[name],
        start_to_close_timeout=timeout,
        schedule_to_close_timeout=TOTAL_TIMEOUT,
        heartbeat_timeout=HEARTBEAT_TIMEOUT,
        retry_policy=RETRY,
    )
    return answer


async def near(
    name: str,
    request: WireModel,
    result: type[Result],
    timeout: timedelta = SHORT_TIMEOUT,
    *,
    here: bool,
) -> Result:
    """Call an activity `here`, in the workflow worker, or on its queue.

    What it does is idempotent and its outcomes are durable the moment they are known, so that an
    attempt that dies with its workflow task is repeated from where it was, as on a queue.
    """
    if not here:
        return await remote(name, request, result, timeout)
    answer: Result = await workflow.execute_local_activity(
        name,
        request,
        result_type=result,
        start_to_close_timeout=SHORT_TIMEOUT,
        schedule_to_close_timeout=TOTAL_TIMEOUT,
        retry_policy=RETRY,
    )
    return answer


async def running(workflow_ids: Sequence[str]) -> frozenset[str]:
    """Which of the executions the server says are open."""
    request = FindRunsRequest(workflow_ids=tuple(workflow_ids))
    answer = await remote(FIND_RUNS, request, FindRunsAnswer)
    return frozenset(answer.running)


def forget(child: workflow.ChildWorkflowHandle[Any, Any]) -> None:
    """Leave a child to itself: its end comes by signal, or is found by a reconciler."""
    child.add_done_callback(lambda ended: ended.cancelled() or ended.exception())


def raise_if_cancelled() -> None:
    """Raise a cancellation that the SDK may have swallowed (temporalio/sdk-python#1445).

    Called after every child start, child result and external signal.
    """
    if workflow.cancellation_reason() is not None:
        raise asyncio.CancelledError("cancelled")


def cause_of(error: BaseException) -> tuple[str, str]:
    """Class of the error tree and sentence of what made an activity or child fail."""
    while isinstance(error, ActivityError | ChildWorkflowError) and error.cause is not None:
        error = error.cause
    if isinstance(error, ApplicationError):
        return error.type or "ApplicationError", error.message
    return type(error).__name__, str(error)
