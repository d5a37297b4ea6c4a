"""The visibility rule, and what the search stores are told and asked.

In its generation a chunk is visible at sequence n exactly if
`from_seq <= n < to_seq`.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from pydantic import Field

from contracts.documents import PackAddress, Vector
from contracts.ids import OPEN_SEQ, DocKey, SourceId
from contracts.wire import WireModel


def is_visible(from_seq: int, to_seq: int, seq: int) -> bool:
    """Whether an interval contains a sequence."""
    return from_seq <= seq < to_seq


class View(WireModel):
    """A source pinned to one generation and sequence: what one query sees of it."""

    source_id: SourceId
    generation: int
    seq: int


class LivePointer(WireModel):
    """What readers of a source see, in one row. `seq` 0: nothing was promoted yet."""

    source_id: SourceId
    generation: int = 1
    seq: int = 0
    run_id: str = ""
    oldest_retained: int = 0
    token: int = 0  # fencing token, rises with every fence
    open_seq: int | None = None  # the run that stages now
    promoted_at: datetime | None = None

    @property
    def view(self) -> View:
        """The source at the live sequence."""
        return View(source_id=self.source_id, generation=self.generation, seq=self.seq)


@dataclass(frozen=True, slots=True)
class IndexedChunk:
    """A chunk as a search store takes it. Stores use what they index and ignore the rest."""

    chunk_id: str
    source_id: str
    run_id: str
    generation: int
    from_seq: int
    text: str  # prefix and body: what is embedded and indexed
    vector: Vector  # shape (dimension,), unit length
    to_seq: int = OPEN_SEQ


@dataclass(frozen=True, slots=True)
class StoreWrite:
    """What a run does to a store. Applying it twice changes nothing more.

    `opens` are inserted only where the id is absent; `closes` get `to_seq = seq` only where
    still open; `reopens` get `to_seq` = open only where it is `seq`; `removes` are deleted
    only where `from_seq` is `seq`.
    """

    view: View  # the source, its generation, and the sequence that is being staged
    opens: tuple[IndexedChunk, ...] = ()
    closes: tuple[str, ...] = ()
    reopens: tuple[str, ...] = ()
    removes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Census:
    """What a store, or the catalog, holds of a source at a sequence."""

    opened: frozenset[str]  # ids with from_seq = seq
    closed: frozenset[str]  # ids with to_seq = seq
    visible: int  # chunks visible at seq


@dataclass(frozen=True, slots=True)
class LegQuery:
    """One leg of a hybrid query.

    A chunk may be returned if it is visible in one of the views. `excluded` ids are left
    out. `exact` asks for the true nearest or best, whatever it costs.
    """

    views: tuple[View, ...]
    limit: int
    text: str = ""
    vector: Vector | None = None
    excluded: frozenset[str] = field(default_factory=frozenset)
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Hit:
    """A candidate of one leg. Higher scores are better; scores of two legs don't compare."""

    chunk_id: str
    score: float


class OpenedChunk(WireModel):
    """A chunk that a run opens, as the catalog names it."""

    chunk_id: str
    doc_key: DocKey
    text_hash: str
    address: PackAddress


class HeldChunk(NamedTuple):
    """A chunk that every store must hold, with its interval."""

    chunk: OpenedChunk
    run_id: str
    from_seq: int
    to_seq: int


class ChunkChange(WireModel):
    """What staging one document does to its chunks, in numbers."""

    added: int = 0  # opened by this run
    kept: int = 0  # open before, and still in the layout
    removed: int = 0  # open before, closed by this run


class StageDelta(WireModel):
    """What staging some documents means for every store."""

    opens: tuple[OpenedChunk, ...] = ()
    closes: tuple[str, ...] = ()
    reopens: tuple[str, ...] = ()
    removes: tuple[str, ...] = ()
    documents: dict[DocKey, ChunkChange] = Field(default_factory=dict)
