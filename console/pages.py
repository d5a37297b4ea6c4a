"""Listings in pages: what comes after a key, and the `Link` to what comes after that (RFC 8288)."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final, TypeVar
from urllib.parse import urlencode

import httpx

LARGEST_PAGE: Final = 1_000  # items; of outcomes: documents

T = TypeVar("T")


def cut(
    items: Sequence[T], limit: int, key: Callable[[T], Hashable]
) -> tuple[list[T], Hashable | None]:
    """The items of the first `limit` keys, and the last of these keys if others follow."""
    keys = list(dict.fromkeys(map(key, items)))
    if len(keys) <= limit:
        return list(items), None
    kept = frozenset(keys[:limit])
    return [item for item in items if key(item) in kept], keys[limit - 1]


def next_link(path: str, limit: int, after: Hashable, also: Mapping[str, str] | None = None) -> str:
    """The value of the `Link` header; `also` is what the listing is of, beside its path."""
    query = {**(also or {}), "limit": limit, "after": str(after)}
    return f'<{path}?{urlencode(query)}>; rel="next"'


def next_after(response: httpx.Response) -> str | None:
    """Where the next page begins. Only the key is taken of the link: no answer leads elsewhere."""
    link = response.links.get("next")
    return None if link is None else httpx.URL(link["url"]).params.get("after")
