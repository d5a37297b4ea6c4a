"""A batch of documents of one run, as a child that outlives its parent's execution."""

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from contracts import ids
    from contracts.activities import BATCH_FINISHED, DOCUMENT_BATCH, BatchInput, BatchReport
    from contracts.runs import RunCounts
    from workflows import calls
    from workflows.stages import through_stages


@workflow.defn(name=DOCUMENT_BATCH, failure_exception_types=[Exception])
class DocumentBatch:
    """Id `source/<source_id>/run/<seq>/batch/<number>`; reports to the run by its workflow id."""

    @workflow.run
    async def run(self, batch: BatchInput) -> BatchReport:
        """All stages, then one report, of success or of failure."""
        try:
            report = await through_stages(batch.ticket, batch.batch)
        except ActivityError as error:
            calls.raise_if_cancelled()
            name, message = calls.cause_of(error)
            report = BatchReport(
                number=batch.batch.number,
                counts=RunCounts(planned=batch.batch.documents),
                error=f"{name}: {message}",
            )
        await self._tell_run(batch, report)
        return report

    async def _tell_run(self, batch: BatchInput, report: BatchReport) -> None:
        run = ids.run_workflow_id(batch.ticket.source_id, batch.ticket.seq)
        try:
            await workflow.get_external_workflow_handle(run).signal(BATCH_FINISHED, report)
        except ApplicationError:
            workflow.logger.info("the run has ended: nobody waits for this batch")
        calls.raise_if_cancelled()
