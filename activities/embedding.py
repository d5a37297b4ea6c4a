"""The second stage: buy the vectors that nobody has, pack new chunks, prepare the documents."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

from temporalio import activity

from activities.batches import BatchWork
from activities.heartbeat import Progress, heartbeats
from activities.ports import Ports
from activities.references import put_list, run_prefix
from contracts.activities import STAGE_BATCH, StageReport, StageRequest
from contracts.documents import (
    Chunk,
    ChunkedDocument,
    PackAddress,
    PackedChunk,
    PreparedChunk,
    PreparedDocument,
    Vector,
)
from contracts.errors import EmbeddingError, EmbeddingRefused, ObjectMissing, SluiceError
from contracts.ids import chunk_key, content_hash, text_hash
from contracts.ports import ObjectRange
from contracts.runs import DocumentOutcome, OutcomeStatus, PlanAction, PlanEntry, Stage


@dataclass
class _Draft:
    """A document between its chunks and its preparation."""

    entry: PlanEntry
    parsed: DocumentOutcome | None = None
    chunked: ChunkedDocument | None = None
    chunks: list[tuple[str, str, Chunk]] = field(default_factory=list)  # key, text hash, chunk
    new: list[int] = field(default_factory=list)  # places of chunks the catalog doesn't have
    bought: int = 0  # chunks
    bought_tokens: int = 0


class Embedding:
    """Activities on the ingestion queue that cost money."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    @activity.defn(name=STAGE_BATCH[Stage.EMBED])
    async def embed_batch(self, request: StageRequest) -> StageReport:
        """Vectors for the new chunks of the batch; each is kept the moment it is bought."""
        async with heartbeats("embedding", request.batch.documents) as progress:
            work = await BatchWork.load(self._ports, Stage.EMBED, request)
            if work.todo:
                await _BatchEmbedding(self._ports, work, request, progress).go()
            return work.report()


class _BatchEmbedding:
    """One attempt at one batch."""

    def __init__(
        self, ports: Ports, work: BatchWork, request: StageRequest, progress: Progress
    ) -> None:
        self._ports = ports
        self._work = work
        self._request = request
        self._progress = progress
        self._vectors: dict[str, Vector] = {}
        self._failed: dict[str, EmbeddingError] = {}  # by text hash
        self._silent: EmbeddingError | None = None  # why nobody is asked any more

    async def go(self) -> None:
        drafts = await self._drafts(list(self._work.todo.values()))
        await self._find_new(drafts)
        await self._buy(drafts)
        failures = [(draft, error) for draft in drafts if (error := self._error_of(draft))]
        lost = {draft.entry.doc_key for draft, _ in failures}
        ready = [draft for draft in drafts if draft.entry.doc_key not in lost]
        outcomes = [self._failure(draft, error) for draft, error in failures]
        await self._work.record([*outcomes, *await self._prepare(ready)])

    async def _drafts(self, entries: Sequence[PlanEntry]) -> list[_Draft]:
        parsed = [entry for entry in entries if entry.action is not PlanAction.DELETE]
        wanted = [
            ObjectRange(self._work.earlier[entry.doc_key].reference or "") for entry in parsed
        ]
        contents = await self._ports.objects.get_many(wanted)
        drafts = [_Draft(entry) for entry in entries if entry.action is PlanAction.DELETE]
        for entry, reference, content in zip(parsed, wanted, contents, strict=True):
            if content is None:
                raise ObjectMissing(f"there is no object {reference.key}: the parse stage left it")
            drafts.append(self._draft(entry, content))
        return drafts

    def _draft(self, entry: PlanEntry, content: bytes) -> _Draft:
        parsed = self._work.earlier[entry.doc_key]
        chunked = ChunkedDocument.model_validate_json(content)
        draft = _Draft(entry, parsed, chunked)
        seen: Counter[str] = Counter()
        for chunk in chunked.chunks:
            embedded = text_hash(chunk.embedded_text)
            key = chunk_key(embedded, {}, seen[embedded])
            seen[embedded] += 1
            draft.chunks.append((key, embedded, chunk))
        return draft

    async def _find_new(self, drafts: Sequence[_Draft]) -> None:
        names = [draft.entry.doc_key for draft in drafts if draft.chunked is not None]
        known = await self._ports.catalog.open_chunk_keys(self._work.ticket, names)
        for draft in drafts:
            have = known.get(draft.entry.doc_key, {})
            draft.new = [n for n, (key, _, _) in enumerate(draft.chunks) if key not in have]

    async def _buy(self, drafts: Sequence[_Draft]) -> None:
        """Look the vectors up, and buy those that are missing, request by request."""
        texts = {
            draft.chunks[n][1]: (draft, draft.chunks[n][2]) for draft in drafts for n in draft.new
        }
        space = self._ports.embedder.space
        self._vectors = await self._ports.catalog.vectors(space, list(texts))
        missing = [embedded for embedded in texts if embedded not in self._vectors]
        self._progress.doing, self._progress.total = "embedding chunks", len(missing)
        places = asyncio.Semaphore(self._ports.limits.concurrent_embeddings)

        async def buy(names: Sequence[str]) -> None:
            async with places:
                for name, tokens in (await self._embed({n: texts[n][1] for n in names})).items():
                    draft = texts[name][0]
                    draft.bought += 1
                    draft.bought_tokens += tokens
                self._progress.done += len(names)

        rest = iter(missing)
        async with asyncio.TaskGroup() as tasks:
            for piece in self._ports.embedder.split(
                [texts[name][1].embedded_text for name in missing]
            ):
                tasks.create_task(buy([*islice(rest, len(piece))]))

    async def _embed(self, chunks: dict[str, Chunk]) -> dict[str, int]:
        """Make one request and keep what it bought; answers whose vectors that is, and tokens. A
        refusal is narrowed down to its text; who can't be asked now isn't asked again in this
        attempt."""
        if self._silent is not None:
            self._failed.update(dict.fromkeys(chunks, self._silent))
            return {}
        embedder = self._ports.embedder
        try:
            bought = await embedder.embed_passages([c.embedded_text for c in chunks.values()])
        except EmbeddingRefused as error:
            if len(chunks) == 1:
                self._failed.update(dict.fromkeys(chunks, error))
                return {}
            names = list(chunks)
            half = len(names) // 2
            first = await self._embed({name: chunks[name] for name in names[:half]})
            return first | await self._embed({name: chunks[name] for name in names[half:]})
        except EmbeddingError as error:
            self._silent = error
            self._failed.update(dict.fromkeys(chunks, error))
            return {}
        vectors = dict(zip(chunks, bought.vectors, strict=True))
        await self._ports.catalog.keep(embedder.space, vectors)
        self._vectors.update(vectors)
        return bought.shared({name: chunk.tokens for name, chunk in chunks.items()})

    def _error_of(self, draft: _Draft) -> SluiceError | None:
        for n in draft.new:
            if (error := self._failed.get(draft.chunks[n][1])) is not None:
                return error
        return None

    def _reused(self, draft: _Draft) -> int:
        """New texts of the document whose vectors neither this nor an earlier attempt bought."""
        texts = len({draft.chunks[n][1] for n in draft.new})
        before = self._work.before.get(draft.entry.doc_key)
        earlier = 0
        if before is not None:
            earlier = before.embedded + sum(attempt.embedded for attempt in before.earlier)
        return max(0, texts - draft.bought - earlier)

    def _failure(self, draft: _Draft, error: SluiceError) -> DocumentOutcome:
        parsed = draft.parsed
        outcome = self._work.failure(
            draft.entry.doc_key,
            error,
            source_version=parsed.source_version if parsed else None,
            fingerprint=parsed.fingerprint if parsed else None,
        )
        return outcome.model_copy(
            update={"embedded": draft.bought, "embedded_tokens": draft.bought_tokens}
        )

    async def _prepare(self, drafts: Sequence[_Draft]) -> list[DocumentOutcome]:
        """Write the pack and the prepared documents; both are named so that a retry that makes
        something else doesn't overwrite them."""
        if not drafts:
            return []
        addresses = await self._pack(drafts)
        documents = [self._prepared(draft, addresses) for draft in drafts]
        ticket, batch = self._work.ticket, self._request.batch
        prefix = run_prefix(ticket.source_id, ticket.seq)
        name = content_hash("".join(d.model_dump_json() for d in documents).encode())[:16]
        key = f"{prefix}/prepared/{batch.number:06}-{name}.json"
        await put_list(self._ports.objects, key, documents)
        return [
            DocumentOutcome(
                doc_key=draft.entry.doc_key,
                stage=Stage.EMBED,
                status=OutcomeStatus.DONE,
                attempt=self._work.attempt,
                source_version=draft.parsed.source_version if draft.parsed else None,
                content_hash=draft.parsed.content_hash if draft.parsed else None,
                fingerprint=draft.parsed.fingerprint if draft.parsed else None,
                chunks=len(draft.chunks),
                embedded=draft.bought,
                embedded_tokens=draft.bought_tokens,
                reused=self._reused(draft),
                embedder=self._ports.embedder.space.name if draft.chunked is not None else None,
                reference=key,
            )
            for draft in drafts
        ]

    async def _pack(self, drafts: Sequence[_Draft]) -> dict[tuple[str, str], PackAddress]:
        """One pack for the new chunks of the batch: address by document and chunk key."""
        records: list[bytes] = []
        places: dict[tuple[str, str], tuple[int, int]] = {}
        offset = 0
        for draft in drafts:
            for n in draft.new:
                key, embedded, chunk = draft.chunks[n]
                record = PackedChunk.of(chunk, self._vectors[embedded]).encode()
                places[draft.entry.doc_key, key] = (offset, len(record))
                records.append(record)
                offset += len(record)
        if not records:
            return {}
        data = b"".join(records)
        ticket = self._work.ticket
        pack = f"packs/{ticket.source_id}/{ticket.seq}/{content_hash(data)[:32]}.pack"
        await self._ports.objects.put(pack, data)
        return {
            place: PackAddress(pack=pack, offset=start, length=length)
            for place, (start, length) in places.items()
        }

    def _prepared(
        self, draft: _Draft, addresses: dict[tuple[str, str], PackAddress]
    ) -> PreparedDocument:
        parsed, chunked = draft.parsed, draft.chunked
        if parsed is None or chunked is None or parsed.document is None:
            return PreparedDocument(doc_key=draft.entry.doc_key, deleted=True)
        document = parsed.document
        return PreparedDocument(
            doc_key=document.doc_key,
            source_version=document.source_version,
            content_hash=document.content_hash,
            fingerprint=parsed.fingerprint or "",
            title=chunked.title,
            uri=document.uri,
            media_type=chunked.media_type,
            parser=chunked.parser,
            size=document.size,
            chunks=tuple(
                PreparedChunk(
                    chunk_key=key,
                    text_hash=embedded,
                    prefix_length=len(chunk.prefix),
                    tokens=chunk.tokens,
                    char_start=chunk.char_start,
                    char_end=chunk.char_end,
                    page_start=chunk.page_start,
                    page_end=chunk.page_end,
                    heading_path=chunk.heading_path,
                    address=addresses.get((document.doc_key, key)),
                )
                for key, embedded, chunk in draft.chunks
            ),
        )
