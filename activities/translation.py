"""The one classifier: errors of the tree become Temporal failures that are retried or not, and
every log line of an activity carries its correlation ids."""

import os
import socket
from collections.abc import Sequence
from typing import Any

import structlog
from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.worker import (
    ActivityInboundInterceptor,
    ExecuteActivityInput,
    Interceptor,
)

from contracts.errors import SluiceError
from contracts.runs import RunTicket

log = structlog.get_logger("activities")

WORKER = f"{os.getpid()}@{socket.gethostname()}"


def _run_of(arguments: Sequence[object]) -> str | None:
    """The run that an activity's request carries a ticket of."""
    ticket = getattr(arguments[0], "ticket", None) if arguments else None
    return ticket.run_id if isinstance(ticket, RunTicket) else None


def _known(error: BaseException) -> SluiceError | None:
    """The error of our tree: itself, or what a task group carries; one that is final goes first."""
    if isinstance(error, SluiceError):
        return error
    if not isinstance(error, BaseExceptionGroup):
        return None
    found = [known for inner in error.exceptions if (known := _known(inner)) is not None]
    return min(found, key=lambda known: known.retryable, default=None)


class _Translating(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - the SDK names the parameter
        info = activity.info()
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(
            workflow=info.workflow_id,
            activity=info.activity_type,
            attempt=info.attempt,
            run=_run_of(input.args),
            worker=WORKER,
        )
        log.info("activity started")
        try:
            result = await self.next.execute_activity(input)
        except Exception as error:
            known = _known(error)
            if known is None:
                log.exception("activity failed", error=type(error).__name__)
                raise
            log.warning("activity failed", error=known.name, message=str(known))
            raise ApplicationError(
                str(known), type=known.name, non_retryable=not known.retryable
            ) from error
        log.info("activity finished")
        return result


class ErrorTranslation(Interceptor):
    """Worker interceptor; see the module."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 - the SDK names the parameter
        """Wrap the activity."""
        return _Translating(super().intercept_activity(next))
