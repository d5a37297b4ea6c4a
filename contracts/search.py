"""Hybrid search: the question, and an answer that can be replayed."""

from enum import StrEnum

from pydantic import Field

from contracts.documents import Located
from contracts.wire import WireModel


class Fusion(StrEnum):
    """How the legs' lists become one."""

    WEIGHTED = "weighted"  # min-max of each leg, weighted
    RRF = "rrf"  # reciprocal ranks, 1 / (60 + rank), ranks from 1


class SearchQuestion(WireModel):
    """A question to one or more sources."""

    text: str
    sources: tuple[str, ...]
    limit: int = Field(default=5, ge=1, le=1_000)
    at: int | None = None  # a sequence to pin, with exactly one source; None: live
    fusion: Fusion = Fusion.WEIGHTED
    dense_weight: float = Field(default=0.5, ge=0, le=1)


class SearchHit(WireModel):
    """One answer. `scores` and `ranks` are by leg (`vectors`, `keywords`)."""

    score: float
    text: str  # the body, as shown
    chunk: Located
    scores: dict[str, float] = Field(default_factory=dict)
    ranks: dict[str, int] = Field(default_factory=dict)


class SearchAnswer(WireModel):
    """The hits, best first, with the sequence of every source that they were read at."""

    hits: tuple[SearchHit, ...] = ()
    pinned: dict[str, int] = Field(default_factory=dict)
    incomplete: bool = False  # True: fewer hits than there should be, and we know it
