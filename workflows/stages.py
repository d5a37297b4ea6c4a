"""The stages of a batch, one after another, each tried again only for what failed retryably."""

from datetime import timedelta

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from contracts import bitmap
    from contracts.activities import STAGE_BATCH, BatchReport, StageReport, StageRequest
    from contracts.runs import BatchRef, RunCounts, RunTicket, Stage
    from workflows import calls

SMALL_DOCUMENTS = 10
SMALL_BYTES = 1024 * 1024
STAGE_ATTEMPTS = 4  # of what fails retryably, before it is left to a later run
FIRST_RETRY = 2.0  # seconds, doubled with each attempt
LONGEST_BACKOFF = 60.0  # seconds


def retry_delay(attempt: int, asked: float | None) -> timedelta:
    """How long to wait before attempt + 1.

    Args:
        attempt: that has failed, from 1.
        asked: seconds that a server asked for, which its adapter has bounded; never cut short, as
            who asks too early may be asked to wait longer.
    """
    backoff = min(FIRST_RETRY * 2 ** (attempt - 1), LONGEST_BACKOFF)
    return timedelta(seconds=max(backoff, asked or 0.0))


def is_small(batch: BatchRef) -> bool:
    """Whether a batch is done before a queue would have paid for itself."""
    return batch.documents <= SMALL_DOCUMENTS and batch.size <= SMALL_BYTES


def add(counts: RunCounts, report: StageReport) -> RunCounts:
    """The counts with a stage's report added."""
    return counts.model_copy(
        update={
            "unchanged": counts.unchanged + report.unchanged,
            "failed": counts.failed + report.failed,
            "deleted": counts.deleted + report.deleted,
            "embedded": counts.embedded + report.embedded,
            "embedded_tokens": counts.embedded_tokens + report.embedded_tokens,
        }
    )


async def through_stages(ticket: RunTicket, batch: BatchRef, *, here: bool = False) -> BatchReport:
    """Bring a batch through all stages; its documents' outcomes are in the catalog."""
    counts = RunCounts(planned=batch.documents)
    retryable = 0
    for stage in Stage:
        only: str | None = None
        done = 0
        for attempt in range(1, STAGE_ATTEMPTS + 1):
            request = StageRequest(ticket=ticket, batch=batch, only=only, attempt=attempt)
            report = await calls.near(
                STAGE_BATCH[stage], request, StageReport, calls.LONG_TIMEOUT, here=here
            )
            counts = add(counts, report)
            done += report.done
            only = report.retry
            if only is None:
                break
            if attempt < STAGE_ATTEMPTS:
                await workflow.sleep(retry_delay(attempt, report.retry_after))
        left = bitmap.count(only)
        retryable += left
        counts = counts.model_copy(update={"failed": counts.failed + left})
        if not done:
            break
        if stage is Stage.INDEX:
            counts = counts.model_copy(update={"changed": done - counts.deleted})
    return BatchReport(number=batch.number, counts=counts, retryable=retryable)
