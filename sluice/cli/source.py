"""`sluice source`: the corpora, and what is wanted of them."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sluice.cli import output
from sluice.cli.actor import actor
from sluice.cli.desk import ask
from sluice.cli.options import Json, Reason, Source

if TYPE_CHECKING:
    from pydantic import ValidationError

    from console.views import SourceView

app = typer.Typer(name="source", help="The corpora that are kept indexed.", rich_markup_mode=None)

Patterns = list[str] | None


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="1 to 63 of a-z 0-9 _ -.", show_default=False)],
    kind: Annotated[str, typer.Option(help="An installed kind: folder, s3.")] = "folder",
    root: Annotated[str | None, typer.Option(help="folder: the folder.")] = None,
    bucket: Annotated[str | None, typer.Option(help="s3: the bucket.")] = None,
    prefix: Annotated[str, typer.Option(help="Only keys that start with it.")] = "",
    endpoint_url: Annotated[str | None, typer.Option(help="s3: another server than AWS.")] = None,
    region: Annotated[str | None, typer.Option(help="s3: the region.")] = None,
    queue_url: Annotated[
        str | None, typer.Option(help="s3: the SQS queue of the bucket's events.")
    ] = None,
    gate: Annotated[
        Literal["auto", "manual", "strict"], typer.Option(help="Who decides on a run.")
    ] = "auto",
    quiet_period: Annotated[
        float, typer.Option(min=0, help="Seconds of silence before a run starts.")
    ] = 2.0,
    max_delay: Annotated[
        float, typer.Option(min=0, help="Seconds that a change waits at most.")
    ] = 30.0,
    include: Annotated[Patterns, typer.Option(help="Only keys that match the pattern.")] = None,
    exclude: Annotated[Patterns, typer.Option(help="No keys that match the pattern.")] = None,
    tenant: Annotated[str, typer.Option(help="The customer that it belongs to.")] = "default",
    json_: Json = False,
) -> None:
    """Add a source, or change the settings of one: it is checked, stored and crawled."""
    from pathlib import Path  # noqa: PLC0415

    from pydantic import ValidationError  # noqa: PLC0415

    from contracts.errors import ConfigurationError  # noqa: PLC0415
    from contracts.sources import GatePolicy, SourceConfig  # noqa: PLC0415

    folder = str(Path(root).absolute()) if root else None
    # A kind of somebody else's takes what is given, and each says itself what it misses.
    place = {"folder": folder, "s3": bucket}.get(kind, bucket or folder) or ""
    options = {"endpoint_url": endpoint_url, "region": region, "queue_url": queue_url}
    try:
        config = SourceConfig(
            source_id=name,
            kind=kind,
            container=place,
            prefix=prefix,
            tenant=tenant,
            options={option: value for option, value in options.items() if value is not None},
            gate=GatePolicy(gate),
            quiet_period=quiet_period,
            max_delay=max_delay,
            include=tuple(include or ()),
            exclude=tuple(exclude or ()),
        )
    except ValidationError as error:
        raise ConfigurationError(_wrong(name, error)) from error
    added = ask(lambda desk: desk.add(config, actor()))
    if json_:
        output.document(added)
        return
    then = "its crawl has begun" if added.crawling else "it is crawled when `sluice up` runs"
    output.say(f"{name} is stored, and {then}")


@app.command("list")
def list_(json_: Json = False) -> None:
    """All sources."""
    views = ask(lambda desk: desk.sources())
    if json_:
        output.lines(views)
        return
    output.table(
        ("source", "kind", "place", "live", "documents", "chunks", "pending", "state"),
        (
            (
                view.config.source_id,
                view.config.kind,
                _place(view),
                view.pointer.seq or None,
                view.documents,
                view.chunks,
                view.pending,
                _state(view),
            )
            for view in views
        ),
        empty="no source yet: `sluice source add NAME --root FOLDER` adds one",
    )


@app.command()
def show(source: Source, json_: Json = False) -> None:
    """One source: its settings, what readers see, how far it is behind."""
    view = ask(lambda desk: desk.show(source))
    if json_:
        output.document(view)
        return
    pointer, last = view.pointer, view.last_run
    output.fields(
        (
            ("source", view.config.source_id),
            ("kind", view.config.kind),
            ("place", _place(view)),
            ("tenant", view.config.tenant),
            ("gate", view.config.gate.value),
            ("state", _state(view)),
            ("live sequence", pointer.seq or "none yet"),
            ("generation", pointer.generation),
            ("live run", pointer.run_id or None),
            ("promoted at", pointer.promoted_at),
            ("oldest retained", pointer.oldest_retained),
            ("documents", view.documents),
            ("chunks", view.chunks),
            ("pending keys", view.pending),
            ("last run", f"{last.seq} {last.state.value}" if last else None),
            ("its reason", last.reason if last else None),
        )
    )


@app.command()
def remove(source: Source, reason: Reason = "", json_: Json = False) -> None:
    """Remove a source and everything that is indexed of it."""
    _command(source, "remove", reason, as_json=json_)


@app.command()
def crawl(source: Source, reason: Reason = "", json_: Json = False) -> None:
    """Look at every document again; only what has changed is ingested."""
    _command(source, "crawl", reason, as_json=json_)


@app.command()
def pause(source: Source, reason: Reason = "", json_: Json = False) -> None:
    """Start no run; changes collect."""
    _command(source, "pause", reason, as_json=json_)


@app.command()
def resume(source: Source, reason: Reason = "", json_: Json = False) -> None:
    """End a pause, or the pin that a rollback has left."""
    _command(source, "resume", reason, as_json=json_)


def _command(source: str, verb: str, reason: str, *, as_json: bool) -> None:
    from contracts.activities import Command  # noqa: PLC0415

    wanted = Command(verb=verb, actor=actor(), reason=reason)
    result = ask(lambda desk: desk.command(source, wanted))
    if as_json:
        output.document(result)
        return
    output.say(f"{source}: {result.message}")


def _place(view: "SourceView") -> str:
    config = view.config
    if not config.prefix:
        return config.container
    return f"{config.container.rstrip('/')}/{config.prefix}"


def _state(view: "SourceView") -> str:
    if view.pinned:
        return "pinned"
    return "paused" if view.paused else "active"


def _wrong(name: str, error: "ValidationError") -> str:
    first = error.errors()[0]
    if first["loc"] == ("source_id",):
        return (
            f"{name!r} is no name for a source: take 1 to 63 of a-z 0-9 _ -, "
            "with a letter or digit at both ends"
        )
    return f"{first['loc'][0]} is {first['input']!r}: {first['msg'].lower()}"
