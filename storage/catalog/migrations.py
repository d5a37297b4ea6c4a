"""Brings a database to the newest schema, with Alembic, without a configuration file."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

from storage.catalog.database import Database

SCRIPTS = Path(__file__).parent


def _upgrade(connection: Connection) -> None:
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


async def migrate(database: Database) -> None:
    """Run what is missing, in one transaction."""
    async with database.write() as connection:
        await connection.run_sync(_upgrade)
