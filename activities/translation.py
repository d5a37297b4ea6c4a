"""The one classifier: errors of the tree become Temporal failures that are retried or not, and
every log line of an activity carries its correlation ids. A run that waits says why."""

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
from contracts.ports import RunCatalog
from contracts.runs import RunTicket

log = structlog.get_logger("activities")

WORKER = f"{os.getpid()}@{socket.gethostname()}"


def _ticket_of(arguments: Sequence[object]) -> RunTicket | None:
    """The ticket that an activity's request carries."""
    ticket = getattr(arguments[0], "ticket", None) if arguments else None
    return ticket if isinstance(ticket, RunTicket) else None


def _known(error: BaseException) -> SluiceError | None:
    """The error of our tree: itself, or what a task group carries; one that is final goes first."""
    if isinstance(error, SluiceError):
        return error
    if not isinstance(error, BaseExceptionGroup):
        return None
    found = [known for inner in error.exceptions if (known := _known(inner)) is not None]
    return min(found, key=lambda known: known.retryable, default=None)


class _Translating(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, runs: RunCatalog) -> None:  # noqa: A002 - the SDK names the parameter
        super().__init__(next)
        self._runs = runs

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - the SDK names the parameter
        info = activity.info()
        ticket = _ticket_of(input.args)
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(
            workflow=info.workflow_id,
            activity=info.activity_type,
            attempt=info.attempt,
            run=ticket.run_id if ticket is not None else None,
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
            if ticket is not None and known.retryable:
                await self._note(ticket, f"waits: {known}")
            raise ApplicationError(
                str(known), type=known.name, non_retryable=not known.retryable
            ) from error
        log.info("activity finished")
        if ticket is not None and info.attempt > 1:
            await self._note(ticket, None)
        return result

    async def _note(self, ticket: RunTicket, reason: str | None) -> None:
        """A run that waits for another attempt says what for, until that attempt succeeds."""
        try:
            await self._runs.update_run(ticket, None, reason=reason)
        except SluiceError as refused:  # fenced or ended, or the catalog itself is what failed
            log.info("the reason of the wait was not noted", why=str(refused))


class ErrorTranslation(Interceptor):
    """Worker interceptor; see the module.

    Args:
        runs: where a run's reason to wait is noted.
    """

    def __init__(self, runs: RunCatalog) -> None:
        self._runs = runs

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 - the SDK names the parameter
        """Wrap the activity."""
        return _Translating(super().intercept_activity(next), self._runs)
