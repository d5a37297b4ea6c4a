"""The coordinator of one source: collects dirty keys, starts one run at a time, obeys commands."""

from collections import deque
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    WorkflowAlreadyStartedError,
)

with workflow.unsafe.imports_passed_through():
    from pydantic import ValidationError

    from contracts import ids
    from contracts.activities import (
        CHANGED,
        COLLECTED,
        COMMAND,
        COORDINATOR,
        END_RUN,
        INGEST_RUN,
        OBEY_COMMAND,
        OPEN_RUN,
        RUN_FINISHED,
        SOURCE_STATE,
        SPILL_KEYS,
        SWEEP_SOURCE,
        Command,
        CommandRequest,
        CommandResult,
        CoordinatorState,
        EndRequest,
        OpenRunAnswer,
        OpenRunRequest,
        RunInput,
        RunReport,
        Segment,
        SourceRequest,
        SourceState,
        SpillRequest,
        SweepReport,
    )
    from contracts.events import ChangeSignal
    from contracts.runs import RunState, RunTicket
    from workflows import calls
    from workflows.agenda import Agenda

VERBS = frozenset({"crawl", "pause", "resume", "rollback", "empty", "remove"})

RECONCILE_EVERY = 60.0  # seconds without news of a run before the server is asked
LONGEST_SILENCE = 900.0  # seconds that the double of it grows to: a run may wait for days
LOOK_AGAIN = 60.0  # seconds before a source that can't run is looked at again
IDLE_BEFORE_END = 86_400.0  # seconds; the next event starts a new execution
STOP_WAIT = timedelta(minutes=2)  # for a cancelled run to end
FIRST_WAIT_AFTER_ERROR = 5.0  # seconds, doubled up to `LOOK_AGAIN`


@dataclass
class _Ordered:
    """A command and, once obeyed, its result."""

    command: Command
    result: CommandResult | None = None


def _cause(taken: ChangeSignal) -> str:
    if taken.crawl:
        return "crawl"
    return "change" if taken.keys or taken.segments else "retry"


@workflow.defn(name=COORDINATOR)
class SourceCoordinator:
    """One per source, id `source/<source_id>`.

    A failure of its own code retries the workflow task instead of failing the workflow: the
    dirty keys stay, and a mended deployment goes on with them.
    """

    @workflow.init
    def __init__(self, state: CoordinatorState) -> None:
        """Build the state here, so that signals that come with the start find it."""
        self._state = state
        self._agenda = Agenda.restore(state)
        self._source = SourceState()
        self._looked = False
        self._run: RunTicket | None = None
        self._run_news_at = 0.0
        self._silence = RECONCILE_EVERY  # seconds until the server is asked for the run again
        self._orders: deque[_Ordered] = deque()
        self._active_at = 0.0
        self._held_until = 0.0
        self._failures = 0
        self._messages = 0  # received by this execution

    # --- messages: synchronous, only change state -------------------------------------------

    @workflow.signal(name=CHANGED)
    def changed(self, payload: RawValue) -> None:
        """Keys that may have changed. What doesn't validate sets "crawl" instead of being lost."""
        self._messages += 1
        try:
            signal = workflow.payload_converter().from_payload(payload.payload, ChangeSignal)
        except (ValidationError, ValueError, RuntimeError):
            workflow.logger.warning("a change signal did not validate: the source is crawled")
            signal = ChangeSignal(crawl=True)
        self._agenda.note(signal, self._now())
        if signal.crawl:
            self._looked = False  # a crawl is asked for when the configuration changes

    @workflow.signal(name=RUN_FINISHED)
    def run_finished(self, payload: RawValue) -> None:
        """A run's end. What doesn't validate makes the coordinator ask the server."""
        self._messages += 1
        try:
            report = workflow.payload_converter().from_payload(payload.payload, RunReport)
        except (ValidationError, ValueError, RuntimeError):
            workflow.logger.warning("a run report did not validate: the server is asked")
            self._run_news_at = 0.0
            return
        self._agenda.note_report(report, self._now())
        if self._run is not None and self._run.seq == report.seq:
            self._run = None
        self._looked = False

    @workflow.update(name=COMMAND)
    async def command(self, command: Command) -> CommandResult:
        """Do what a person wants, in the main loop, and answer its result."""
        self._messages += 1
        order = _Ordered(command)
        self._orders.append(order)
        await workflow.wait_condition(lambda: order.result is not None)
        if order.result is None:  # pragma: no cover - the condition above says otherwise
            return CommandResult(ok=False, message="no result")
        return order.result

    @command.validator
    def _check_command(self, command: Command) -> None:
        if command.verb not in VERBS:
            raise ValueError(f"unknown command {command.verb!r}: use one of {sorted(VERBS)}")

    @workflow.query(name=COLLECTED)
    def collected(self) -> int:
        """How many keys wait here for the next run."""
        return self._agenda.collected

    # --- main loop ------------------------------------------------------------------------------

    @workflow.run
    async def run(self, state: CoordinatorState) -> None:
        """Loop: obey, look, sweep, spill, run, wait."""
        chain = state.chain or workflow.info().first_execution_run_id
        self._state = self._state.model_copy(update={"chain": chain})
        self._active_at = self._now()
        while True:
            try:
                await self._work()
                self._failures = 0
            except ActivityError as error:
                self._hold(error)
            if self._should_end():
                return
            if self._should_continue_as_new():
                await workflow.wait_condition(workflow.all_handlers_finished)
                workflow.continue_as_new(self._agenda.save(self._state))
            await self._wait()

    async def _work(self) -> None:
        if self._orders:
            await self._obey(self._orders.popleft())
        if self._look_due():
            await self._look()
        if self._reconcile_due():
            await self._reconcile()
        if self._sweep_due():
            await self._sweep()
        if self._agenda.overflowing:
            await self._spill()
        self._agenda.wake_rechecks(self._now())
        if self._ready_to_run():
            await self._start_run()

    async def _obey(self, order: _Ordered) -> None:
        command = order.command
        if command.verb == "crawl":
            self._agenda.say_crawl(self._now())
            held = self._source.paused or self._source.pinned
            when = "once it is resumed" if held else "now"
            order.result = CommandResult(ok=True, message=f"the source is crawled {when}")
            self._active_at = self._now()
            return
        request = CommandRequest(source_id=self._state.source_id, command=command)
        try:
            if command.verb == "remove":
                await self._stop_run()
            result = await calls.remote(OBEY_COMMAND, request, CommandResult, calls.LONG_TIMEOUT)
        except ActivityError as error:
            name, message = calls.cause_of(error)
            order.result = CommandResult(ok=False, message=message, error=name)
            return
        # Answered before anything else can fail: whoever gave the order waits for it.
        order.result = result
        self._looked = False
        self._held_until = 0.0
        if result.ok and command.verb == "rollback":
            await self._cancel_run()

    async def _look(self) -> None:
        """Ask the catalog; adopt or end a run that it says is unresolved."""
        request = SourceRequest(source_id=self._state.source_id)
        self._looked = True
        try:
            self._source = await calls.local(SOURCE_STATE, request, SourceState)
        except ActivityError:
            self._looked = False
            raise
        self._active_at = self._now()
        unresolved = self._source.unresolved
        if unresolved is None or (self._run is not None and self._run.seq == unresolved.seq):
            return
        self._run = unresolved
        self._run_news_at = 0.0  # asks the server at once

    async def _reconcile(self) -> None:
        """Ask the server whether the run is alive; end it if it isn't."""
        ticket = self._run
        if ticket is None:
            return
        self._run_news_at = self._now()
        self._silence = min(self._silence * 2, LONGEST_SILENCE)
        workflow_id = ids.run_workflow_id(ticket.source_id, ticket.seq)
        if workflow_id in await calls.running([workflow_id]):
            return
        if self._run is not ticket:
            return  # its report came while the server was asked
        request = EndRequest(
            ticket=ticket,
            state=RunState.FAILED,
            reason="the run's workflow is gone: it was terminated or never started",
        )
        await calls.remote(END_RUN, request, RunReport, calls.LONG_TIMEOUT)
        self._run = None
        self._looked = False

    async def _sweep(self) -> None:
        request = SourceRequest(source_id=self._state.source_id)
        self._looked = False
        await calls.remote(SWEEP_SOURCE, request, SweepReport, calls.LONG_TIMEOUT)
        await self._look()

    async def _spill(self) -> None:
        keys = self._agenda.take_keys()
        request = SpillRequest(source_id=self._state.source_id, keys=keys)
        try:
            segment = await calls.local(SPILL_KEYS, request, Segment)
        except ActivityError:
            self._agenda.say_crawl(self._now())
            raise
        self._agenda.add_segment(segment.key)

    async def _start_run(self) -> None:
        """Open the next run and start its workflow."""
        opened = self._state.opened + 1
        self._state = self._state.model_copy(update={"opened": opened})
        taken = self._agenda.take()
        request = OpenRunRequest(
            source_id=self._state.source_id,
            request=f"{self._state.chain}#{opened}",
            cause=_cause(taken),
            keys=taken.keys,
            segments=taken.segments,
            crawl=taken.crawl,
        )
        try:
            answer = await calls.local(OPEN_RUN, request, OpenRunAnswer)
        except ActivityError:
            self._agenda.note(taken, self._now())
            raise
        if answer.ticket is None:
            workflow.logger.info("no run was opened: %s", answer.refused)
            self._agenda.note(taken, self._now())
            self._held_until = self._now() + LOOK_AGAIN
            self._looked = False
            return
        ticket = answer.ticket
        self._run = ticket
        self._run_news_at = self._active_at = self._now()
        self._silence = RECONCILE_EVERY
        self._source = self._source.model_copy(update={"retry_at": None})
        try:
            child = await workflow.start_child_workflow(
                INGEST_RUN,
                RunInput(
                    ticket=ticket,
                    keys=answer.keys,
                    crawl=answer.crawl,
                    local=answer.local,
                    window=answer.window,
                ),
                id=ids.run_workflow_id(ticket.source_id, ticket.seq),
                parent_close_policy=workflow.ParentClosePolicy.ABANDON,
                cancellation_type=workflow.ChildWorkflowCancellationType.ABANDON,
            )
        except WorkflowAlreadyStartedError:
            return  # an earlier execution started it; its report comes by signal
        calls.forget(child)
        calls.raise_if_cancelled()

    async def _cancel_run(self) -> None:
        if self._run is None:
            return
        workflow_id = ids.run_workflow_id(self._run.source_id, self._run.seq)
        if workflow_id not in await calls.running([workflow_id]):
            return
        try:
            await workflow.get_external_workflow_handle(workflow_id).cancel()
        except ApplicationError:
            workflow.logger.info("the run has ended by itself")
        calls.raise_if_cancelled()

    async def _stop_run(self) -> None:
        """Cancel the run and wait for its end, but not for ever."""
        await self._cancel_run()
        try:
            await workflow.wait_condition(lambda: self._run is None, timeout=STOP_WAIT)
        except TimeoutError:
            workflow.logger.warning("the run did not end in time")

    # --- predicates and times --------------------------------------------------------------------

    def _now(self) -> float:
        return workflow.now().timestamp()

    def _can_run(self) -> bool:
        source = self._source
        blocked = source.paused or source.pinned or source.removed or source.unswept
        return source.exists and not blocked and self._run is None

    def _ready_to_run(self) -> bool:
        if not self._looked or not self._can_run():
            return False
        due = self._run_due_at()
        return due is not None and due <= self._now()

    def _run_due_at(self) -> float | None:
        times = []
        if self._agenda.dirty:
            source = self._source
            times.append(self._agenda.ready_at(source.quiet_period, source.max_delay))
        if self._source.retry_at is not None:
            times.append(self._source.retry_at)
        return max(min(times), self._held_until) if times else None

    def _reconcile_due(self) -> bool:
        if self._run is None or self._now() < self._held_until:
            return False
        return self._now() >= self._run_news_at + self._silence

    def _look_due(self) -> bool:
        return not self._looked and self._now() >= self._held_until

    def _sweep_due(self) -> bool:
        sweep_at = self._source.sweep_at
        return sweep_at is not None and max(sweep_at, self._held_until) <= self._now()

    def _has_work(self) -> bool:
        return (
            bool(self._orders)
            or self._look_due()
            or self._reconcile_due()
            or self._sweep_due()
            or self._agenda.overflowing
            or self._ready_to_run()
        )

    def _should_end(self) -> bool:
        """Whether nothing is left to do, now or later."""
        if self._orders or self._run is not None or not self._looked:
            return False
        if not workflow.all_handlers_finished() or self._source.sweep_at is not None:
            return False
        if self._source.removed or not self._source.exists:
            return True
        waiting = (self._source.retry_at, self._agenda.recheck_at)
        if self._agenda.dirty or any(time is not None for time in waiting):
            return False
        return self._now() - self._active_at >= IDLE_BEFORE_END

    def _should_continue_as_new(self) -> bool:
        return workflow.info().is_continue_as_new_suggested() and not self._orders

    def _next_time(self) -> float:
        """When the loop has something to do if no message comes."""
        times = [self._now() + IDLE_BEFORE_END]
        if not self._looked:
            times.append(self._held_until)
        if self._run is not None:
            times.append(max(self._run_news_at + self._silence, self._held_until))
        if self._source.sweep_at is not None:
            times.append(max(self._source.sweep_at, self._held_until))
        if self._agenda.recheck_at is not None:
            times.append(self._agenda.recheck_at)
        due = self._run_due_at()
        if due is not None and self._can_run():
            times.append(due)
        return min(times)

    def _heard_since(self, messages: int) -> bool:
        return self._messages != messages

    async def _wait(self) -> None:
        """Sleep until a message or the next thing to do. The due time is computed anew after each
        message, because a change moves it."""
        while not self._has_work():
            delay = self._next_time() - self._now()
            if delay <= 0.0:
                return
            try:
                await workflow.wait_condition(
                    partial(self._heard_since, self._messages),
                    timeout=timedelta(seconds=delay),
                )
            except TimeoutError:
                return

    def _hold(self, error: ActivityError) -> None:
        """Wait a while after an error, longer each time; the source stays as dirty as it is."""
        self._failures += 1
        wait = min(FIRST_WAIT_AFTER_ERROR * 2 ** (self._failures - 1), LOOK_AGAIN)
        self._held_until = self._now() + wait
        name, message = calls.cause_of(error)
        workflow.logger.warning("held for %s s after %s: %s", wait, name, message)
