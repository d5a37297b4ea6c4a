"""The SQLite driver under the catalog: aiosqlite, with one hop to its thread for each statement,
and none for the beginning of a transaction, nor for the end of one that only reads."""

import sqlite3
from dataclasses import dataclass
from typing import Any, Self

import aiosqlite

ROWS_AT_ONCE = 64  # of aiosqlite's own iteration, which the catalog doesn't use

Parameters = Any  # what SQLAlchemy's compiler made for this statement


@dataclass(frozen=True, slots=True)
class _Executed:
    """What is left of a statement when its cursor is closed."""

    rows: list[tuple[Any, ...]]
    description: tuple[tuple[Any, ...], ...] | None
    rowcount: int
    lastrowid: int | None


class OneHopConnection(aiosqlite.Connection):
    """Makes cursors that open, execute, fetch and close in one go.

    aiosqlite goes to its thread and back for each of these. A statement of the catalog takes some
    20 µs and a hop some 100 µs, so that hops were most of what a change cost in the catalog.

    Args:
        path: of the file, or `:memory:` for a private database.
    """

    def __init__(self, path: str) -> None:
        super().__init__(lambda: sqlite3.connect(path), ROWS_AT_ONCE)
        self._thread.daemon = True  # a forgotten connection must not keep the process
        self._beginning: str | None = None  # to be executed before the next statement
        self._writes = False

    def begin(self, *, write: bool) -> None:
        """A transaction begins with its first statement."""
        self._writes = write
        self._beginning = "BEGIN IMMEDIATE" if write else "BEGIN"

    async def commit(self) -> None:
        """End the transaction; who only read needn't wait for it."""
        if self._writes:
            await super().commit()
        else:
            self._leave()

    async def rollback(self) -> None:
        """End the transaction without a trace."""
        if self._writes:
            self._beginning = None
            await super().rollback()
        else:
            self._leave()

    def _leave(self) -> None:
        # The thread takes one after the other: whoever comes next finds the transaction ended.
        self._beginning = None
        self._tx.put_nowait((None, self._conn.rollback))

    def cursor(self) -> "OneHopCursor":  # type: ignore[override] # entered like the original
        """A cursor that opens when it executes."""
        return OneHopCursor(self)

    async def run(self, operation: str, parameters: Parameters, *, many: bool) -> _Executed:
        """Execute in the connection's thread."""
        beginning, self._beginning = self._beginning, None
        hop = self._execute(self._run, beginning, operation, parameters, many)  # type: ignore[no-untyped-call] # aiosqlite leaves it untyped
        executed: _Executed = await hop
        return executed

    def _run(
        self, beginning: str | None, operation: str, parameters: Parameters, many: bool
    ) -> _Executed:
        cursor = self._conn.cursor()
        try:
            if beginning is not None:
                cursor.execute(beginning)
            if many:
                cursor.executemany(operation, parameters)
            else:
                cursor.execute(operation, parameters)
            rows = cursor.fetchall()
            return _Executed(rows, cursor.description, cursor.rowcount, cursor.lastrowid)
        finally:
            cursor.close()


class OneHopCursor:
    """What SQLAlchemy's adapter for aiosqlite asks of a cursor."""

    def __init__(self, connection: OneHopConnection) -> None:
        self._connection = connection
        self._executed = _Executed([], None, -1, None)
        self.arraysize = 1

    async def __aenter__(self) -> Self:
        """Nothing is opened yet."""
        return self

    async def execute(self, operation: str, parameters: Parameters = ()) -> Self:
        """Execute and fetch."""
        self._executed = await self._connection.run(operation, parameters, many=False)
        return self

    async def executemany(self, operation: str, parameters: Parameters) -> Self:
        """Execute once for each of the parameters."""
        self._executed = await self._connection.run(operation, parameters, many=True)
        return self

    async def fetchall(self) -> list[tuple[Any, ...]]:
        """The rows, which are here already."""
        return self._executed.rows

    async def close(self) -> None:
        """Nothing is open after a statement."""

    @property
    def description(self) -> tuple[tuple[Any, ...], ...] | None:
        """The columns; None after a statement without rows."""
        return self._executed.description

    @property
    def rowcount(self) -> int:
        """Rows that the statement changed."""
        return self._executed.rowcount

    @property
    def lastrowid(self) -> int | None:
        """Of the last insert."""
        return self._executed.lastrowid
