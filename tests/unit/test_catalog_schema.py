"""The schema compiles for PostgreSQL too, and the migrations make exactly it."""

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from storage.catalog import schema
from storage.catalog.database import Database
from storage.catalog.migrations import migrate


@pytest.mark.parametrize("table", schema.metadata.sorted_tables, ids=lambda table: table.name)
def test_each_table_compiles_for_postgresql(table: Table) -> None:
    """No column type or constraint is SQLite's own."""
    assert str(CreateTable(table).compile(dialect=postgresql.dialect()))


async def test_the_migrations_make_the_schema() -> None:
    """From an empty database they lead to the tables that the code speaks of."""
    database = Database("sqlite+aiosqlite://")
    await migrate(database)

    def differences(connection: Connection) -> list[object]:
        context = MigrationContext.configure(connection)
        return list(compare_metadata(context, schema.metadata))

    async with database.read() as connection:
        found = await connection.run_sync(differences)
    await database.close()
    assert not found
