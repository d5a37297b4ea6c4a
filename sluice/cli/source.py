"""`sluice source`: the corpora, and what is wanted of them."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sluice.cli import output
from sluice.cli.actor import actor
from sluice.cli.desk import ask
from sluice.cli.options import Json, Reason, Source

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import ValidationError

    from console.desk import Desk
    from console.views import AddedSource, SourceView
    from contracts.provenance import SourceProgress

app = typer.Typer(name="source", help="The corpora that are kept indexed.", rich_markup_mode=None)

Patterns = list[str] | None

Tenant = Annotated[str | None, typer.Option("--tenant", help="Only sources of this customer.")]

PLACES = {"folder": "--root", "s3": "--bucket"}  # the option that says where each kind reads


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="1 to 63 of a-z 0-9 _ -.", show_default=False)],
    kind: Annotated[
        str | None, typer.Option(help="An installed kind: folder (the default), s3.")
    ] = None,
    root: Annotated[str | None, typer.Option(help="folder: the folder.")] = None,
    bucket: Annotated[str | None, typer.Option(help="s3: the bucket.")] = None,
    prefix: Annotated[str | None, typer.Option(help="Only keys that start with it.")] = None,
    endpoint_url: Annotated[str | None, typer.Option(help="s3: another server than AWS.")] = None,
    region: Annotated[str | None, typer.Option(help="s3: the region.")] = None,
    queue_url: Annotated[
        str | None, typer.Option(help="s3: the SQS queue of the bucket's events.")
    ] = None,
    watch: Annotated[
        bool | None, typer.Option(help="folder: whether it is watched; else crawls find changes.")
    ] = None,
    gate: Annotated[
        Literal["auto", "manual", "strict"] | None,
        typer.Option(help="Who decides on a run: auto, the default, takes what passes the checks."),
    ] = None,
    quiet_period: Annotated[
        float | None, typer.Option(min=0, help="Seconds of silence before a run starts: 2.")
    ] = None,
    max_delay: Annotated[
        float | None, typer.Option(min=0, help="Seconds that a change waits at most: 30.")
    ] = None,
    retain_versions: Annotated[
        int | None, typer.Option(min=0, help="Earlier sequences that are kept for rollback: 1.")
    ] = None,
    include: Annotated[Patterns, typer.Option(help="Only keys that match the pattern.")] = None,
    exclude: Annotated[Patterns, typer.Option(help="No keys that match the pattern.")] = None,
    tenant: Annotated[
        str | None, typer.Option(help="The customer that it belongs to: default.")
    ] = None,
    json_: Json = False,
) -> None:
    """Add a source, or change of a known one what is given; it is checked, stored and crawled."""
    from pathlib import Path  # noqa: PLC0415

    folder = str(Path(root).absolute()) if root else None
    fields = {
        "kind": kind,
        # A kind of somebody else's takes what is given.
        "container": {"folder": folder, "s3": bucket}.get(kind or "", bucket or folder),
        "prefix": prefix,
        "tenant": tenant,
        "gate": gate,
        "quiet_period": quiet_period,
        "max_delay": max_delay,
        "retain_versions": retain_versions,
        "include": include or None,
        "exclude": exclude or None,
    }
    options = {
        "endpoint_url": endpoint_url,
        "region": region,
        "queue_url": queue_url,
        "watch": None if watch is None else ("yes" if watch else "no"),
    }
    added = ask(lambda desk: _add(desk, name, _given(fields), _given(options)))
    if json_:
        output.document(added)
        return
    then = "its crawl has begun" if added.crawling else "it is crawled when `sluice up` runs"
    output.say(f"{name} is stored, and {then}")


def _given(fields: "Mapping[str, object]") -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}


async def _add(
    desk: "Desk", name: str, fields: dict[str, object], options: dict[str, object]
) -> "AddedSource":
    from pydantic import ValidationError  # noqa: PLC0415

    from contracts.errors import ConfigurationError, UnknownSource  # noqa: PLC0415
    from contracts.sources import SourceConfig  # noqa: PLC0415

    known: dict[str, object] = {"source_id": name, "kind": "folder", "container": ""}
    try:
        config = (await desk.show(name)).config
    except UnknownSource:
        pass
    else:
        known = config.model_dump()
        options = {**config.options, **options}
    try:
        config = SourceConfig.model_validate({**known, **fields, "options": options})
    except ValidationError as error:
        raise ConfigurationError(_wrong(name, error)) from error
    if not config.container and config.kind in PLACES:
        raise ConfigurationError(
            f"a source of kind {config.kind} needs its place: give {PLACES[config.kind]}"
        )
    return await desk.add(config, actor())


@app.command("list")
def list_(tenant: Tenant = None, json_: Json = False) -> None:
    """All sources, or those of one tenant."""
    found = ask(lambda desk: desk.sources())
    views = [view for view in found if tenant in {None, view.config.tenant}]
    if json_:
        output.lines(views)
        return
    output.table(
        ("source", "tenant", "kind", "place", "live", "documents", "chunks", "pending", "state"),
        (
            (
                view.config.source_id,
                view.config.tenant,
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
        empty="no source yet: `sluice source add NAME --root FOLDER` adds one"
        if tenant is None
        else f"no source belongs to {tenant}",
    )


@app.command()
def show(source: Source, json_: Json = False) -> None:
    """One source: its settings, what readers see, how far it is behind."""
    view, progress = ask(lambda desk: _show(desk, source))
    if json_:
        now = progress.model_dump(mode="json")
        output.document({**view.model_dump(mode="json"), "progress": now})
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
            *_doing(progress),
        )
    )


async def _show(desk: "Desk", source: str) -> "tuple[SourceView, SourceProgress]":
    return await desk.show(source), await desk.progress(source)


def _doing(progress: "SourceProgress") -> list[tuple[str, object]]:
    """Where the documents of the open run are, and what waits since when."""
    lines: list[tuple[str, object]] = []
    run = progress.run
    if run is not None:
        lines += [("open run", f"{run.seq} {run.state.value}"), ("since", run.started_at)]
        lines += [("why it waits", run.reason), ("keys in it", progress.taken)]
        for count in progress.stages:
            retry = f" ({count.retryable} may be tried again)" if count.retryable else ""
            told = f"{count.done} done, {count.unchanged} unchanged, {count.failed} failed{retry}"
            lines.append((f"stage {count.stage.value}", told))
    if progress.waiting:
        lines.append(("keys waiting", progress.waiting))
    lines += [
        ("the oldest since", progress.waiting_since),
        ("next try at", progress.next_try_at),
    ]
    return lines


@app.command()
def remove(source: Source, reason: Reason = "", json_: Json = False) -> None:
    """Remove a source and everything that is indexed of it."""
    _command(source, "remove", reason, as_json=json_)


@app.command()
def empty(source: Source, reason: Reason = "", json_: Json = False) -> None:
    """Serve nothing of a source that has been emptied on purpose; a rollback undoes it."""
    _command(source, "empty", reason, as_json=json_)


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
