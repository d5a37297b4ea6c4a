"""What the views of a query let through, as every store applies it."""

from collections.abc import Sequence

from contracts.visibility import Hit, View, is_visible


def sees(
    views: Sequence[View], source_id: str, generation: int, from_seq: int, to_seq: int
) -> bool:
    """Whether one of the views contains a chunk of this source, generation and interval."""
    return any(
        view.source_id == source_id
        and view.generation == generation
        and is_visible(from_seq, to_seq, view.seq)
        for view in views
    )


def by_generation(views: Sequence[View]) -> dict[int, list[View]]:
    """The views of each generation, for stores that keep a collection a generation."""
    grouped: dict[int, list[View]] = {}
    for view in views:
        grouped.setdefault(view.generation, []).append(view)
    return grouped


def best(hits: Sequence[Hit], limit: int) -> list[Hit]:
    """The best hits, best first, ties by id."""
    return sorted(hits, key=lambda hit: (-hit.score, hit.chunk_id))[:limit]
