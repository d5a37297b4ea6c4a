"""Vectors that were bought: by embedding space and hash of the embedded text."""

from collections.abc import Collection, Mapping

import numpy as np
from sqlalchemy import select

from contracts.documents import EmbeddingSpace, Vector
from storage.catalog import schema
from storage.catalog.database import Database, slices


class Vectors:
    """The port `VectorCache`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def vectors(self, space: EmbeddingSpace, hashes: Collection[str]) -> dict[str, Vector]:
        """What is known of the hashes."""
        table = schema.vectors
        found: dict[str, Vector] = {}
        async with self._database.read() as connection:
            for some in slices(list(hashes)):
                rows = await connection.execute(
                    select(table.c.text_hash, table.c.vector).where(
                        table.c.space == space.name, table.c.text_hash.in_(some)
                    )
                )
                for row in rows:
                    found[row.text_hash] = np.frombuffer(row.vector, dtype="<f4").astype(np.float32)
        return found

    async def keep(self, space: EmbeddingSpace, vectors: Mapping[str, Vector]) -> None:
        """Keep vectors; the first of a hash stays."""
        rows = [
            {"space": space.name, "text_hash": name, "vector": vector.astype("<f4").tobytes()}
            for name, vector in vectors.items()
        ]
        if not rows:
            return
        statement = self._database.insert(schema.vectors).on_conflict_do_nothing()
        async with self._database.write() as connection:
            await connection.execute(statement, rows)
