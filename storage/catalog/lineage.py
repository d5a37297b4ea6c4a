"""One run's part in a document, put together from its outcomes, its version and the run itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row

from contracts.events import EventTrace
from contracts.provenance import DocumentRun, Result, StageTrace
from contracts.runs import DocumentOutcome, OutcomeStatus, RunRecord, Stage

Known = dict[str, Any]  # fields of a `DocumentRun`


@dataclass(frozen=True)
class Touched:
    """What the catalog has of a document and a run that touched it."""

    doc_key: str
    run: RunRecord
    outcomes: Mapping[Stage, DocumentOutcome]
    version: Row[Any] | None  # that the run made; None: it made none, or that is retired
    closes: bool  # the run closed the version before
    live_seq: int


def lineage(touched: Touched) -> DocumentRun:
    """The run's part in the document."""
    run, version = touched.run, touched.version
    served = version is not None and version.from_seq <= touched.live_seq < version.to_seq
    return DocumentRun(
        source_id=run.source_id,
        doc_key=touched.doc_key,
        seq=run.seq,
        run_id=run.run_id,
        cause=run.cause,
        state=run.state,
        reason=run.reason,
        started_at=run.started_at,
        ended_at=run.ended_at,
        promoted_at=run.promoted_at,
        result=_result(touched),
        served=served,
        retained=version is not None,
        **_known(touched),
        stages=tuple(
            _trace(touched.outcomes[stage]) for stage in Stage if stage in touched.outcomes
        ),
    )


def _result(touched: Touched) -> Result:
    outcomes = touched.outcomes
    if any(outcome.status is OutcomeStatus.FAILED for outcome in outcomes.values()):
        return Result.FAILED
    parsed, indexed = outcomes.get(Stage.PARSE), outcomes.get(Stage.INDEX)
    if parsed is not None and parsed.status is OutcomeStatus.UNCHANGED:
        return Result.UNCHANGED
    if touched.version is not None:
        return Result.INGESTED
    if indexed is None:
        # A source is emptied without stages: only the version that ended tells of it.
        return Result.DELETED if touched.closes and not outcomes else Result.UNFINISHED
    return Result.INGESTED if indexed.source_version is not None else Result.DELETED


def _known(touched: Touched) -> Known:
    """What the stages say, and where they say nothing what the version says: of a run before
    outcomes were kept only that is left."""
    parsed = _of_parse(touched.outcomes.get(Stage.PARSE))
    known = {**parsed, **_of_chunks(touched.outcomes), "events": _events(touched.outcomes)}
    said = {name: value for name, value in known.items() if value is not None}
    return {**_of_version(touched.version), **said}


def _of_version(version: Row[Any] | None) -> Known:
    if version is None:
        return {}
    return {
        "source_version": version.source_version,
        "content_hash": version.content_hash,
        "size": version.size,
        "uri": version.uri,
        "title": version.title,
        "media_type": version.media_type,
        "parser": version.parser,
        "fingerprint": version.fingerprint,
        "chunks": version.chunks,
    }


def _of_parse(outcome: DocumentOutcome | None) -> Known:
    if outcome is None:
        return {}
    known: Known = {
        "source_version": outcome.source_version,
        "content_hash": outcome.content_hash,
        "fingerprint": outcome.fingerprint,
        "parser": outcome.parser,
        "chunker": outcome.chunker,
        "parsed_before": outcome.cached,
    }
    if outcome.status is OutcomeStatus.DONE:
        known["chunks"] = outcome.chunks
    if outcome.document is not None:
        known |= {"size": outcome.document.size, "uri": outcome.document.uri}
    return known


def _of_chunks(outcomes: Mapping[Stage, DocumentOutcome]) -> Known:
    embedded, indexed = outcomes.get(Stage.EMBED), outcomes.get(Stage.INDEX)
    known: Known = {}
    if embedded is not None:
        earlier = sum(attempt.embedded for attempt in embedded.earlier)
        known |= {
            "embedder": embedded.embedder,
            "vectors_bought": embedded.embedded + earlier,
            "vectors_reused": embedded.reused,
        }
    if indexed is not None:
        known |= {
            "chunks_added": indexed.added,
            "chunks_kept": indexed.kept,
            "chunks_removed": indexed.removed,
        }
    return known


def _events(outcomes: Mapping[Stage, DocumentOutcome]) -> tuple[EventTrace, ...]:
    return next((each.events for each in outcomes.values() if each.events), ())


def _trace(outcome: DocumentOutcome) -> StageTrace:
    return StageTrace(
        stage=outcome.stage,
        status=outcome.status,
        attempts=outcome.attempt,
        started_at=outcome.started_at,
        ended_at=outcome.at,
        seconds=outcome.seconds,
        error=outcome.error,
        message=outcome.message,
        retryable=outcome.retryable,
        earlier=outcome.earlier,
    )
