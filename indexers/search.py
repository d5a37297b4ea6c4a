"""Hybrid search over pinned sequences, with the catalog as the judge of every hit."""

import asyncio
from collections.abc import Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import structlog

from contracts.documents import Located, PackedChunk
from contracts.errors import ConfigurationError, ObjectMissing, StoreUnavailable
from contracts.ids import text_hash
from contracts.ports import Embedder, ObjectStore, SearchStore
from contracts.search import Fusion, SearchAnswer, SearchHit, SearchQuestion
from contracts.visibility import Hit, LegQuery, LivePointer, View
from indexers.fusion import Fused, reciprocal, weighted

QUERY_TIMEOUT: Final = 5.0  # seconds for a whole question; the grace of retirement exceeds it
OVERFETCH: Final = 3  # candidates asked of each leg, in limits
TRIES: Final = 5  # a rollback or retirement under a question starts it over
READS: Final = 16  # texts read from the object store at once
log = structlog.get_logger(__name__)


class JudgingCatalog(Protocol):
    """What a search asks of the catalog: pointers, and the verdict on hits.

    The part of `PointerCatalog` and `ReaderCatalog` that only reads.
    """

    async def pointers(self, source_ids: Collection[str]) -> dict[str, LivePointer]:
        """The live pointers, read in one statement."""

    async def locate(self, chunk_ids: Collection[str], views: Sequence[View]) -> dict[str, Located]:
        """The chunks that are visible in the views."""

    async def visible(self, views: Sequence[View], limit: int) -> int:
        """Chunks visible in the views, counted up to the limit."""


@dataclass(frozen=True, slots=True)
class _LegAnswer:
    hits: list[Hit]
    located: dict[str, Located]
    incomplete: bool


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
        located = {one: place for leg in legs.values() for one, place in leg.located.items()}
        chosen = _fuse(question, legs)[: question.limit]
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
        needed = await self._catalog.visible(views, question.limit)
        by_rank = question.fusion is Fusion.RRF
        legs: dict[str, Coroutine[None, None, _LegAnswer]] = {}
        if by_rank or question.dense_weight > 0:
            legs[self._vectors.name] = self._ask_vectors(query, needed)
        if by_rank or question.dense_weight < 1:
            legs[self._keywords.name] = self._ask_leg(self._keywords, query, needed, total=False)
        answers = await asyncio.gather(*legs.values())
        return dict(zip(legs, answers, strict=True))

    async def _ask_vectors(self, query: LegQuery, needed: int) -> _LegAnswer:
        vector = await self._embedder.embed_query(query.text)
        return await self._ask_leg(self._vectors, replace(query, vector=vector), needed, total=True)

    async def _ask_leg(
        self, store: SearchStore, query: LegQuery, needed: int, *, total: bool
    ) -> _LegAnswer:
        """One leg's visible hits: asked once, again for twice as many, then exactly.

        It is asked again without the ids that the catalog refused, if there were any, or if the
        list is short without a reason. A `total` leg (vectors) ranks every visible chunk, so fewer
        than `needed` (the limit, or all that is visible) is short. The keyword leg finds what
        holds a word and no more: when it answers with fewer than it was asked for, that was all,
        and however short its list is, nothing is missing from it.
        """
        excluded: set[str] = set()
        hits: list[Hit] = []
        located: dict[str, Located] = {}
        short = True
        for factor, exact in ((1, False), (2, False), (4, True)):
            asked = query.limit * factor
            request = replace(query, limit=asked, excluded=frozenset(excluded), exact=exact)
            found = await store.search(request)
            located = await self._catalog.locate([hit.chunk_id for hit in found], query.views)
            hits = [hit for hit in found if hit.chunk_id in located]
            exhausted = not total and len(found) < asked
            short = len(hits) < needed and not exhausted
            if len(hits) == len(found) and not short:
                break
            excluded.update(hit.chunk_id for hit in found if hit.chunk_id not in located)
        # The list is as long as that of a leg without leftovers, so that both fuse alike.
        return _LegAnswer(hits[: query.limit], located, incomplete=short)

    async def _hydrate(
        self, chosen: Sequence[Fused], located: Mapping[str, Located]
    ) -> list[SearchHit]:
        gate = asyncio.Semaphore(READS)

        async def read(candidate: Fused) -> SearchHit | None:
            place = located[candidate.chunk_id]
            async with gate:
                text = await self._text(place)
            if text is None:
                return None
            return SearchHit(
                score=candidate.score,
                text=text,
                chunk=place,
                scores=candidate.scores,
                ranks=candidate.ranks,
            )

        hits = await asyncio.gather(*map(read, chosen))
        return [hit for hit in hits if hit is not None]

    async def _text(self, place: Located) -> str | None:
        """The body from the pack; None if it isn't there or isn't what was indexed."""
        address = place.address
        try:
            record = await self._objects.get(address.pack, address.offset, address.length)
            packed = PackedChunk.decode(record)
        except (ObjectMissing, ValueError) as error:  # pydantic's ValidationError is a ValueError
            log.warning("a chunk can't be shown", pack=address.pack, error=str(error))
            return None
        if text_hash(f"{packed.prefix}{packed.body}") != place.text_hash:
            log.warning("a chunk can't be shown", pack=address.pack, error="it is another text")
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
