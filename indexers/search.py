"""Hybrid search over pinned sequences, with the catalog as the judge of every hit."""

import asyncio
from collections.abc import Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import structlog

from contracts.documents import Located, PackedChunk
from contracts.errors import ConfigurationError, StoreUnavailable
from contracts.ids import text_hash
from contracts.ports import Embedder, ObjectRange, ObjectStore, SearchStore
from contracts.search import Fusion, SearchAnswer, SearchHit, SearchQuestion
from contracts.visibility import Hit, LegQuery, LivePointer, View
from indexers.fusion import Fused, reciprocal, weighted

QUERY_TIMEOUT: Final = 5.0  # seconds for a whole question; the grace of retirement exceeds it
OVERFETCH: Final = 3  # candidates asked of each leg, in limits
TRIES: Final = 5  # a rollback or retirement under a question starts it over
log = structlog.get_logger(__name__)


class JudgingCatalog(Protocol):
    """What a search asks of the catalog: pointers, and the verdict on hits.

    The part of `PointerCatalog` and `ReaderCatalog` that only reads.
    """

    async def pointers(self, source_ids: Collection[str]) -> dict[str, LivePointer]:
        """The live pointers, read in one statement."""

    async def judge(self, chunk_ids: Collection[str], views: Sequence[View]) -> set[str]:
        """Those of the chunks that are visible in the views."""

    async def locate(self, chunk_ids: Collection[str], views: Sequence[View]) -> dict[str, Located]:
        """The chunks that are visible in the views."""

    async def visible(self, views: Sequence[View], limit: int) -> int:
        """Chunks visible in the views, counted up to the limit."""


@dataclass(frozen=True, slots=True)
class _LegAnswer:
    hits: list[Hit]
    incomplete: bool


class _Enough:
    """How many hits a leg that ranks all chunks must have: the limit, or all that is visible."""

    def __init__(self, catalog: JudgingCatalog, views: Sequence[View], limit: int) -> None:
        self._catalog = catalog
        self._views = views
        self._limit = limit

    async def has(self, hits: int) -> bool:
        return hits >= self._limit or hits >= await self._catalog.visible(self._views, self._limit)


class HybridSearch:
    """Asks both legs, lets the catalog judge, fuses, and reads the texts from the packs.

    A question is answered as of the sequences that were live when it came: if one of them is
    withdrawn or no longer retained by the time the texts are read, it is asked again.
    """

    def __init__(
        self,
        catalog: JudgingCatalog,
        vectors: SearchStore,
        keywords: SearchStore,
        embedder: Embedder,
        objects: ObjectStore,
    ) -> None:
        self._catalog = catalog
        self._vectors = vectors
        self._keywords = keywords
        self._embedder = embedder
        self._objects = objects

    async def ask(self, question: SearchQuestion) -> SearchAnswer:
        """Answer within `QUERY_TIMEOUT`.

        Raises:
            ConfigurationError: the question can't be answered as it stands.
            UnknownSource: a source isn't there.
            EmbeddingError: the question's text could not become a vector.
            StoreUnavailable: a store failed, time ran out, or the sources kept moving.
        """
        _check(question)
        try:
            async with asyncio.timeout(QUERY_TIMEOUT):
                for _ in range(TRIES):
                    answer = await self._ask_once(question)
                    if answer is not None:
                        return answer
        except TimeoutError as error:
            raise StoreUnavailable(
                f"The search took longer than {QUERY_TIMEOUT:g} s; "
                "ask again, or look at the load of the stores."
            ) from error
        raise StoreUnavailable(
            f"The sources moved under the search {TRIES} times in a row; ask again."
        )

    async def _ask_once(self, question: SearchQuestion) -> SearchAnswer | None:
        """The answer; None if a pinned sequence went away meanwhile."""
        pointers = await self._catalog.pointers(question.sources)
        views = _pin(question, pointers)
        pinned = dict.fromkeys(question.sources, 0) | {view.source_id: view.seq for view in views}
        if not views:
            return SearchAnswer(pinned=pinned)
        legs = await self._ask_legs(question, views)
        chosen = _fuse(question, legs)[: question.limit]
        located = await self._catalog.locate([hit.chunk_id for hit in chosen], views)
        hits = await self._hydrate(chosen, located)
        now = await self._catalog.pointers(question.sources)
        if any(_is_gone(view, now[view.source_id]) for view in views):
            return None
        return SearchAnswer(
            hits=tuple(hits),
            pinned=pinned,
            incomplete=len(hits) < len(chosen) or any(leg.incomplete for leg in legs.values()),
        )

    async def _ask_legs(
        self, question: SearchQuestion, views: Sequence[View]
    ) -> dict[str, _LegAnswer]:
        """Both legs at once; one whose weight is 0 isn't asked."""
        query = LegQuery(tuple(views), question.limit * OVERFETCH, text=question.text)
        enough = _Enough(self._catalog, views, question.limit)
        by_rank = question.fusion is Fusion.RRF
        legs: dict[str, Coroutine[None, None, _LegAnswer]] = {}
        if by_rank or question.dense_weight > 0:
            legs[self._vectors.name] = self._ask_vectors(query, enough)
        if by_rank or question.dense_weight < 1:
            legs[self._keywords.name] = self._ask_leg(self._keywords, query, enough, total=False)
        answers = await asyncio.gather(*legs.values())
        return dict(zip(legs, answers, strict=True))

    async def _ask_vectors(self, query: LegQuery, enough: _Enough) -> _LegAnswer:
        vector = await self._embedder.embed_query(query.text)
        return await self._ask_leg(self._vectors, replace(query, vector=vector), enough, total=True)

    async def _ask_leg(
        self, store: SearchStore, query: LegQuery, enough: _Enough, *, total: bool
    ) -> _LegAnswer:
        """One leg's visible hits: asked once, again for twice as many, then exactly.

        It is asked again without the ids that the catalog refused, if there were any, or if the
        list is short without a reason. A `total` leg (vectors) ranks every visible chunk, so it is
        short while it hasn't `enough`. The keyword leg finds what
        holds a word and no more: when it answers with fewer than it was asked for, that was all,
        and however short its list is, nothing is missing from it.
        """
        excluded: set[str] = set()
        hits: list[Hit] = []
        short = True
        for factor, exact in ((1, False), (2, False), (4, True)):
            asked = query.limit * factor
            request = replace(query, limit=asked, excluded=frozenset(excluded), exact=exact)
            found = await store.search(request)
            seen = await self._catalog.judge([hit.chunk_id for hit in found], query.views)
            hits = [hit for hit in found if hit.chunk_id in seen]
            exhausted = not total and len(found) < asked
            short = not exhausted and not await enough.has(len(hits))
            if len(hits) == len(found) and not short:
                break
            excluded.update(hit.chunk_id for hit in found if hit.chunk_id not in seen)
        # The list is as long as that of a leg without leftovers, so that both fuse alike.
        return _LegAnswer(hits[: query.limit], incomplete=short)

    async def _hydrate(
        self, chosen: Sequence[Fused], located: Mapping[str, Located]
    ) -> list[SearchHit]:
        """The texts of the chosen, read in one go; those that can't be shown are left out."""
        shown = [hit for hit in chosen if hit.chunk_id in located]
        addresses = [located[hit.chunk_id].address for hit in shown]
        records = await self._objects.get_many(
            [ObjectRange(address.pack, address.offset, address.length) for address in addresses]
        )
        return [
            SearchHit(
                score=hit.score,
                text=text,
                chunk=located[hit.chunk_id],
                scores=hit.scores,
                ranks=hit.ranks,
            )
            for hit, record in zip(shown, records, strict=True)
            if (text := _text(located[hit.chunk_id], record)) is not None
        ]


def _text(place: Located, record: bytes | None) -> str | None:
    """The body from a record of a pack; None if it isn't there or isn't what was indexed."""
    try:
        packed = PackedChunk.decode(record or b"")
    except ValueError as error:  # pydantic's ValidationError is one
        log.warning("a chunk can't be shown", pack=place.address.pack, error=str(error))
        return None
    if text_hash(f"{packed.prefix}{packed.body}") != place.text_hash:
        log.warning("a chunk can't be shown", pack=place.address.pack, error="it is another text")
        return None
    return packed.body


def _check(question: SearchQuestion) -> None:
    if not question.text.strip():
        raise ConfigurationError("The question is empty; say what to search for.")
    if not question.sources:
        raise ConfigurationError("No source is named; say which sources to search.")
    if question.at is not None and len(set(question.sources)) != 1:
        raise ConfigurationError(
            "A sequence belongs to one source; name exactly one, or leave the sequence out."
        )


def _pin(question: SearchQuestion, pointers: Mapping[str, LivePointer]) -> list[View]:
    """The view of each source that has something to show."""
    views = []
    for source_id in dict.fromkeys(question.sources):
        pointer = pointers[source_id]
        seq = pointer.seq if question.at is None else _pinnable(question.at, pointer)
        if seq > 0:
            views.append(View(source_id=source_id, generation=pointer.generation, seq=seq))
    return views


def _pinnable(seq: int, pointer: LivePointer) -> int:
    retained = max(pointer.oldest_retained, 1) <= seq <= pointer.seq
    if retained or seq == pointer.open_seq:
        return seq
    raise ConfigurationError(
        f"Sequence {seq} of source {pointer.source_id} can't be searched: it is neither staged now "
        f"nor retained (live is {pointer.seq}, the oldest retained {pointer.oldest_retained})."
    )


def _is_gone(view: View, now: LivePointer) -> bool:
    """Whether the pinned sequence was withdrawn, retired, or left behind in an old generation.

    A staged one is above the live one while its run is open; sequences are never reused, so a
    withdrawn one can't be the open one.
    """
    if view.generation != now.generation or view.seq < now.oldest_retained:
        return True
    return view.seq > now.seq and view.seq != now.open_seq


def _fuse(question: SearchQuestion, legs: Mapping[str, _LegAnswer]) -> list[Fused]:
    lists = {name: leg.hits for name, leg in legs.items()}
    if question.fusion is Fusion.RRF:
        return reciprocal(lists)
    dense, sparse = question.dense_weight, 1 - question.dense_weight
    return weighted(lists, {"vectors": dense, "keywords": sparse})
