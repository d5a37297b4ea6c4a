"""`sluice run`: the attempts to move a source to a new state."""

from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli import output
from sluice.cli.desk import ask
from sluice.cli.options import Json, Source

if TYPE_CHECKING:
    from console.desk import Desk
    from contracts.runs import DocumentOutcome, RunRecord

app = typer.Typer(name="run", help="The runs of a source.", rich_markup_mode=None)

Limit = Annotated[int, typer.Option("--limit", min=1, max=1_000, help="How many at most.")]
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
            ("started from", run.base_seq),
            ("generation", run.generation),
            ("started at", run.started_at),
            ("ended at", run.ended_at),
            ("promoted at", run.promoted_at),
            *run.counts.model_dump(exclude={"version"}).items(),
        )
    )
    output.say()
    output.table(
        ("document", "stage", "status", "attempt", "chunks", "seconds", "error", "message"),
        (
            (
                outcome.doc_key,
                outcome.stage.value,
                outcome.status.value,
                outcome.attempt,
                outcome.chunks,
                f"{outcome.seconds:.2f}",
                outcome.error,
                outcome.message,
            )
            for outcome in outcomes
        ),
        empty="no document had to be worked on",
    )


async def _read(
    desk: "Desk", source: str, seq: int | None
) -> tuple["RunRecord", list["DocumentOutcome"]]:
    from contracts.errors import UnknownRun  # noqa: PLC0415

    if seq is None:
        newest = await desk.runs(source, 1)
        if not newest:
            raise UnknownRun(f"{source} has had no run yet: `sluice source crawl {source}`")
        return newest[0], await desk.outcomes(source, newest[0].seq)
    return await desk.run(source, seq), await desk.outcomes(source, seq)
