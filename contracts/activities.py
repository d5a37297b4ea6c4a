"""Names of activities and workflows with their inputs and results: references and counts only."""

from typing import Final

from pydantic import Field

from contracts.events import DirtyKey
from contracts.gate import CheckReport, GateDecision
from contracts.ids import SourceId
from contracts.runs import BatchRef, RunCounts, RunState, RunTicket, Stage
from contracts.sources import GatePolicy
from contracts.wire import WireModel

COORDINATOR: Final = "SourceCoordinator"
INGEST_RUN: Final = "IngestRun"
DOCUMENT_BATCH: Final = "DocumentBatch"

CHANGED: Final = "changed"  # signal of the coordinator
RUN_FINISHED: Final = "run_finished"  # signal of the coordinator
DECIDE: Final = "decide"  # update of a run that waits at its gate
DECIDED: Final = "decided"  # signal of it, for whoever needs no answer
BATCH_FINISHED: Final = "batch_finished"  # signal of a run
COMMAND: Final = "command"  # update of the coordinator
COLLECTED: Final = "collected"  # query of the coordinator

SOURCE_STATE: Final = "source_state"
OPEN_RUN: Final = "open_run"
FIND_RUNS: Final = "find_runs"
PLAN_RUN: Final = "plan_run"
STAGE_BATCH: Final = {
    Stage.PARSE: "parse_batch",
    Stage.EMBED: "embed_batch",
    Stage.INDEX: "index_batch",
}
CHECK_RUN: Final = "check_run"
RESTAGE_RUN: Final = "restage_run"
WAIT_RUN: Final = "wait_run"
PROMOTE_RUN: Final = "promote_run"
END_RUN: Final = "end_run"
SPILL_KEYS: Final = "spill_keys"
BATCH_LIST: Final = "batch_list"
SWEEP_SOURCE: Final = "sweep_source"
OBEY_COMMAND: Final = "obey_command"
REPORT_RUN: Final = "report_run"


class CoordinatorState(WireModel):
    """Everything that a coordinator carries from one execution to the next: at most 32 KB."""

    source_id: SourceId
    keys: tuple[DirtyKey, ...] = ()
    segments: tuple[str, ...] = ()
    crawl: bool = False
    dirty_since: float | None = None  # seconds since the epoch
    opened: int = 0  # runs asked for so far; with the first execution's id it names each request
    chain: str = ""  # first execution's run id
    rechecks: tuple[DirtyKey, ...] = ()
    recheck_at: float | None = None  # seconds since the epoch
    events: int = 0


class SourceState(WireModel):
    """What the catalog says of a source, for its coordinator."""

    exists: bool = True
    paused: bool = False
    pinned: bool = False
    removed: bool = False
    quiet_period: float = 2.0  # seconds
    max_delay: float = 30.0  # seconds
    unresolved: RunTicket | None = None
    unswept: bool = False  # withdrawn sequences wait for their purge: nothing may stage
    retry_at: float | None = None  # seconds since the epoch, when given-back keys start a run
    sweep_at: float | None = None  # seconds since the epoch, when a purge or retirement is due


class SourceRequest(WireModel):
    """Name a source."""

    source_id: SourceId


class Segment(WireModel):
    """A list of `DirtyKey` in the object store."""

    key: str


class SpillRequest(WireModel):
    """Move keys out of a coordinator's state into a segment of the object store."""

    source_id: SourceId
    keys: tuple[DirtyKey, ...]


class FindRunsRequest(WireModel):
    """Ask the server which of these executions are open."""

    workflow_ids: tuple[str, ...]


class FindRunsAnswer(WireModel):
    """Workflow ids of the open ones."""

    running: tuple[str, ...] = ()


class SweepReport(WireModel):
    """What housekeeping did: sequences purged, and the sequence that was retired up to."""

    purged: tuple[int, ...] = ()
    retired: int | None = None


class OpenRunRequest(WireModel):
    """Ask for the next run. The same `request` is answered with the same ticket."""

    source_id: SourceId
    request: str  # `<first execution's run id>#<counter>`
    cause: str
    keys: tuple[DirtyKey, ...] = ()  # given to the run durably, before its workflow starts
    segments: tuple[str, ...] = ()
    crawl: bool = False


class OpenRunAnswer(WireModel):
    """A ticket, or why there is none."""

    ticket: RunTicket | None = None
    refused: str | None = None
    keys: int = 0  # that the run has, those given back by earlier runs among them
    crawl: bool = False
    local: bool = False  # this process can do every activity itself
    window: int = 4  # batches in flight


class RunInput(WireModel):
    """Input of `IngestRun`, and what it carries when it continues as new."""

    ticket: RunTicket
    keys: int = 0  # that the run has taken; the catalog knows which
    crawl: bool = False
    window: int = 4  # batches in flight
    local: bool = False  # small work is done in the workflow worker, without a queue between
    plan: "PlanReport | None" = None
    next_batch: int = 0
    in_flight: tuple[int, ...] = ()
    counts: RunCounts = Field(default_factory=RunCounts)
    retryable: int = 0  # documents that failed retryably


class PlanRequest(WireModel):
    """Look at the source and say what has to be done."""

    ticket: RunTicket


class PlanReport(WireModel):
    """What a plan found. The entries are in the object store, one object a batch."""

    batches: tuple[BatchRef, ...] = ()  # at most `INLINE_BATCHES`, else `index` has them
    index: str | None = None  # object-store key of the list of `BatchRef`
    total_batches: int = 0
    changed: int = 0
    deleted: int = 0
    unchanged: int = 0
    known_failed: int = 0
    live_documents: int = 0  # at the run's base; counted where `listed` is 0
    listed: int | None = None  # documents that a full crawl saw
    more: bool = False  # the crawl was cut: another run must follow
    recheck: tuple[DirtyKey, ...] = ()  # recent hints that showed no change
    gate: GatePolicy = GatePolicy.AUTO
    approval_timeout: float = 7 * 86_400.0  # seconds


INLINE_BATCHES: Final = 50  # batch references, about 5 KB


class BatchListRequest(WireModel):
    """Read some references of a plan with many batches."""

    index: str
    first: int
    limit: int


class BatchList(WireModel):
    """References to batches, in order."""

    batches: tuple[BatchRef, ...] = ()


class StageRequest(WireModel):
    """Bring a batch through one stage. `only` is a bitmap (hex) of entries, None: all."""

    ticket: RunTicket
    batch: BatchRef
    only: str | None = None
    attempt: int = 1


class StageReport(WireModel):
    """Counts, the bitmap of what failed retryably, and how long to wait before trying it again."""

    done: int = 0
    unchanged: int = 0
    failed: int = 0
    deleted: int = 0
    embedded: int = 0
    embedded_tokens: int = 0
    retry: str | None = None  # bitmap (hex) of entries; None: none
    retry_after: float | None = None  # seconds


class BatchInput(WireModel):
    """Input of `DocumentBatch`."""

    ticket: RunTicket
    batch: BatchRef


class BatchReport(WireModel):
    """Signal `batch_finished`: what became of a batch. `error` says why it failed as a whole."""

    number: int
    counts: RunCounts = Field(default_factory=RunCounts)
    retryable: int = 0
    error: str | None = None


class CheckRequest(WireModel):
    """Compare every store with the catalog."""

    ticket: RunTicket
    listed: int | None = None
    retryable: int = 0  # documents of the run that failed, and may succeed later


class WaitRequest(WireModel):
    """Say that a run waits for a person, and on what."""

    ticket: RunTicket
    report: CheckReport
    counts: RunCounts
    reason: str


class PromoteRequest(WireModel):
    """Move the live pointer, if everything is as it was when the gate looked."""

    ticket: RunTicket
    report: CheckReport
    decision: GateDecision
    counts: RunCounts
    retryable: int = 0


class PromoteReport(WireModel):
    """The flip. `promoted` False: the compare-and-set found another state."""

    promoted: bool
    reason: str | None = None


class EndRequest(WireModel):
    """End a run that isn't promoted: fence, purge, verify, give its keys back."""

    ticket: RunTicket
    state: RunState
    reason: str
    counts: RunCounts = Field(default_factory=RunCounts)
    actor: str = "policy"  # of a rejection


class RunReport(WireModel):
    """Signal `run_finished`."""

    seq: int
    state: RunState
    counts: RunCounts = Field(default_factory=RunCounts)
    more: bool = False
    recheck: tuple[DirtyKey, ...] = ()
    reason: str | None = None


class ReportRequest(WireModel):
    """Deliver a run's end to a coordinator that isn't there."""

    source_id: SourceId
    report: RunReport


class Command(WireModel):
    """Update `command` of the coordinator: what a person wants of a source."""

    verb: str  # crawl, pause, resume, rollback, empty, remove
    actor: str = "cli"
    reason: str = ""
    to_seq: int | None = None  # rollback only; None: the sequence before the live one


class CommandRequest(WireModel):
    """A command for the catalog and the stores."""

    source_id: SourceId
    command: Command


class CommandResult(WireModel):
    """What a command did. `error` is the class of the error tree, if it was refused."""

    ok: bool
    message: str
    error: str | None = None
    seq: int | None = None


RunInput.model_rebuild()
