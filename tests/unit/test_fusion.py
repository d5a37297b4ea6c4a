"""Fusion of two lists into one."""

import pytest

from contracts.visibility import Hit
from indexers.fusion import reciprocal, weighted

HALVES = {"vectors": 0.5, "keywords": 0.5}


def hits(**scores: float) -> list[Hit]:
    return [Hit(chunk_id, score) for chunk_id, score in scores.items()]


def test_weighted_scales_each_leg_and_adds() -> None:
    """Scores of a leg go from 0 to 1, are weighted and added; a missing chunk counts 0."""
    fused = weighted(
        {"vectors": hits(a=0.9, b=0.8, c=0.7), "keywords": hits(b=12.0, d=4.0)},
        {"vectors": 0.75, "keywords": 0.25},
    )
    assert [one.chunk_id for one in fused] == ["a", "b", "c", "d"]
    assert [one.score for one in fused] == pytest.approx([0.75, 0.625, 0.0, 0.0])
    assert fused[1].scores == {"vectors": 0.8, "keywords": 12.0}
    assert fused[1].ranks == {"vectors": 2, "keywords": 1}


def test_a_single_hit_counts_fully() -> None:
    """The only hit of a leg is its best: it counts 1, not the 0 of an empty range."""
    fused = weighted({"vectors": hits(a=0.2, b=0.1), "keywords": hits(c=3.0)}, HALVES)
    assert {one.chunk_id: one.score for one in fused} == {"a": 0.5, "c": 0.5, "b": 0.0}


def test_equal_scores_count_fully() -> None:
    """Hits that a leg can't tell apart count 1 each, negative scores as well."""
    fused = weighted({"vectors": hits(b=-0.4, a=-0.4), "keywords": []}, HALVES)
    assert [(one.chunk_id, one.score) for one in fused] == [("a", 0.5), ("b", 0.5)]


def test_reciprocal_ranks_count_from_one() -> None:
    """The first of a list counts 1/61, and a list that misses a chunk adds nothing."""
    fused = reciprocal({"vectors": hits(a=0.9, b=0.8), "keywords": hits(b=9.0)})
    assert [one.chunk_id for one in fused] == ["b", "a"]
    assert [one.score for one in fused] == pytest.approx([1 / 62 + 1 / 61, 1 / 61])


def test_ties_are_broken_by_id() -> None:
    """Equal fused scores come in the order of their ids, whichever leg found them."""
    fused = reciprocal({"vectors": hits(z=1.0), "keywords": hits(m=5.0)})
    assert [one.chunk_id for one in fused] == ["m", "z"]


def test_nothing_found_is_an_empty_list() -> None:
    """Legs without hits fuse to nothing."""
    assert weighted({"vectors": [], "keywords": []}, HALVES) == []
    assert reciprocal({}) == []
