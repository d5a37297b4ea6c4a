"""Routing when the catalog fails, when nobody is concerned, and when sources change."""

import asyncio
from collections.abc import Sequence

import pytest
from structlog.testing import capture_logs

from bridge.router import WARN_EVERY, Router
from contracts.errors import StoreUnavailable
from contracts.events import ChangeEvent, Operation
from contracts.sources import SourceRecord


def source(source_id: str, **fields: object) -> SourceRecord:
    config = {"source_id": source_id, "kind": "s3", "container": "lake", **fields}
    return SourceRecord.model_validate(
        {"config": config, "revision": 1, "created_at": "2026-01-01T00:00:00Z"}
    )


def event(key: str = "a.md", bucket: str = "lake") -> ChangeEvent:
    return ChangeEvent(origin="s3", op=Operation.CREATED, bucket=bucket, key=key)


class Catalog:
    """A list of sources that can fail, with a clock that only moves when it is told to."""

    def __init__(self, *sources: SourceRecord) -> None:
        self.sources = list(sources)
        self.fails = False
        self.now = 1_000.0  # seconds

    async def list(self) -> Sequence[SourceRecord]:
        await asyncio.sleep(0)
        if self.fails:
            raise StoreUnavailable("locked")
        return tuple(self.sources)

    def router(self) -> Router:
        return Router(self.list, clock=lambda: self.now)


async def test_a_catalog_that_fails_is_no_answer() -> None:
    """Its error comes through, so that the event comes again; it isn't counted as nobody's."""
    catalog = Catalog(source("s"))
    catalog.fails = True
    router = catalog.router()
    with pytest.raises(StoreUnavailable):
        await router.route(event())
    assert router.unrouted == 0


async def test_the_next_event_asks_a_failed_catalog_again() -> None:
    """A failure is not kept for a second, as an answer is."""
    catalog = Catalog(source("s"))
    catalog.fails = True
    router = catalog.router()
    with pytest.raises(StoreUnavailable):
        await router.route(event())
    catalog.fails = False
    assert await router.route(event()) == ["s"]


async def test_a_catalog_that_fails_later_drops_nothing() -> None:
    """What the old list doesn't know isn't nobody's while no new list can be had."""
    catalog = Catalog(source("s"))
    router = catalog.router()
    assert await router.route(event()) == ["s"]
    catalog.fails = True
    catalog.now += 0.5
    with pytest.raises(StoreUnavailable):
        await router.route(event(bucket="fresh"))
    assert router.unrouted == 0


async def test_a_removed_source_gets_no_events() -> None:
    """The list is a second old at most."""
    catalog = Catalog(source("kept"), source("lost"))
    router = catalog.router()
    assert await router.route(event()) == ["kept", "lost"]
    del catalog.sources[1]
    catalog.now += 1.5
    assert await router.route(event()) == ["kept"]


async def test_each_event_of_nobody_counts_and_each_container_is_said_once_a_minute() -> None:
    """A flood fills no log, and a container without a source is still named."""
    catalog = Catalog(source("s"))
    router = catalog.router()

    async def warned(bucket: str) -> list[str]:
        with capture_logs() as lines:
            await router.route(event(bucket=bucket))
        return [line["bucket"] for line in lines if line["log_level"] == "warning"]

    assert await warned("pond") == ["pond"]
    assert await warned("pond") == []
    assert await warned("sea") == ["sea"]
    catalog.now += WARN_EVERY
    assert await warned("pond") == ["pond"]
    assert router.unrouted == 4
