"""`sluice document`: what is served of each document, and what went wrong with it."""

from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli import output
from sluice.cli.actor import actor
from sluice.cli.desk import ask
from sluice.cli.history import tell
from sluice.cli.options import Json, Reason, Source
from sluice.cli.wanted import wanted

if TYPE_CHECKING:
    from console.views import DocumentKeys

app = typer.Typer(name="document", help="The documents of a source.", rich_markup_mode=None)

Before = Annotated[
    int | None, typer.Option("--before", min=1, help="Only runs below this sequence.")
]
Failed = Annotated[bool, typer.Option("--failed", help="Only those whose last attempt failed.")]
Key = Annotated[str, typer.Argument(help="Its key, as `document list` shows it.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=200, help="How many runs at most.")]
Keys = Annotated[list[str], typer.Argument(help="Their keys, as `document list` shows them.")]


@app.command("list")
def list_(source: Source, failed: Failed = False, json_: Json = False) -> None:
    """The documents, by key."""
    statuses = [
        status
        for status in ask(lambda desk: desk.documents(source))
        if status.error is not None or not failed
    ]
    if json_:
        output.lines(statuses)
        return
    output.table(
        ("document", "is", "since", "why", "served from run", "chunks", "last run"),
        (
            (
                status.doc_key,
                status.place.value if status.place else None,
                status.since,
                status.why,
                status.live_from_seq,
                status.chunks,
                status.last_seq,
            )
            for status in statuses
        ),
        empty="no document has failed" if failed else f"{source} has no document yet",
    )


@app.command()
def show(source: Source, key: Key, json_: Json = False) -> None:
    """One document: where it is, what is served, and the runs that made that and came last."""
    view = ask(lambda desk: desk.document(source, key))
    if json_:
        output.document(view)
        return
    live, status = view.live, view.status
    output.fields(
        (
            ("document", view.doc_key),
            ("served", "yes" if live else "no"),
            ("is", status.place.value if status and status.place else None),
            ("since", status.since if status else None),
            ("why", status.why if status else None),
            ("title", live.title if live else None),
            ("address", live.uri if live else None),
            ("served since", live.from_seq if live else None),
            ("version", live.source_version if live else None),
            ("content hash", live.content_hash if live else None),
            ("media type", live.media_type if live else None),
            ("parser", live.parser if live else None),
            ("bytes", live.size if live else None),
            ("chunks", live.chunks if live else None),
            ("failure accepted by", status.acknowledged_by if status else None),
            ("change pending", status.pending if status else None),
            ("last run", status.last_seq if status else None),
        )
    )
    told = {run.seq: run for run in (view.latest, view.made) if run is not None}
    for run in told.values():
        output.say()
        tell(run)
    if not told:
        output.say("no run has worked on it")


@app.command()
def history(
    source: Source, key: Key, before: Before = None, limit: Limit = 10, json_: Json = False
) -> None:
    """What each run did with a document, and what made each run do it; newest first."""
    runs = ask(lambda desk: desk.history(source, key, limit, before))
    if json_:
        output.lines(runs)
        return
    for place, run in enumerate(runs):
        if place:
            output.say()
        tell(run)
    if not runs:
        output.say("no run has touched it" if before is None else f"no run before {before} did")
    elif len(runs) == limit:
        output.say()
        output.say(f"earlier ones: `--before {runs[-1].seq}`")


@app.command()
def retry(source: Source, keys: Keys, reason: Reason = "", json_: Json = False) -> None:
    """Have documents that failed tried again, though nothing has changed."""
    request = _wanted(keys, reason)
    count = ask(lambda desk: desk.retry(source, request))
    if json_:
        output.document({"retried": count})
        return
    output.say(f"{source}: {count} will be tried again with the next run")


@app.command()
def acknowledge(source: Source, keys: Keys, reason: Reason = "", json_: Json = False) -> None:
    """Accept that documents fail as they are: a strict gate no longer minds them."""
    request = _wanted(keys, reason)
    count = ask(lambda desk: desk.acknowledge(source, request))
    if json_:
        output.document({"acknowledged": count})
        return
    output.say(f"{source}: {count} acknowledged, until a new version fails")


def _wanted(keys: list[str], reason: str) -> "DocumentKeys":
    from console.views import DocumentKeys  # noqa: PLC0415

    return wanted(DocumentKeys, keys=tuple(keys), actor=actor(), reason=reason)
