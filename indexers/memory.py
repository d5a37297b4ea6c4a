"""A search store in memory: the plain model that the other adapters are measured against."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from contracts.documents import Vector
from contracts.ids import OPEN_SEQ
from contracts.visibility import Census, Hit, IndexedChunk, LegQuery, StoreWrite, View, is_visible
from indexers.visibility import best, sees
from indexers.words import document_terms, query_terms

# BM25 with the constants of FTS5 and Lucene.
_K1: Final = 1.2
_B: Final = 0.75


@dataclass(frozen=True, slots=True)
class _Row:
    chunk: IndexedChunk
    terms: Counter[str]


class MemoryStore:
    """One leg of the search by brute force: cosine for `vectors`, BM25 for `keywords`."""

    def __init__(self, name: Literal["vectors", "keywords"]) -> None:
        self._name = name
        self._rows: dict[str, _Row] = {}

    @property
    def name(self) -> str:
        """The leg."""
        return self._name

    async def apply(self, write: StoreWrite) -> None:
        """Write; nothing here can fail half-way."""
        view = write.view
        for chunk in write.opens:
            if chunk.chunk_id not in self._rows:
                self._rows[chunk.chunk_id] = _Row(chunk, Counter(document_terms(chunk.text)))
        for chunk_id in self._of(view, write.closes):
            self._move(chunk_id, OPEN_SEQ, view.seq)
        for chunk_id in self._of(view, write.reopens):
            self._move(chunk_id, view.seq, OPEN_SEQ)
        for chunk_id in self._of(view, write.removes):
            if self._rows[chunk_id].chunk.from_seq == view.seq:
                del self._rows[chunk_id]

    async def census(self, view: View) -> Census:
        """What is held of the source at the sequence."""
        chunks = [self._rows[chunk_id].chunk for chunk_id in self._of(view, self._rows)]
        return Census(
            opened=frozenset(c.chunk_id for c in chunks if c.from_seq == view.seq),
            closed=frozenset(c.chunk_id for c in chunks if c.to_seq == view.seq),
            visible=sum(is_visible(c.from_seq, c.to_seq, view.seq) for c in chunks),
        )

    async def purge(self, view: View) -> None:
        """Take back everything that the sequence wrote."""
        for chunk_id in self._of(view, self._rows):
            if self._rows[chunk_id].chunk.from_seq == view.seq:
                del self._rows[chunk_id]
            else:
                self._move(chunk_id, view.seq, OPEN_SEQ)

    async def retire(self, view: View) -> None:
        """Delete what was closed at or before the sequence."""
        for chunk_id in self._of(view, self._rows):
            if self._rows[chunk_id].chunk.to_seq <= view.seq:
                del self._rows[chunk_id]

    async def search(self, query: LegQuery) -> list[Hit]:
        """The true best, whether or not `exact` is asked for."""
        rows = [
            row
            for chunk_id, row in self._rows.items()
            if chunk_id not in query.excluded and _is_seen(row.chunk, query.views)
        ]
        if self._name == "keywords":
            return best(list(_bm25(rows, query_terms(query.text))), query.limit)
        if query.vector is None:
            return []
        return best(list(_cosine(rows, query.vector)), query.limit)

    async def close(self) -> None:
        """Nothing to let go of."""

    def _of(self, view: View, chunk_ids: Iterable[str]) -> list[str]:
        return [
            chunk_id
            for chunk_id in chunk_ids
            if (row := self._rows.get(chunk_id)) is not None
            and row.chunk.source_id == view.source_id
            and row.chunk.generation == view.generation
        ]

    def _move(self, chunk_id: str, present: int, future: int) -> None:
        row = self._rows[chunk_id]
        if row.chunk.to_seq == present:
            self._rows[chunk_id] = replace(row, chunk=replace(row.chunk, to_seq=future))


def _is_seen(chunk: IndexedChunk, views: tuple[View, ...]) -> bool:
    return sees(views, chunk.source_id, chunk.generation, chunk.from_seq, chunk.to_seq)


def _cosine(rows: list[_Row], vector: Vector) -> Iterable[Hit]:
    for row in rows:
        lengths = float(np.linalg.norm(row.chunk.vector) * np.linalg.norm(vector))
        product = float(np.dot(row.chunk.vector, vector))
        yield Hit(row.chunk.chunk_id, product / lengths if lengths else 0.0)


def _bm25(rows: list[_Row], terms: list[str]) -> Iterable[Hit]:
    if not rows:
        return
    mean = sum(row.terms.total() for row in rows) / len(rows)
    rarity = {term: _idf(sum(term in row.terms for row in rows), len(rows)) for term in terms}
    for row in rows:
        found = [term for term in terms if term in row.terms]
        if not found:
            continue
        norm = _K1 * (1 - _B + _B * row.terms.total() / mean)
        score = sum(
            rarity[term] * row.terms[term] * (_K1 + 1) / (row.terms[term] + norm) for term in found
        )
        yield Hit(row.chunk.chunk_id, score)


def _idf(frequency: int, total: int) -> float:
    return math.log(1 + (total - frequency + 0.5) / (frequency + 0.5))
