"""Keywords in SQLite FTS5: one file, its own, with the generation in each row.

FTS5 scores every match, so a question costs in proportion to how common its words are; words in
more than a twentieth of the chunks are left out while rarer ones remain.
"""

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from contracts.errors import StoreUnavailable
from contracts.ids import OPEN_SEQ
from contracts.visibility import Census, Hit, IndexedChunk, LegQuery, StoreWrite, View
from indexers.lanes import Lanes
from indexers.words import indexed, query_terms

COMMON: Final = 0.05  # of all chunks: a word in more of them is left out of the question
PRUNE_FROM: Final = 1_000  # chunks; below it every word is cheap, and a fifth is a handful
SLICE: Final = 1_000  # chunks deleted in one transaction: their texts are tokenized once more
BUSY: Final = 5.0  # seconds to wait for another process's write

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS chunk (
    id INTEGER PRIMARY KEY,
    chunk_id TEXT NOT NULL UNIQUE,
    source_id TEXT NOT NULL,
    generation INTEGER NOT NULL,
    from_seq INTEGER NOT NULL,
    to_seq INTEGER NOT NULL,
    run_id TEXT NOT NULL,
    text TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS chunk_from ON chunk (source_id, generation, from_seq, to_seq);
CREATE INDEX IF NOT EXISTS chunk_to ON chunk (source_id, generation, to_seq);
CREATE VIRTUAL TABLE IF NOT EXISTS fts USING fts5(
    text, content='chunk', content_rowid='id', tokenize='unicode61 remove_diacritics 2'
);
"""

_OF_VIEW: Final = "source_id = :source_id AND generation = :generation"
_MARK: Final = f"UPDATE chunk SET to_seq = :future WHERE {_OF_VIEW} AND to_seq = :present"  # noqa: S608 - constants

Result = TypeVar("Result")


class FtsKeywordStore:
    """The `keywords` leg in `<root>/keywords.sqlite`.

    A write is one transaction in WAL mode with `synchronous=NORMAL`: what `apply` has
    acknowledged survives a kill of the process; a loss of power may take the last transactions
    back, whole, and the gate finds that. Closing and reopening never touch the full-text index.
    The text in a row is what was tokenized, a cache; it is never shown.

    Args:
        root: the folder; made when the store is first used.
    """

    def __init__(self, root: Path) -> None:
        self._path = root / "keywords.sqlite"
        self._writing: sqlite3.Connection | None = None
        self._idle: list[sqlite3.Connection] = []
        self._opening = threading.Lock()
        self._lanes = Lanes("keywords")

    @property
    def name(self) -> str:
        """The leg."""
        return "keywords"

    async def apply(self, write: StoreWrite) -> None:
        """Write, in one transaction."""
        await self._lanes.write(lambda: self._change(lambda writer: _apply(writer, write)))

    async def census(self, view: View) -> Census:
        """Ids and a count, each from an index."""
        return await self._lanes.read(lambda: self._look(lambda reader: _census(reader, view)))

    async def purge(self, view: View) -> None:
        """Take back everything that the sequence wrote, in transactions of `SLICE` chunks."""
        scope = _scope(view)
        await self._delete("from_seq = :seq", scope)
        mark = scope | {"present": view.seq, "future": OPEN_SEQ}
        await self._lanes.write(
            lambda: self._change(lambda writer: writer.execute(_MARK, mark).rowcount)
        )

    async def retire(self, view: View) -> None:
        """Delete what was closed at or before the sequence, in transactions of `SLICE` chunks."""
        await self._delete("to_seq <= :seq", _scope(view))

    async def search(self, query: LegQuery) -> list[Hit]:
        """The best by BM25 of what holds any of the words, whether or not `exact` is asked for."""
        return await self._lanes.read(lambda: self._look(lambda reader: _search(reader, query)))

    async def close(self) -> None:
        """Wait for what is being done, and close the file."""
        await self._lanes.close(self._release)

    async def _delete(self, condition: str, scope: dict[str, str | int]) -> None:
        chosen = f"SELECT id, text FROM chunk WHERE {_OF_VIEW} AND {condition} LIMIT {SLICE}"  # noqa: S608 - constants

        def delete_slice(writer: sqlite3.Connection) -> int:
            return _drop(writer, writer.execute(chosen, scope).fetchall())

        while await self._lanes.write(lambda: self._change(delete_slice)):
            pass

    def _change(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        with self._translated():
            if self._writing is None:
                self._writing = self._open()
            writer = self._writing
            writer.execute("BEGIN IMMEDIATE")
            try:
                result = work(writer)
                writer.execute("COMMIT")
            except BaseException:
                if writer.in_transaction:  # a full disk has rolled back by itself
                    writer.execute("ROLLBACK")
                raise
            return result

    def _look(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        with self._translated():
            reader = self._idle.pop() if self._idle else self._open()
            try:
                # One snapshot for all statements: counts and ids belong together.
                reader.execute("BEGIN")
                return work(reader)
            finally:
                reader.execute("ROLLBACK")
                self._idle.append(reader)

    def _open(self) -> sqlite3.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(
            self._path, timeout=BUSY, isolation_level=None, check_same_thread=False
        )
        try:
            # One at a time: two connections that turn a new file to WAL refuse each other at once.
            with self._opening:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")
                connection.executescript(_SCHEMA)
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _release(self) -> None:
        for connection in [*self._idle, *([self._writing] if self._writing else [])]:
            connection.close()
        self._idle.clear()
        self._writing = None

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise StoreUnavailable(
                f"The keyword store {self._path} failed: {error}. Look at the disk's free space "
                "and rights, and for another process that holds it; if the file is damaged, "
                "delete it: the next start of the stack fills it again."
            ) from error


def _scope(view: View) -> dict[str, str | int]:
    return {"source_id": view.source_id, "generation": view.generation, "seq": view.seq}


def _apply(writer: sqlite3.Connection, write: StoreWrite) -> None:
    for chunk in write.opens:
        _insert(writer, chunk)
    _mark(writer, write.view, write.closes, present=OPEN_SEQ, future=write.view.seq)
    _mark(writer, write.view, write.reopens, present=write.view.seq, future=OPEN_SEQ)
    _remove(writer, write.view, write.removes)


def _insert(writer: sqlite3.Connection, chunk: IndexedChunk) -> None:
    text = indexed(chunk.text)
    inserted = writer.execute(
        "INSERT INTO chunk (chunk_id, source_id, generation, from_seq, to_seq, run_id, text) "
        "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (chunk_id) DO NOTHING",
        (
            chunk.chunk_id,
            chunk.source_id,
            chunk.generation,
            chunk.from_seq,
            chunk.to_seq,
            chunk.run_id,
            text,
        ),
    )
    if inserted.rowcount == 1:
        writer.execute("INSERT INTO fts (rowid, text) VALUES (?, ?)", (inserted.lastrowid, text))


def _mark(
    writer: sqlite3.Connection, view: View, chunk_ids: Sequence[str], *, present: int, future: int
) -> None:
    mark = _scope(view) | {"present": present, "future": future}
    writer.executemany(
        f"{_MARK} AND chunk_id = :chunk_id", [mark | {"chunk_id": one} for one in chunk_ids]
    )


def _remove(writer: sqlite3.Connection, view: View, chunk_ids: Sequence[str]) -> None:
    chosen = (
        f"SELECT id, text FROM chunk WHERE {_OF_VIEW} "  # noqa: S608 - constants
        "AND from_seq = :seq AND chunk_id IN (SELECT value FROM json_each(:ids))"
    )
    rows = writer.execute(chosen, _scope(view) | {"ids": json.dumps(chunk_ids)}).fetchall()
    _drop(writer, rows)


def _drop(writer: sqlite3.Connection, rows: Sequence[tuple[int, str]]) -> int:
    # FTS5 keeps no text of its own: it must be told which words leave with a row, and no trigger
    # does it, because one with a condition tears index and rows apart (ohdearquant/khive#2273).
    writer.executemany("INSERT INTO fts (fts, rowid, text) VALUES ('delete', ?, ?)", rows)
    writer.executemany("DELETE FROM chunk WHERE id = ?", [(row[0],) for row in rows])
    return len(rows)


def _census(reader: sqlite3.Connection, view: View) -> Census:
    scope = _scope(view)
    ids = f"SELECT chunk_id FROM chunk WHERE {_OF_VIEW}"  # noqa: S608 - constants
    # This index holds all that is asked, so no row is read for it.
    count = (
        f"SELECT count(*) FROM chunk INDEXED BY chunk_from WHERE {_OF_VIEW} "  # noqa: S608 - constants
        "AND from_seq <= :seq AND to_seq > :seq"
    )
    return Census(
        opened=frozenset(row[0] for row in reader.execute(f"{ids} AND from_seq = :seq", scope)),
        closed=frozenset(row[0] for row in reader.execute(f"{ids} AND to_seq = :seq", scope)),
        visible=int(reader.execute(count, scope).fetchone()[0]),
    )


def _search(reader: sqlite3.Connection, query: LegQuery) -> list[Hit]:
    """The best of what holds any of the words; where all of them are common, of what holds all of
    them, if that is enough: it ranks above the rest anyway, and is a small part of it."""
    phrases, common = _selective(reader, [f'"{term}"' for term in query_terms(query.text)])
    if not phrases or not query.views:
        return []
    if common and len(phrases) > 1:
        hits = _matching(reader, " AND ".join(phrases), query)
        if len(hits) == query.limit:
            return hits
    return _matching(reader, " OR ".join(phrases), query)


def _matching(reader: sqlite3.Connection, expression: str, query: LegQuery) -> list[Hit]:
    interval = "(source_id = ? AND generation = ? AND from_seq <= ? AND to_seq > ?)"
    seen = " OR ".join([interval] * len(query.views))
    # CROSS JOIN keeps the full-text index outermost: started from `chunk`, the same query is a
    # hundred times slower. ORDER BY bm25, not rank: rank scores before the views filter.
    statement = (
        "SELECT chunk.chunk_id, bm25(fts) "  # noqa: S608 - placeholders
        "FROM fts CROSS JOIN chunk ON chunk.id = fts.rowid "
        f"WHERE fts MATCH ? AND ({seen}) "
        "AND chunk.chunk_id NOT IN (SELECT value FROM json_each(?)) "
        "ORDER BY bm25(fts), chunk.chunk_id LIMIT ?"
    )
    bounds = [
        value
        for view in query.views
        for value in (view.source_id, view.generation, view.seq, view.seq)
    ]
    excluded = json.dumps(sorted(query.excluded))
    rows = reader.execute(statement, (expression, *bounds, excluded, query.limit))
    return [Hit(chunk_id, -score) for chunk_id, score in rows]


def _selective(reader: sqlite3.Connection, phrases: list[str]) -> tuple[list[str], bool]:
    """The phrases that are found at all and not common; the found ones if all are common, and
    whether they are.

    FTS5 counts, not a vocabulary table, so that its tokenizer alone says what a word is.
    """
    total = int(reader.execute("SELECT count(*) FROM chunk").fetchone()[0])
    if total < PRUNE_FROM:
        return phrases, False
    bound = int(total * COMMON)
    count = "SELECT count(*) FROM (SELECT 1 FROM fts WHERE fts MATCH ? LIMIT ?)"
    counts = {
        phrase: int(reader.execute(count, (phrase, bound + 1)).fetchone()[0]) for phrase in phrases
    }
    found = [phrase for phrase in phrases if counts[phrase]]
    rare = [phrase for phrase in found if counts[phrase] <= bound]
    return (rare, False) if rare else (found, True)
