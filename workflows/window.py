"""The sliding window of batches: starts children, waits for their results, finds lost ones."""

from dataclasses import dataclass, field
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import WorkflowAlreadyStartedError

with workflow.unsafe.imports_passed_through():
    from contracts import ids
    from contracts.activities import DOCUMENT_BATCH, BatchInput, BatchReport, RunInput
    from contracts.runs import BatchRef, RunCounts
    from workflows import calls

RECONCILE_EVERY = timedelta(seconds=60)  # without news, before the server is asked
RESTARTS = 2  # of a batch whose workflow is gone without a report


def merge(counts: RunCounts, more: RunCounts) -> RunCounts:
    """The sum of two counts, field by field."""
    names = RunCounts.model_fields.keys() - {"version"}
    return RunCounts.model_validate(
        {name: getattr(counts, name) + getattr(more, name) for name in names}
    )


@dataclass
class Window:
    """At most `size` batches in flight. A batch leaves it with its report, never with its start."""

    run: RunInput
    counts: RunCounts
    retryable: int = 0
    next_batch: int = 0
    in_flight: dict[int, int] = field(default_factory=dict)  # number to restarts
    reports: dict[int, BatchReport] = field(default_factory=dict)
    error: str | None = None

    def take_report(self, report: BatchReport) -> None:
        """Take a signal; a report of a batch that isn't in flight is a repetition."""
        self.reports.setdefault(report.number, report)

    def settle(self) -> None:
        """Count the reports of batches in flight."""
        for number in [n for n in self.in_flight if n in self.reports]:
            report = self.reports.pop(number)
            del self.in_flight[number]
            self.counts = merge(self.counts, report.counts)
            self.retryable += report.retryable
            self.error = self.error or report.error

    @property
    def has_news(self) -> bool:
        """Whether a report of a batch in flight has come."""
        return any(number in self.reports for number in self.in_flight)

    async def start(self, batch: BatchRef) -> None:
        """Start a batch's child; one that is already there counts as started."""
        self.in_flight.setdefault(batch.number, 0)
        ticket = self.run.ticket
        try:
            child = await workflow.start_child_workflow(
                DOCUMENT_BATCH,
                BatchInput(ticket=ticket, batch=batch),
                id=ids.batch_workflow_id(ticket.source_id, ticket.seq, batch.number),
                parent_close_policy=workflow.ParentClosePolicy.ABANDON,
                cancellation_type=workflow.ChildWorkflowCancellationType.ABANDON,
            )
        except WorkflowAlreadyStartedError:
            workflow.logger.info("batch %s is already there", batch.number)
            return
        calls.forget(child)
        calls.raise_if_cancelled()

    async def wait(self) -> list[int]:
        """Wait for a report; without one for a minute, answer the numbers whose workflow is
        gone."""
        try:
            await workflow.wait_condition(lambda: self.has_news, timeout=RECONCILE_EVERY)
        except TimeoutError:
            return await self._lost()
        return []

    async def _lost(self) -> list[int]:
        ticket = self.run.ticket
        names = {
            ids.batch_workflow_id(ticket.source_id, ticket.seq, number): number
            for number in self.in_flight
        }
        alive = await calls.running(list(names))
        lost = [number for name, number in names.items() if name not in alive]
        return [number for number in lost if number not in self.reports]

    def may_restart(self, number: int) -> bool:
        """Count a lost batch's restart; False and an error when it was lost too often."""
        self.in_flight[number] += 1
        if self.in_flight[number] <= RESTARTS:
            return True
        self.error = f"batch {number} ended {RESTARTS + 1} times without a report"
        del self.in_flight[number]
        return False
