"""The database under the catalog: connections, transactions, and errors in our words."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, StaticPool, Table, event, make_url
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DatabaseError, InterfaceError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from contracts.errors import StoreUnavailable
from storage.catalog.driver import OneHopConnection

Item = TypeVar("Item")

IN_LIST: Final = 500  # values in one IN list
BUSY_TIMEOUT_MS: Final = 10_000  # SQLite waits so long for another process's lock

Insert = sqlite.Insert | postgresql.Insert


def slices(items: Sequence[Item], size: int = IN_LIST) -> Iterator[Sequence[Item]]:
    """The items in pieces that fit into one statement."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


class Database:
    """One engine. Reads are snapshots; writes are serial, each one transaction.

    Args:
        url: an SQLAlchemy URL with an async driver: `sqlite+aiosqlite:///path`, or
            `sqlite+aiosqlite://` for a private database in memory.
    """

    def __init__(self, url: str) -> None:
        in_memory = url == "sqlite+aiosqlite://"
        options: dict[str, Any] = {"poolclass": StaticPool}
        if not in_memory:
            # Every transaction ends here, so there is nothing to reset.
            options = {"pool_size": 8, "pool_reset_on_return": None}
        if make_url(url).drivername == "sqlite+aiosqlite":
            path = make_url(url).database or ":memory:"
            options["async_creator"] = lambda: OneHopConnection(path)
        self.engine: AsyncEngine = create_async_engine(url, **options)
        self._writing = asyncio.Lock()
        # In memory there is one connection, so a read can't overlap a write.
        self._reading = self._writing if in_memory else None
        # To check a connection out and in again is a third of a short transaction.
        self._readers: list[AsyncConnection] = []
        self._writers: list[AsyncConnection] = []
        if self.engine.dialect.name == "sqlite":
            event.listen(self.engine.sync_engine, "connect", _configure_sqlite)
            event.listen(self.engine.sync_engine, "begin", _begin_sqlite)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """A snapshot."""
        if self._reading is None:
            async with self._transaction(self._readers, write=False) as connection:
                yield connection
            return
        async with self._reading, self._transaction(self._readers, write=False) as connection:
            yield connection

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        """One transaction, committed at the end of the body, rolled back on an error."""
        async with self._writing, self._transaction(self._writers, write=True) as connection:
            yield connection

    @asynccontextmanager
    async def _transaction(
        self, idle: list[AsyncConnection], *, write: bool
    ) -> AsyncIterator[AsyncConnection]:
        """On a connection that is kept, unless something went wrong on it."""
        with _translated():
            connection = idle.pop() if idle else await self._connect(write=write)
            try:
                async with connection.begin():
                    yield connection
            except BaseException:
                await connection.close()
                raise
            idle.append(connection)

    async def _connect(self, *, write: bool) -> AsyncConnection:
        connection = await self.engine.connect()
        return await connection.execution_options(sluice_write=write)

    def insert(self, table: Table) -> Insert:
        """An insert that knows conflicts, in the words of this dialect."""
        if self.engine.dialect.name == "sqlite":
            return sqlite.insert(table)
        return postgresql.insert(table)

    def upsert(self, table: Table, key: Sequence[str], replaced: Sequence[str]) -> Insert:
        """An insert that replaces some columns where the key is there.

        To be executed with a list of rows: rows within the statement would have it compiled anew
        for each number of them.
        """
        statement = self.insert(table)
        return statement.on_conflict_do_update(
            index_elements=list(key),
            set_={name: statement.excluded[name] for name in replaced},
        )

    async def close(self) -> None:
        """Close every connection."""
        for connection in (*self._readers, *self._writers):
            await connection.close()
        await self.engine.dispose()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (DatabaseError, InterfaceError) as error:
        raise StoreUnavailable(_sentence(error)) from error
    except SQLAlchemyError as error:
        raise StoreUnavailable(f"the catalog failed: {error}") from error


def _sentence(error: DatabaseError | InterfaceError) -> str:
    return (
        f"the catalog's database failed ({error.orig}): see that its disk has room, that it can be "
        "written, and that no other process holds it"
    )


def _configure_sqlite(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    # The driver's own transaction handling would begin late and as a reader.
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in (
        "journal_mode=WAL",
        "synchronous=NORMAL",
        f"busy_timeout={BUSY_TIMEOUT_MS}",
        "cache_size=-32000",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    write = connection.get_execution_options().get("sluice_write", False)
    driver = connection.connection.driver_connection
    if isinstance(driver, OneHopConnection):
        driver.begin(write=write)
