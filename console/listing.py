"""Listings over HTTP: one item more is read than is shown, to know whether another page follows."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

from fastapi import Request, Response

from console.pages import cut, next_link

T = TypeVar("T")


def page(
    request: Request,
    response: Response,
    items: Sequence[T],
    limit: int,
    key: Callable[[T], Hashable],
    also: Mapping[str, str] | None = None,
) -> list[T]:
    """The page of what was read, with a `Link` to the next one if more was read than it holds."""
    shown, last = cut(items, limit, key)
    if last is not None:
        response.headers["Link"] = next_link(request.url.path, limit, last, also)
    return shown
