"""`sluice document`: what is served of each document, and what went wrong with it."""

from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli import output
from sluice.cli.actor import actor
from sluice.cli.desk import ask
from sluice.cli.options import Json, Reason, Source
from sluice.cli.wanted import wanted

if TYPE_CHECKING:
    from console.views import DocumentKeys

app = typer.Typer(name="document", help="The documents of a source.", rich_markup_mode=None)

Failed = Annotated[bool, typer.Option("--failed", help="Only those whose last attempt failed.")]
Key = Annotated[str, typer.Argument(help="Its key, as `document list` shows it.")]
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
        ("document", "served since", "chunks", "stage", "status", "error", "message"),
        (
            (
                status.doc_key,
                status.live_from_seq,
                status.chunks,
                status.stage.value if status.stage else None,
                status.status.value if status.status else None,
                status.error,
                status.message,
            )
            for status in statuses
        ),
        empty="no document has failed" if failed else f"{source} has no document yet",
    )


@app.command()
def show(source: Source, key: Key, json_: Json = False) -> None:
    """One document: what is served, and how each stage of its last run went."""
    view = ask(lambda desk: desk.document(source, key))
    if json_:
        output.document(view)
        return
    live = view.live
    output.fields(
        (
            ("document", view.doc_key),
            ("served", "yes" if live else "no"),
            ("title", live.title if live else None),
            ("address", live.uri if live else None),
            ("served since", live.from_seq if live else None),
            ("version", live.source_version if live else None),
            ("content hash", live.content_hash if live else None),
            ("media type", live.media_type if live else None),
            ("parser", live.parser if live else None),
            ("bytes", live.size if live else None),
            ("chunks", live.chunks if live else None),
            ("failure accepted by", view.status.acknowledged_by if view.status else None),
            ("change pending", view.status.pending if view.status else None),
            ("last run", view.status.last_seq if view.status else None),
        )
    )
    output.say()
    output.table(
        ("stage", "status", "attempt", "seconds", "error", "message", "tried again"),
        (
            (
                outcome.stage.value,
                outcome.status.value,
                outcome.attempt,
                f"{outcome.seconds:.2f}",
                outcome.error,
                outcome.message,
                outcome.retryable if outcome.error else None,
            )
            for outcome in view.outcomes
        ),
        empty="no run has worked on it",
    )


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
