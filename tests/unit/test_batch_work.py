"""What a stage still has to do, after whatever happened to an earlier attempt."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from activities.batches import BatchWork
from activities.ports import Ports
from activities.references import put_list
from bridge.memory import RecordingOrchestrator
from contracts import bitmap
from contracts.activities import StageRequest
from contracts.errors import EmbeddingUnavailable
from contracts.runs import (
    BatchRef,
    DocumentOutcome,
    OutcomeStatus,
    PlanAction,
    PlanEntry,
    RunTicket,
    Stage,
)
from contracts.sources import SourceConfig
from documents.embedders.hashing import HashingEmbedder
from documents.parsers.sandbox import InProcessParser
from sources.memory import MemorySource
from storage.catalog.memory import open_memory_catalog
from storage.objects.memory import MemoryObjects

NOW = datetime(2026, 3, 4, tzinfo=UTC)
CONFIG = SourceConfig(source_id="s", kind="memory", container="c")
KEYS = ("a", "b", "c", "d")


async def opened_run(scratch: Path) -> tuple[Ports, RunTicket, BatchRef]:
    """A run with one batch of four documents."""
    catalog = await open_memory_catalog()
    ports = Ports(
        catalog=catalog,
        objects=MemoryObjects(),
        stores=(),
        parser=InProcessParser(),
        embedder=HashingEmbedder(),
        orchestrator=RecordingOrchestrator(),
        open_source=lambda config: MemorySource(config, {}),
        scratch=scratch,
    )
    await catalog.put_source(CONFIG, "test")
    answer = await catalog.open_run("s", "1", "change", NOW)
    assert answer.ticket is not None
    entries = [PlanEntry(action=PlanAction.INGEST, doc_key=key) for key in KEYS]
    plan = await put_list(ports.objects, "plan.json", entries)
    return ports, answer.ticket, BatchRef(number=0, plan=plan, documents=len(KEYS), size=4)


@pytest.mark.parametrize("attempt", [1, 2])
async def test_what_failed_before_the_worker_died_is_tried_again(
    tmp_path: Path, attempt: int
) -> None:
    """Outcomes of the dead attempt count: done ones are done, and the retryable failure is in the
    report, so that the next attempt of the stage has it."""
    ports, ticket, batch = await opened_run(tmp_path)
    only = None if attempt == 1 else bitmap.encode([1, 2, 3])
    request = StageRequest(ticket=ticket, batch=batch, only=only, attempt=attempt)
    dead = await BatchWork.load(ports, Stage.PARSE, request)
    done = DocumentOutcome(
        doc_key="b", stage=Stage.PARSE, status=OutcomeStatus.DONE, attempt=attempt
    )
    await dead.record([done, dead.failure("c", EmbeddingUnavailable("busy"))])

    work = await BatchWork.load(ports, Stage.PARSE, request)
    assert {entry.doc_key for entry in work.todo.values()} == {"a", "d"} - set(KEYS[: attempt - 1])
    finished = [done.model_copy(update={"doc_key": entry.doc_key}) for entry in work.todo.values()]
    await work.record(finished)
    report = work.report()
    assert bitmap.decode(report.retry or "") == [2]
    assert report.done == len(finished) + 1

    again = StageRequest(ticket=ticket, batch=batch, only=report.retry, attempt=attempt + 1)
    rest = await BatchWork.load(ports, Stage.PARSE, again)
    assert [entry.doc_key for entry in rest.todo.values()] == ["c"]
    await ports.catalog.close()
