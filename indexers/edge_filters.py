"""What is asked of Qdrant Edge, in its own words: the visibility rule as filters."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

import qdrant_edge as edge

from contracts.visibility import View, is_visible

MAX_IDS: Final = 1_000  # ids in one filter


def between(
    field: str, *, gte: int | None = None, lte: int | None = None, gt: int | None = None
) -> edge.FieldCondition:
    """A sequence in bounds. Sequences stay below 2^53, so the engine's floats keep them exactly."""
    return edge.FieldCondition(field, range=edge.RangeFloat(gte=gte, lte=lte, gt=gt))


def opened(view: View) -> edge.Filter:
    """What the view's sequence opened."""
    return edge.Filter(must=[_source(view), between("from_seq", gte=view.seq, lte=view.seq)])


def closed(view: View) -> edge.Filter:
    """What the view's sequence closed."""
    return edge.Filter(must=[_source(view), between("to_seq", gte=view.seq, lte=view.seq)])


def closed_until(view: View) -> edge.Filter:
    """What was closed at or before the view's sequence."""
    return edge.Filter(must=[_source(view), between("to_seq", lte=view.seq)])


def visible(view: View) -> edge.Filter:
    """What is visible in the view. What is hidden is little, and found faster than what isn't."""
    return edge.Filter(must=[_source(view)], must_not=[*_out_of_time(view)])


def foreign(view: View) -> edge.Filter:
    """What belongs to other sources."""
    return edge.Filter(must_not=[_source(view)])


def hidden(view: View) -> edge.Filter:
    """What the source has that isn't visible in the view."""
    return edge.Filter(must=[_source(view)], should=[*_out_of_time(view)])


def of_source(view: View) -> edge.Filter:
    """All that the source has."""
    return edge.Filter(must=[_source(view)])


def candidates(views: Sequence[View], excluded: frozenset[str]) -> edge.Filter:
    """What is visible in any of the views, of which there is one at least: an empty list of
    alternatives would mean all."""
    seen = visible(views[0]) if len(views) == 1 else edge.Filter(should=[*map(visible, views)])
    if not excluded:
        return seen
    return edge.Filter(must=[seen], must_not=[edge.HasIdCondition(set(excluded))])


def chosen(
    view: View, chunk_ids: Sequence[str], condition: edge.FieldCondition
) -> Iterator[edge.Filter]:
    """The named chunks of the source that meet the condition. No ids is no filter: an empty list
    must never mean all (infiniflow/ragflow#6607)."""
    rest = iter(chunk_ids)
    while part := set(islice(rest, MAX_IDS)):
        yield edge.Filter(must=[edge.HasIdCondition({*part}), _source(view), condition])


def is_seen(view: View, payload: Mapping[str, object] | None) -> bool:
    """Whether a point's payload is that of a chunk that is visible in the view."""
    if payload is None or payload["source_id"] != view.source_id:
        return False
    return is_visible(int(str(payload["from_seq"])), int(str(payload["to_seq"])), view.seq)


def _source(view: View) -> edge.FieldCondition:
    return edge.FieldCondition("source_id", match=edge.MatchValue(view.source_id))


def _out_of_time(view: View) -> list[edge.FieldCondition]:
    return [between("from_seq", gt=view.seq), between("to_seq", lte=view.seq)]
