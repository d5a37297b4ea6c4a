"""Kinds of source: list pages, look at a document, fetch a version.

May import `contracts` only. One more kind is one module with a `KIND` (see
`contracts.ports.SourceKind`) and a line under the entry points `sluice.sources`; a package of
somebody else's can bring its own the same way.
"""

from functools import cache
from importlib.metadata import entry_points
from typing import cast

from contracts.errors import UnknownKind
from contracts.ports import SourceKind

GROUP = "sluice.sources"


@cache
def kinds() -> dict[str, SourceKind]:
    """The installed kinds, by name."""
    return {point.name: cast("SourceKind", point.load()) for point in entry_points(group=GROUP)}


def kind(name: str) -> SourceKind:
    """One installed kind.

    Raises:
        UnknownKind: there is none of that name.
    """
    found = kinds().get(name)
    if found is None:
        raise UnknownKind(f"there is no source kind {name!r}: use one of {', '.join(kinds())}")
    return found
