"""`sluice run`: the attempts to move a source to a new state."""

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Final

import typer

from sluice.cli import output
from sluice.cli.actor import actor
from sluice.cli.desk import ask
from sluice.cli.options import Json, Reason, Source
from sluice.cli.wanted import wanted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from console.desk import Desk
    from contracts.runs import DocumentOutcome, RunRecord

app = typer.Typer(name="run", help="The runs of a source.", rich_markup_mode=None)

Limit = Annotated[int, typer.Option("--limit", min=1, max=1_000, help="How many at most.")]
MILLION: Final = 1_000_000
POLL: Final = 0.3  # seconds between two looks of `watch`

Waiting = Annotated[
    int | None, typer.Argument(min=1, help="Its number; the one that waits if left out.")
]
Digest = Annotated[
    str | None,
    typer.Option(help="Digest of what was looked at; refused if the run has another by now."),
]
Seq = Annotated[int | None, typer.Argument(min=1, help="Its number; the newest if left out.")]


@app.command("list")
def list_(source: Source, limit: Limit = 50, json_: Json = False) -> None:
    """The newest runs, newest first."""
    runs = ask(lambda desk: desk.runs(source, limit))
    if json_:
        output.lines(runs)
        return
    output.table(
        ("run", "state", "cause", "changed", "deleted", "failed", "started", "ended", "reason"),
        (
            (
                run.seq,
                run.state.value,
                run.cause,
                run.counts.changed,
                run.counts.deleted,
                run.counts.failed,
                run.started_at,
                run.ended_at,
                run.reason,
            )
            for run in runs
        ),
        empty=f"{source} has had no run yet",
    )


@app.command()
def show(source: Source, seq: Seq = None, json_: Json = False) -> None:
    """One run with the outcome of each document."""
    run, outcomes = ask(lambda desk: _read(desk, source, seq))
    if json_:
        plain = [outcome.model_dump(mode="json") for outcome in outcomes]
        output.document({"run": run.model_dump(mode="json"), "outcomes": plain})
        return
    output.fields(
        (
            ("run", run.run_id),
            ("state", run.state.value),
            ("cause", run.cause),
            ("reason", run.reason),
            ("digest", run.manifest_digest),
            ("started from", run.base_seq),
            ("generation", run.generation),
            ("started at", run.started_at),
            ("ended at", run.ended_at),
            ("promoted at", run.promoted_at),
            *run.counts.model_dump(exclude={"version"}).items(),
            *_cost(run),
        )
    )
    output.say()
    output.table(
        ("stage", "documents", "done", "unchanged", "failed", "tried again", "first", "last"),
        stage_rows(outcomes),
        empty="no document has left a stage",
    )
    output.say()
    output.table(
        (
            *("document", "stage", "status", "attempt", "chunks"),
            *("started", "ended", "seconds", "error", "message"),
        ),
        (
            (
                outcome.doc_key,
                outcome.stage.value,
                outcome.status.value,
                outcome.attempt,
                outcome.chunks,
                outcome.started_at,
                outcome.at,
                f"{outcome.seconds:.2f}",
                outcome.error,
                outcome.message,
            )
            for outcome in outcomes
        ),
        empty="no document had to be worked on",
    )


@app.command()
def approve(
    source: Source,
    seq: Waiting = None,
    digest: Digest = None,
    reason: Reason = "",
    json_: Json = False,
) -> None:
    """Let readers see what a run has staged: the flip follows."""
    _decide(source, seq, digest, reason, approve=True, as_json=json_)


@app.command()
def reject(
    source: Source,
    seq: Waiting = None,
    digest: Digest = None,
    reason: Reason = "",
    json_: Json = False,
) -> None:
    """Take back what a run has staged; its changes join the next run."""
    _decide(source, seq, digest, reason, approve=False, as_json=json_)


def _decide(
    source: str, seq: int | None, digest: str | None, reason: str, *, approve: bool, as_json: bool
) -> None:
    from console.views import Judgement  # noqa: PLC0415

    verdict = wanted(
        Judgement, approve=approve, actor=actor(), reason=reason, manifest_digest=digest
    )
    result = ask(lambda desk: desk.decide(source, seq, verdict))
    if as_json:
        output.document(result)
        return
    output.say(f"{source}: {result.message}")


@app.command()
def watch(source: Source, seq: Seq = None, json_: Json = False) -> None:
    """Tell what becomes of a run until it has ended; exit status 1 if it wasn't promoted."""
    from contracts.runs import RunState  # noqa: PLC0415

    ended = ask(lambda desk: _follow(desk, source, seq, as_json=json_))
    if ended.state not in {RunState.PROMOTED, RunState.NO_CHANGE}:
        raise typer.Exit(1)


async def _follow(desk: "Desk", source: str, seq: int | None, *, as_json: bool) -> "RunRecord":
    told: RunRecord | None = None
    while seq is None and not await desk.runs(source, 1):
        await asyncio.sleep(POLL)  # a source that was just added has its first run soon
    while True:
        run = await _one(desk, source, seq)
        seq = run.seq
        if told is None or (run.state, run.reason) != (told.state, told.reason):
            if as_json:
                output.lines([run])
            else:
                output.say(_line(run))
            output.flush()
        if run.state.final:
            return run
        told = run
        await asyncio.sleep(POLL)


def _line(run: "RunRecord") -> str:
    counts = run.counts
    figures = ""
    if run.state.final or run.state.value == "waiting":
        figures = f": {counts.changed} changed, {counts.deleted} deleted, {counts.failed} failed"
    why = f" ({run.reason})" if run.reason else ""
    return f"run {run.seq} {run.state.value}{figures}{why}"


async def _one(desk: "Desk", source: str, seq: int | None) -> "RunRecord":
    from contracts.errors import UnknownRun  # noqa: PLC0415

    if seq is not None:
        return await desk.run(source, seq)
    newest = await desk.runs(source, 1)
    if not newest:
        raise UnknownRun(f"{source} has had no run yet: `sluice source crawl {source}`")
    return newest[0]


def _cost(run: "RunRecord") -> list[tuple[str, str]]:
    """What the vectors of a run cost, where a price is set."""
    from sluice.settings import load_settings  # noqa: PLC0415 - most commands don't need it

    cost = run.counts.embedded_tokens * load_settings().embedding_price / MILLION
    return [("cost", f"about {cost:.4f}")] if cost else []


def stage_rows(outcomes: "Sequence[DocumentOutcome]") -> "Iterator[tuple[object, ...]]":
    """For each stage how many documents have left it, how, and when the first and the last did."""
    by_stage: dict[str, list[DocumentOutcome]] = {}
    for outcome in outcomes:
        by_stage.setdefault(outcome.stage.value, []).append(outcome)
    for stage in ("parse", "embed", "index"):
        some = by_stage.get(stage)
        if not some:
            continue
        statuses = Counter(outcome.status.value for outcome in some)
        ends = [outcome.at for outcome in some if outcome.at is not None]
        yield (
            stage,
            len(some),
            statuses["done"],
            statuses["unchanged"],
            statuses["failed"],
            sum(outcome.attempt > 1 for outcome in some),
            min(ends, default=None),
            max(ends, default=None),
        )


async def _read(
    desk: "Desk", source: str, seq: int | None
) -> tuple["RunRecord", list["DocumentOutcome"]]:
    run = await _one(desk, source, seq)
    return run, await desk.outcomes(source, run.seq)
