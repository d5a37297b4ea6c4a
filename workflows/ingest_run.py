"""One run of a source: plan, batches, checks, gate, flip; whatever happens, its end is told."""

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, ApplicationError, ChildWorkflowError

with workflow.unsafe.imports_passed_through():
    from pydantic import ValidationError

    from contracts import ids
    from contracts.activities import (
        BATCH_FINISHED,
        BATCH_LIST,
        CHECK_RUN,
        DECIDE,
        DECIDED,
        END_RUN,
        INGEST_RUN,
        PLAN_RUN,
        PROMOTE_RUN,
        REPORT_RUN,
        RESTAGE_RUN,
        RUN_FINISHED,
        WAIT_RUN,
        BatchList,
        BatchListRequest,
        BatchReport,
        CheckRequest,
        CommandResult,
        EndRequest,
        PlanReport,
        PlanRequest,
        PromoteReport,
        PromoteRequest,
        ReportRequest,
        RunInput,
        RunReport,
        WaitRequest,
    )
    from contracts.gate import CheckReport, Decision, GateDecision, Verdict
    from contracts.runs import BatchRef, RunCounts, RunState
    from workflows import calls, gate
    from workflows.stages import SMALL_DOCUMENTS, is_small, through_stages
    from workflows.window import Window, merge

CANCELLED_BY_FENCE = "a newer change of the source (a rollback, a removal) took its place"


class _Ended(Exception):
    """The run ends unpromoted: carries the end to the one place that tells it."""

    def __init__(self, state: RunState, reason: str, actor: str = "policy") -> None:
        super().__init__(reason)
        self.state = state
        self.reason = reason
        self.actor = actor


@workflow.defn(name=INGEST_RUN, failure_exception_types=[Exception])
class IngestRun:
    """Id `source/<source_id>/run/<seq>`; started by the coordinator, which it doesn't need."""

    @workflow.init
    def __init__(self, run: RunInput) -> None:
        """Build the state here, so that reports that come early find it."""
        self._input = run
        self._ticket = run.ticket
        self._plan = run.plan
        self._window = Window(
            run,
            counts=run.counts,
            retryable=run.retryable,
            next_batch=run.next_batch,
            in_flight=dict.fromkeys(run.in_flight, 0),
        )
        self._awaited: str | None = None  # digest that a person has to decide on
        self._verdict: Verdict | None = None
        self._report_of_end: RunReport | None = None

    @workflow.signal(name=BATCH_FINISHED)
    def batch_finished(self, payload: RawValue) -> None:
        """A batch's report. What doesn't validate is found by the reconciler."""
        try:
            report = workflow.payload_converter().from_payload(payload.payload, BatchReport)
        except (ValidationError, ValueError, RuntimeError):
            workflow.logger.warning("a batch report did not validate: the server is asked")
            return
        self._window.take_report(report)

    @workflow.update(name=DECIDE)
    async def decide(self, verdict: Verdict) -> CommandResult:
        """A person's decision on what waits; answers when it has been carried out."""
        self._verdict = verdict
        await workflow.wait_condition(lambda: self._report_of_end is not None)
        return _carried_out(self._report_of_end)

    @decide.validator
    def _check_verdict(self, verdict: Verdict) -> None:
        if refusal := self._refusal(verdict):
            raise ValueError(refusal)

    @workflow.signal(name=DECIDED)
    def decided(self, payload: RawValue) -> None:
        """The same for whoever needs no answer; what the validator would refuse is left out."""
        try:
            verdict = workflow.payload_converter().from_payload(payload.payload, Verdict)
        except (ValidationError, ValueError, RuntimeError):
            workflow.logger.warning("a verdict did not validate")
            return
        if refusal := self._refusal(verdict):
            workflow.logger.warning("a verdict was refused: %s", refusal)
            return
        self._verdict = verdict

    def _refusal(self, verdict: Verdict) -> str | None:
        if self._awaited is None:
            return f"run {self._ticket.seq} doesn't wait for a decision"
        if self._verdict is not None:
            return f"run {self._ticket.seq} has been decided"
        if verdict.manifest_digest != self._awaited:
            return (
                f"run {self._ticket.seq} has the digest {self._awaited}, and "
                f"{verdict.manifest_digest} was looked at: look at it again"
            )
        return None

    @workflow.run
    async def run(self, _run: RunInput) -> RunReport:
        """Go through the run; end it, tell the coordinator."""
        try:
            report = await self._go()
        except _Ended as end:
            ending = self._end(end.state, end.reason, end.actor)
        except (ActivityError, ChildWorkflowError) as error:
            ending = self._end(*self._meaning_of(error))
        except asyncio.CancelledError:
            ending = self._end(RunState.CANCELLED, "cancelled")
        else:
            ending = self._tell_coordinator(report)
        self._report_of_end = await _uncancelled(ending)
        # Whoever decided waits for the answer.
        await workflow.wait_condition(workflow.all_handlers_finished)
        return self._report_of_end

    # --- the way -------------------------------------------------------------------------------

    async def _go(self) -> RunReport:
        plan = self._plan or await self._make_plan()
        self._plan = plan
        await self._ingest(plan)
        if not self._staged_something():
            self._end_without_change(plan)
        report = await self._check(plan)
        decision = gate.decide(report, plan.gate)
        if decision.decision is Decision.WAIT:
            report, decision = await self._wait_for_verdict(plan, report)
        if decision.decision is not Decision.PROMOTE:
            state = RunState.FAILED if decision.failed_checks else RunState.REJECTED
            raise _Ended(state, decision.reason, decision.actor)
        return await self._promote(plan, report, decision)

    async def _wait_for_verdict(
        self, plan: PlanReport, report: CheckReport
    ) -> tuple[CheckReport, GateDecision]:
        """Wait for a person, as long as the source allows; look again before the flip."""
        bound = timedelta(seconds=plan.approval_timeout)
        self._awaited = report.manifest_digest
        until = (workflow.now() + bound).isoformat(timespec="minutes")
        request = WaitRequest(
            ticket=self._ticket,
            report=report,
            counts=self._window.counts,
            reason=f"waits for a decision until {until}",
        )
        await calls.local(WAIT_RUN, request, RunReport)
        try:
            await workflow.wait_condition(lambda: self._verdict is not None, timeout=bound)
        except TimeoutError:
            return report, gate.overdue(plan.approval_timeout)
        calls.raise_if_cancelled()
        verdict = self._verdict
        if verdict is None or not verdict.approve:
            return report, gate.refused(verdict)
        again = await self._check(plan)
        return again, gate.approved(verdict, report, again)

    async def _make_plan(self) -> PlanReport:
        request = PlanRequest(ticket=self._ticket)
        few = self._input.keys <= SMALL_DOCUMENTS and not self._input.crawl
        here = self._input.local and few
        plan = await calls.near(PLAN_RUN, request, PlanReport, calls.LONG_TIMEOUT, here=here)
        calls.raise_if_cancelled()
        self._window.counts = RunCounts(unchanged=plan.unchanged)
        return plan

    async def _ingest(self, plan: PlanReport) -> None:
        if plan.total_batches == 1 and not self._window.in_flight:
            if self._window.next_batch == 0:
                # One batch needs no window, and no child workflow that outlives us.
                here = self._is_here(plan)
                report = await through_stages(self._ticket, plan.batches[0], here=here)
                self._window.counts = merge(self._window.counts, report.counts)
                self._window.retryable += report.retryable
                self._window.next_batch = 1
            return
        while self._window.next_batch < plan.total_batches or self._window.in_flight:
            self._continue_if_suggested()
            await self._fill(plan)
            for number in await self._window.wait():
                if self._window.may_restart(number):
                    await self._window.start(await self._batch(plan, number))
            self._window.settle()
            if self._window.error and not self._window.in_flight:
                break
        if self._window.error:
            raise _Ended(RunState.FAILED, self._window.error)

    async def _fill(self, plan: PlanReport) -> None:
        while (
            self._window.error is None
            and self._window.next_batch < plan.total_batches
            and len(self._window.in_flight) < self._input.window
        ):
            batch = await self._batch(plan, self._window.next_batch)
            self._window.next_batch += 1
            await self._window.start(batch)

    async def _batch(self, plan: PlanReport, number: int) -> BatchRef:
        if plan.index is None:
            return plan.batches[number]
        request = BatchListRequest(index=plan.index, first=number, limit=1)
        answer = await calls.local(BATCH_LIST, request, BatchList)
        return answer.batches[0]

    def _continue_if_suggested(self) -> None:
        if not workflow.info().is_continue_as_new_suggested():
            return
        self._window.settle()
        if self._window.error:
            return  # it ends when what is in flight has reported
        workflow.continue_as_new(
            self._input.model_copy(
                update={
                    "plan": self._plan,
                    "next_batch": self._window.next_batch,
                    "in_flight": tuple(self._window.in_flight),
                    "counts": self._window.counts,
                    "retryable": self._window.retryable,
                }
            )
        )

    async def _check(self, plan: PlanReport) -> CheckReport:
        """Compare the stores with the catalog; on a difference restage it once and look again."""
        request = CheckRequest(
            ticket=self._ticket, listed=plan.listed, retryable=self._window.retryable
        )
        here = self._is_here(plan)
        report = await calls.near(CHECK_RUN, request, CheckReport, here=here)
        if not report.passed:
            await calls.remote(RESTAGE_RUN, request, CheckReport, calls.LONG_TIMEOUT)
            report = await calls.remote(CHECK_RUN, request, CheckReport)
        calls.raise_if_cancelled()
        return report

    async def _promote(
        self, plan: PlanReport, report: CheckReport, decision: GateDecision
    ) -> RunReport:
        request = PromoteRequest(
            ticket=self._ticket,
            report=report,
            decision=decision,
            counts=self._window.counts,
            retryable=self._window.retryable,
        )
        answer = await calls.local(PROMOTE_RUN, request, PromoteReport)
        if not answer.promoted:
            raise _Ended(RunState.FAILED, answer.reason or "the live pointer has moved")
        return self._report(RunState.PROMOTED, None, plan)

    def _is_here(self, plan: PlanReport) -> bool:
        """Whether the work on this plan is done in the workflow worker."""
        one = plan.total_batches == 1 and bool(plan.batches)
        return self._input.local and one and is_small(plan.batches[0])

    # --- ends ----------------------------------------------------------------------------------

    def _staged_something(self) -> bool:
        counts = self._window.counts
        return bool(counts.changed or counts.deleted)

    def _end_without_change(self, plan: PlanReport) -> None:
        counts = self._window.counts
        if plan.listed == 0 and plan.live_documents:
            return  # the gate has its own word for an emptied source
        if self._window.retryable:
            raise _Ended(
                RunState.FAILED,
                f"none of {counts.planned} documents could be ingested, and "
                f"{self._window.retryable} may succeed later",
            )
        raise _Ended(RunState.NO_CHANGE, "nothing differs from what is live")

    def _meaning_of(self, error: BaseException) -> tuple[RunState, str]:
        if workflow.cancellation_reason() is not None:
            return RunState.CANCELLED, "cancelled"
        name, message = calls.cause_of(error)
        if name == "Fenced":
            return RunState.CANCELLED, CANCELLED_BY_FENCE
        return RunState.FAILED, f"{name}: {message}"

    async def _end(self, state: RunState, reason: str, actor: str = "policy") -> RunReport:
        """Stop the batches, purge, give the keys back, tell the coordinator what came of it: a run
        whose flip was committed before it failed is promoted."""
        await self._stop_batches()
        request = EndRequest(
            ticket=self._ticket,
            state=state,
            reason=reason,
            counts=self._window.counts,
            actor=actor,
        )
        ended = await calls.remote(END_RUN, request, RunReport, calls.LONG_TIMEOUT)
        return await self._tell_coordinator(self._report(ended.state, ended.reason, self._plan))

    async def _stop_batches(self) -> None:
        for number in self._window.in_flight:
            name = ids.batch_workflow_id(self._ticket.source_id, self._ticket.seq, number)
            try:
                await workflow.get_external_workflow_handle(name).cancel()
            except ApplicationError:
                workflow.logger.info("batch %s has ended", number)

    def _report(self, state: RunState, reason: str | None, plan: PlanReport | None) -> RunReport:
        return RunReport(
            seq=self._ticket.seq,
            state=state,
            counts=self._window.counts,
            more=plan is not None and plan.more and state is RunState.PROMOTED,
            recheck=plan.recheck if plan is not None else (),
            reason=reason,
        )

    async def _tell_coordinator(self, report: RunReport) -> RunReport:
        coordinator = ids.coordinator_workflow_id(self._ticket.source_id)
        try:
            await workflow.get_external_workflow_handle(coordinator).signal(RUN_FINISHED, report)
        except ApplicationError:
            # It has completed or was terminated: start it again with the report.
            request = ReportRequest(source_id=self._ticket.source_id, report=report)
            await calls.remote(REPORT_RUN, request, RunReport)
        return report


def _carried_out(report: RunReport | None) -> CommandResult:
    """What became of a run, as the answer to a verdict."""
    if report is None:  # pragma: no cover - it is awaited
        return CommandResult(ok=False, message="the run goes on")
    done = {
        RunState.PROMOTED: f"run {report.seq} is live",
        RunState.REJECTED: f"run {report.seq} is rejected: its changes join the next run",
    }
    message = done.get(report.state, f"run {report.seq} ended as {report.state}: {report.reason}")
    return CommandResult(ok=report.state in done, message=message, seq=report.seq)


async def _uncancelled(ending: Coroutine[Any, Any, RunReport]) -> RunReport:
    """The end of a run, also when its cancellation comes in the middle of it. The server sends one
    only."""
    task = asyncio.create_task(ending)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        return await task
