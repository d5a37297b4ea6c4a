"""How a document's history is told: a paragraph for each run, a line for each stage."""

from typing import TYPE_CHECKING

from sluice.cli import output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from contracts.events import EventTrace
    from contracts.provenance import DocumentRun, StageTrace

SHOWN_HASH = 16  # hex digits of a hash that a person is shown


def tell(run: "DocumentRun") -> None:
    """One run's part in the document."""
    output.say(f"run {run.seq}: {became(run)}")
    output.fields(
        (
            ("  run id", run.run_id),
            ("  cause", run.cause),
            *(
                (f"  event {n}" if n > 1 else "  event", _event(e))
                for n, e in enumerate(run.events, 1)
            ),
            ("  started", run.started_at),
            ("  ended", run.ended_at),
            ("  promoted", run.promoted_at),
            ("  reason", run.reason),
            ("  version", run.source_version),
            ("  content", _content(run)),
            ("  address", run.uri),
            ("  parser", _parser(run)),
            ("  chunker", run.chunker),
            ("  embedder", run.embedder),
            ("  fingerprint", _short(run.fingerprint)),
            ("  chunks", _chunks(run)),
            ("  vectors", _vectors(run)),
        )
    )
    output.table(
        ("  stage", "status", "attempts", "started", "ended", "seconds", "error"),
        (row for stage in run.stages for row in _rows(stage)),
        empty="  no stage is known any more",
    )


def became(run: "DocumentRun") -> str:
    """What became of the document in the run, and whether readers saw it."""
    result = run.result.value
    if run.served:
        return f"{result}, served now"
    if run.result.value == "failed":
        return f"{result}; what was served before stayed (run {run.state.value})"
    kept = ", its version is kept for a rollback" if run.retained and run.promoted_at else ""
    return f"{result}, {run.state.value}{kept}"


def _event(event: "EventTrace") -> str:
    parts = [event.origin, event.name]
    if event.occurred_at is not None:
        parts.append(f"at {output.cell(event.occurred_at)}")
    if event.taken_at is not None:
        parts.append(f"taken {output.cell(event.taken_at)}")
    if event.message_id is not None:
        parts.append(f"message {event.message_id}")
    return " ".join(parts)


def _content(run: "DocumentRun") -> str | None:
    if run.content_hash is None:
        return None
    size = f", {run.size} bytes" if run.size is not None else ""
    kind = f", {run.media_type}" if run.media_type else ""
    return f"{_short(run.content_hash)}{size}{kind}"


def _parser(run: "DocumentRun") -> str | None:
    if run.parser is None or not run.parsed_before:
        return run.parser
    return f"{run.parser} (had parsed this content before)"


def _chunks(run: "DocumentRun") -> str | None:
    if run.chunks_added is None:
        return None if run.chunks is None else str(run.chunks)
    moved = f"{run.chunks_added} added, {run.chunks_kept} kept, {run.chunks_removed} removed"
    return moved if run.chunks is None else f"{run.chunks}: {moved}"


def _vectors(run: "DocumentRun") -> str | None:
    if run.vectors_bought is None:
        return None
    return f"{run.vectors_bought} bought, {run.vectors_reused} known already"


def _short(digest: str | None) -> str | None:
    return None if digest is None else digest[:SHOWN_HASH]


def _rows(stage: "StageTrace") -> "Iterator[tuple[object, ...]]":
    """The stage as it ended, and above it the attempts that failed before."""
    name = f"  {stage.stage.value}"
    for before in stage.earlier:
        why = _why(before.error, before.message)
        yield name, "failed", before.attempt, before.started_at, before.ended_at, None, why
    yield (
        name,
        stage.status.value,
        stage.attempts,
        stage.started_at,
        stage.ended_at,
        f"{stage.seconds:.2f}",
        _why(stage.error, stage.message),
    )


def _why(error: str | None, message: str | None) -> str | None:
    return None if error is None else f"{error}: {message}"
