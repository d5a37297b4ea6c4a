"""What made a document, run by run, and what a source is doing now."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Row, func, select, union
from sqlalchemy.ext.asyncio import AsyncConnection

from contracts.ids import OPEN_SEQ
from contracts.provenance import DocumentRun, SourceProgress, StageCount
from contracts.runs import DocumentOutcome, OutcomeStatus, Stage
from contracts.visibility import View
from storage.catalog import schema
from storage.catalog.database import Database
from storage.catalog.intervals import moment, of_source
from storage.catalog.lineage import Touched, lineage
from storage.catalog.runs import record_of


class History:
    """The port `HistoryCatalog`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def history(
        self, source_id: str, doc_key: str, before: int | None = None, limit: int = 20
    ) -> list[DocumentRun]:
        """The newest runs that touched the document, newest first."""
        pointer, versions = schema.live_pointers, schema.document_versions
        async with self._database.read() as connection:
            live = (
                await connection.execute(select(pointer).where(pointer.c.source_id == source_id))
            ).one_or_none()
            if live is None:
                return []
            view = View(source_id=source_id, generation=live.generation, seq=live.seq)
            held = (
                await connection.execute(
                    select(versions).where(of_source(versions, view), versions.c.doc_key == doc_key)
                )
            ).all()
            ends = [row.to_seq for row in held if row.to_seq < OPEN_SEQ]
            runs = await self._touching(connection, view, doc_key, ends, before, limit)
            outcomes = await self._outcomes(connection, view, doc_key, [row.seq for row in runs])
        made = {row.from_seq: row for row in held}
        return [
            lineage(
                Touched(
                    doc_key=doc_key,
                    run=record_of(run),
                    outcomes=outcomes.get(run.seq, {}),
                    version=made.get(run.seq),
                    closes=run.seq in ends,
                    live_seq=live.seq,
                )
            )
            for run in runs
        ]

    async def _touching(
        self,
        connection: AsyncConnection,
        view: View,
        doc_key: str,
        ends: Sequence[int],
        before: int | None,
        limit: int,
    ) -> Sequence[Row[Any]]:
        """The runs with an outcome of the document, and those that opened or closed a version."""
        runs, outcomes, versions = schema.runs, schema.outcomes, schema.document_versions
        touching = union(
            select(outcomes.c.seq).where(
                outcomes.c.source_id == view.source_id, outcomes.c.doc_key == doc_key
            ),
            select(versions.c.from_seq).where(
                of_source(versions, view), versions.c.doc_key == doc_key
            ),
            select(runs.c.seq).where(runs.c.source_id == view.source_id, runs.c.seq.in_(ends)),
        )
        statement = (
            select(runs)
            .where(
                runs.c.source_id == view.source_id,
                runs.c.seq.in_(select(touching.subquery().c.seq)),
            )
            .order_by(runs.c.seq.desc())
            .limit(limit)
        )
        if before is not None:
            statement = statement.where(runs.c.seq < before)
        return (await connection.execute(statement)).all()

    async def _outcomes(
        self, connection: AsyncConnection, view: View, doc_key: str, seqs: Sequence[int]
    ) -> Mapping[int, Mapping[Stage, DocumentOutcome]]:
        table = schema.outcomes
        rows = await connection.execute(
            select(table.c.seq, table.c.outcome).where(
                table.c.source_id == view.source_id,
                table.c.doc_key == doc_key,
                table.c.seq.in_(seqs),
            )
        )
        found: dict[int, dict[Stage, DocumentOutcome]] = defaultdict(dict)
        for seq, text in rows:
            outcome = DocumentOutcome.model_validate_json(text)
            found[seq][outcome.stage] = outcome
        return found

    async def progress(self, source_id: str) -> SourceProgress:
        """The open run by stages, and what waits for the next."""
        pointer, runs, pending = schema.live_pointers, schema.runs, schema.pending
        free = pending.c.taken_by.is_(None)
        async with self._database.read() as connection:
            run = (
                await connection.execute(
                    select(runs)
                    .select_from(
                        runs.join(
                            pointer,
                            (pointer.c.source_id == runs.c.source_id)
                            & (pointer.c.open_seq == runs.c.seq),
                        )
                    )
                    .where(runs.c.source_id == source_id)
                )
            ).one_or_none()
            stages = await self._stages(connection, source_id, run.seq) if run is not None else ()
            keys = (
                await connection.execute(
                    select(
                        func.count().label("total"),
                        func.count().filter(free).label("waiting"),
                        func.min(pending.c.hinted_at).filter(free).label("since"),
                        func.min(pending.c.not_before).filter(free).label("next"),
                    ).where(pending.c.source_id == source_id)
                )
            ).one()
        return SourceProgress(
            source_id=source_id,
            run=record_of(run) if run is not None else None,
            stages=stages,
            taken=keys.total - keys.waiting,
            waiting=keys.waiting,
            waiting_since=moment(keys.since),
            next_try_at=moment(keys.next),
        )

    async def _stages(
        self, connection: AsyncConnection, source_id: str, seq: int
    ) -> tuple[StageCount, ...]:
        table = schema.outcomes
        rows = await connection.execute(
            select(
                table.c.stage, table.c.status, table.c.retryable, func.count().label("documents")
            )
            .where(table.c.source_id == source_id, table.c.seq == seq)
            .group_by(table.c.stage, table.c.status, table.c.retryable)
        )
        counts = {stage: dict.fromkeys(OutcomeStatus, 0) for stage in Stage}
        retryable = dict.fromkeys(Stage, 0)
        for row in rows:
            stage = Stage(row.stage)
            counts[stage][OutcomeStatus(row.status)] += row.documents
            retryable[stage] += row.documents if row.retryable else 0
        return tuple(
            StageCount(
                stage=stage,
                done=of[OutcomeStatus.DONE],
                unchanged=of[OutcomeStatus.UNCHANGED],
                failed=of[OutcomeStatus.FAILED],
                retryable=retryable[stage],
            )
            for stage, of in counts.items()
        )
