"""How the lists of several legs become one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from contracts.visibility import Hit

RANK_CONSTANT: Final = 60  # k of reciprocal rank fusion (Cormack et al. 2009), ranks from 1


@dataclass(frozen=True, slots=True)
class Fused:
    """A candidate with its fused score, and what each leg that found it says of it."""

    chunk_id: str
    score: float  # orders this answer; answers of two questions don't compare
    scores: dict[str, float] = field(default_factory=dict)  # by leg, as the store gave them
    ranks: dict[str, int] = field(default_factory=dict)  # by leg, from 1


def weighted(legs: Mapping[str, Sequence[Hit]], weights: Mapping[str, float]) -> list[Fused]:
    """Each leg's scores scaled to 0 … 1 (min-max), weighted and added; best first, ties by id.

    Where all scores of a leg are equal, or there is only one hit, nothing can be scaled: each is
    the best that the leg knows, and counts 1. A chunk that a leg did not find counts 0 there.
    """
    parts = {
        leg: {chunk_id: weights[leg] * part for chunk_id, part in _scaled(hits).items()}
        for leg, hits in legs.items()
    }
    return _fused(legs, parts)


def reciprocal(legs: Mapping[str, Sequence[Hit]]) -> list[Fused]:
    """`1 / (60 + rank)` of each leg added, ranks from 1; best first, ties by id."""
    parts = {
        leg: {hit.chunk_id: 1 / (RANK_CONSTANT + rank) for rank, hit in enumerate(hits, 1)}
        for leg, hits in legs.items()
    }
    return _fused(legs, parts)


def _scaled(hits: Sequence[Hit]) -> dict[str, float]:
    if not hits:
        return {}
    low = min(hit.score for hit in hits)
    width = max(hit.score for hit in hits) - low
    return {hit.chunk_id: (hit.score - low) / width if width else 1.0 for hit in hits}


def _fused(
    legs: Mapping[str, Sequence[Hit]], parts: Mapping[str, Mapping[str, float]]
) -> list[Fused]:
    totals: dict[str, float] = {}
    scores: dict[str, dict[str, float]] = {}
    ranks: dict[str, dict[str, int]] = {}
    for leg, hits in legs.items():
        for rank, hit in enumerate(hits, 1):
            totals[hit.chunk_id] = totals.get(hit.chunk_id, 0.0) + parts[leg][hit.chunk_id]
            scores.setdefault(hit.chunk_id, {})[leg] = hit.score
            ranks.setdefault(hit.chunk_id, {})[leg] = rank
    fused = [Fused(one, total, scores[one], ranks[one]) for one, total in totals.items()]
    return sorted(fused, key=lambda candidate: (-candidate.score, candidate.chunk_id))
