"""The schema and its statements compile for PostgreSQL too, and the migrations make exactly it."""

import io
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from sqlalchemy import ClauseElement, Connection, Insert, Table, event, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable

from contracts.documents import EmbeddingSpace, PackAddress, PreparedChunk, PreparedDocument
from contracts.events import DirtyKey
from contracts.runs import DocumentOutcome, OutcomeStatus, RunCounts, RunState, RunTicket, Stage
from contracts.sources import SourceConfig
from contracts.visibility import View
from storage.catalog import migrations, retirement, schema
from storage.catalog.database import Database
from storage.catalog.memory import open_memory_catalog
from storage.catalog.migrations import migrate
from storage.catalog.repository import SqlCatalog

MEMORY = "sqlite+aiosqlite://"
NOW = datetime(2026, 3, 4, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
POSTGRESQL = postgresql.dialect()


@pytest.mark.parametrize("table", schema.metadata.sorted_tables, ids=lambda table: table.name)
def test_each_table_compiles_for_postgresql(table: Table) -> None:
    """No column type or constraint is SQLite's own."""
    assert str(CreateTable(table).compile(dialect=POSTGRESQL))


async def test_the_migrations_make_the_schema() -> None:
    """From an empty database they lead to the tables that the code speaks of."""
    database = Database(MEMORY)
    await migrate(database)

    def differences(connection: Connection) -> list[object]:
        context = MigrationContext.configure(connection)
        return list(compare_metadata(context, schema.metadata))

    async with database.read() as connection:
        found = await connection.run_sync(differences)
    await database.close()
    assert found == []


async def test_the_migrations_make_every_constraint() -> None:
    """Primary keys and the order of columns too, which the comparison above doesn't look at."""
    migrated, made = Database(MEMORY), Database(MEMORY)
    await migrate(migrated)
    async with made.write() as connection:
        await connection.run_sync(schema.metadata.create_all)
    found, wanted = await definitions(migrated), await definitions(made)
    await migrated.close()
    await made.close()
    assert found == wanted


async def definitions(database: Database) -> dict[str, str]:
    """Every table and index by name, as SQLite keeps their text, without blanks."""
    query = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'alembic%'"
    async with database.read() as connection:
        rows = await connection.execute(text(query))
        return {name: "".join(sql.split()) for name, sql in rows}


def test_the_migrations_make_the_schema_of_postgresql() -> None:
    """Keys sort by their bytes there: the migration says so as the schema does."""
    said = io.StringIO()
    context = MigrationContext.configure(
        dialect_name="postgresql", opts={"as_sql": True, "output_buffer": said}
    )
    scripts = ScriptDirectory(str(Path(migrations.__file__).parent))
    with Operations.context(context):
        for revision in reversed(list(scripts.walk_revisions())):
            revision.module.upgrade()
    wanted = [
        str(made.compile(dialect=POSTGRESQL))
        for table in schema.metadata.tables.values()
        for made in (CreateTable(table), *(CreateIndex(index) for index in table.indexes))
    ]
    assert with_columns(statements(said.getvalue())) == statements(";".join(wanted))
    assert 'COLLATE "C"' in said.getvalue()


def statements(script: str) -> set[str]:
    return {"".join(statement.split()) for statement in script.split(";") if statement.strip()}


def with_columns(said: set[str]) -> set[str]:
    """The statements with added columns where the table is made, behind its others."""
    made = {one for one in said if not one.startswith("ALTER")}
    for added in said - made:
        table, column = added.removeprefix("ALTERTABLE").split("ADDCOLUMN")
        [create] = [one for one in made if one.startswith(f"CREATETABLE{table}(")]
        made ^= {create, create.replace(",PRIMARYKEY", f",{column},PRIMARYKEY")}
    return made


async def test_every_statement_compiles_for_postgresql(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the catalog says in the life of a source, its conflicts in PostgreSQL's words."""

    def insert(_: Database, table: Table) -> postgresql.Insert:
        return postgresql.insert(table)

    # The retirement below is that of the first sequence: its outcomes are looked at then.
    monkeypatch.setattr(retirement, "KEPT_RUNS", -1)
    # SQLite understands the same construct, so the statements that run are those that are compiled.
    monkeypatch.setattr(Database, "insert", insert)
    catalog = await open_memory_catalog()
    seen: list[ClauseElement] = []

    @event.listens_for(catalog._database.engine.sync_engine, "before_execute")
    def remember(_connection: Connection, statement: ClauseElement, *_: object) -> None:
        seen.append(statement)

    try:
        await live(catalog)
    finally:
        await catalog.close()
    said = {str(statement.compile(dialect=POSTGRESQL)) for statement in seen}
    assert len(said) > 60
    assert any(line.startswith("DELETE FROM outcomes") and "newest" in line for line in said)
    conflicts = {line for line in said if "ON CONFLICT" in line}
    written = {statement.table.name for statement in seen if isinstance(statement, Insert)}
    assert written == set(schema.metadata.tables)
    assert len(conflicts) >= 9


async def live(catalog: SqlCatalog) -> None:
    """Add a source, promote twice, fail once, roll back, sweep and ask everything."""
    await catalog.put_source(SourceConfig(source_id="s", kind="folder", container="/x"), "test")
    for n, chunks in enumerate(("a1", "a2", "a3"), 1):
        ticket = await opened(catalog, str(n))
        await catalog.stage(ticket, [document("a", chunks), document("b", "b1")])
        delta = await catalog.stage(ticket, [document("a", chunks + "x")])
        await catalog.settle(ticket, delta)
        await catalog.promote(ticket, RunCounts(), "digest", NOW)
        await catalog.pending_keys.settle(ticket, NOW)
    view = View(source_id="s", generation=1, seq=3)
    census = await catalog.census(view)
    await catalog.locate(census.opened, [view])
    await catalog.visible([view], 10)
    await catalog.staged(view)
    await catalog.versions(view, ["a"])
    await catalog.source_versions(view, "", "b", 10)
    await catalog.observe(view, {"a": "v2"})
    await catalog.counts(view)
    await catalog.statuses("s")
    await catalog.history("s", "a", 3)
    await catalog.progress("s")
    await catalog.outcomes("s", 3, Stage.PARSE, ["a"])
    await catalog.known_failures("s", ["b"])
    await catalog.source_state("s")
    await catalog.sources()
    await catalog.runs("s")
    space = EmbeddingSpace(name="one", dimension=2)
    await catalog.keep(space, {"h": np.array([1, 0], np.float32)})
    await catalog.vectors(space, ["h"])
    await catalog.roll_back("s", None, "me", "bad", NOW)
    sweep = await catalog.due_sweep("s", LATER)
    for due in sweep.purge:
        await catalog.forget(due, LATER)
    assert sweep.retire is not None
    await catalog.unreachable_packs(sweep.retire)
    await catalog.retire(sweep.retire, LATER)
    await catalog.unpin("s")
    ticket = await opened(catalog, "4")
    await catalog.fence("s", ticket.seq)
    await catalog.end_run(ticket, RunState.FAILED, "why", RunCounts(), NOW)
    await catalog.pending_keys.release("s", ticket.seq, starts_run=True, now=NOW)
    await catalog.entries("s")
    await catalog.mark_source("s", removed=True)


async def opened(catalog: SqlCatalog, request: str) -> RunTicket:
    """A run that has its keys, a pin, and an outcome of each kind."""
    ticket = (await catalog.open_run("s", request, "change", NOW)).ticket
    assert ticket is not None
    await catalog.pending_keys.take(ticket, [DirtyKey(key="a")], NOW, crawl=True)
    await catalog.update_run(ticket, RunState.WORKING, RunCounts())
    await catalog.pin(ticket, {"a": "v"})
    await catalog.open_chunk_keys(ticket, ["a"])
    outcomes = [
        DocumentOutcome(doc_key=key, stage=Stage.PARSE, status=status, source_version="v")
        for key, status in (("a", OutcomeStatus.DONE), ("b", OutcomeStatus.FAILED))
    ]
    later = DocumentOutcome(
        doc_key="c", stage=Stage.PARSE, status=OutcomeStatus.FAILED, retryable=True
    )
    await catalog.record(ticket, [*outcomes, later], NOW)
    return ticket


def document(key: str, chunk: str) -> PreparedDocument:
    return PreparedDocument(
        doc_key=key,
        chunks=(
            PreparedChunk(
                chunk_key=chunk,
                text_hash=chunk,
                prefix_length=0,
                tokens=1,
                char_start=0,
                char_end=1,
                address=PackAddress(pack=chunk, offset=0, length=1),
            ),
        ),
    )
