"""The invariants of visibility over random histories, and the faults that they must find."""

import asyncio
import itertools
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from sqlalchemy.ext.asyncio import AsyncConnection

from activities.ports import Ports
from contracts.ids import chunk_id
from contracts.ports import Sweep
from contracts.runs import RunTicket
from contracts.visibility import View
from documents.embedders.hashing import DIMENSION
from indexers.memory import MemoryStore
from indexers.qdrant_edge import EdgeVectorStore
from indexers.sqlite_fts import FtsKeywordStore
from storage.catalog.repository import SqlCatalog, open_catalog, sqlite_url
from tests.properties.machine import Histories
from tests.properties.model import InvariantBroken
from tests.properties.system import Interruptible, System

THOROUGH = "SLUICE_TEST_THOROUGH" in os.environ  # as `make properties` sets it


def examples(few: int, many: int, steps: int) -> settings:
    """Deterministic; a failure prints what reproduces it."""
    return settings(
        max_examples=many if THOROUGH else few,
        stateful_step_count=steps,
        deadline=None,
        derandomize=True,
        print_blob=True,
        database=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as one:
        yield one


def machine(
    runner: asyncio.Runner, new_system: Callable[[], System], base: type[Histories] = Histories
) -> type[Histories]:
    """The histories over a system."""
    return type(
        "GivenHistories", (base,), {"runner": runner, "new_system": staticmethod(new_system)}
    )


def in_memory(runner: asyncio.Runner) -> tuple[SqlCatalog, Callable[[], System]]:
    catalog = runner.run(open_catalog("sqlite+aiosqlite://"))
    stores = (MemoryStore("vectors"), MemoryStore("keywords"))
    names = itertools.count(1)
    return catalog, lambda: System(f"s{next(names)}", catalog, stores)


def test_the_invariants_hold_in_memory(runner: asyncio.Runner) -> None:
    """I1 to I5 over histories of thirty steps."""
    catalog, new_system = in_memory(runner)
    try:
        run_state_machine_as_test(machine(runner, new_system), settings=examples(40, 200, 30))
    finally:
        runner.run(catalog.close())


def test_the_invariants_hold_on_the_embedded_engines(
    runner: asyncio.Runner, tmp_path: Path
) -> None:
    """The same over Qdrant Edge and FTS5, with the catalog in a file."""
    catalog = runner.run(open_catalog(sqlite_url(tmp_path / "catalog.sqlite")))
    stores = (EdgeVectorStore(tmp_path / "vectors", DIMENSION), FtsKeywordStore(tmp_path))
    names = itertools.count(1)
    given = machine(runner, lambda: System(f"s{next(names)}", catalog, stores))
    try:
        run_state_machine_as_test(given, settings=examples(10, 50, 20))
    finally:
        for store in stores:
            runner.run(store.close())
        runner.run(catalog.close())


# --- planted faults: each is found, and by the invariant that it breaks ---------------------------


async def _forgotten_only(ports: Ports, view: View) -> None:
    """A purge that deletes the catalog's rows, and nothing in the stores."""
    await ports.catalog.forget(view, ports.now())


def no_purge(patch: pytest.MonkeyPatch) -> None:
    """What a run wrote stays in the stores when it has ended."""
    patch.setattr("activities.promotion.purge", _forgotten_only)
    patch.setattr("activities.retirement.purge", _forgotten_only)


def no_fence(patch: pytest.MonkeyPatch) -> None:
    """Whoever has a ticket may stage with it, however old."""

    async def anybody(_connection: AsyncConnection, _ticket: RunTicket) -> None:
        return

    patch.setattr("storage.catalog.staging.check_ticket", anybody)


def retirement_by_the_live_sequence(patch: pytest.MonkeyPatch) -> None:
    """What the live sequence has closed goes, though an earlier one is retained."""
    due_sweep = SqlCatalog.due_sweep

    async def by_live(self: SqlCatalog, source_id: str, now: datetime) -> Sweep:
        sweep = await due_sweep(self, source_id, now)
        pointer = (await self.pointers([source_id]))[source_id]
        return Sweep(sweep.purge, pointer.view if pointer.seq else None)

    patch.setattr(SqlCatalog, "due_sweep", by_live)


def an_id_without_the_sequence(patch: pytest.MonkeyPatch) -> None:
    """A chunk that comes back has the id of the one that was closed."""

    def timeless(source: str, generation: int, doc_key: str, key: str, _seq: int) -> str:
        return chunk_id(source, generation, doc_key, key, 0)

    patch.setattr("storage.catalog.staging.chunk_id", timeless)


def a_mark_without_its_condition(patch: pytest.MonkeyPatch) -> None:
    """A late mark moves what has been closed, or opened again, by others meanwhile."""
    move = MemoryStore._move

    def always(self: MemoryStore, name: str, _before: int, after: int) -> None:
        move(self, name, self._rows[name].chunk.to_seq, after)

    patch.setattr(MemoryStore, "_move", always)


def fusion_before_judging(patch: pytest.MonkeyPatch) -> None:
    """Hits are judged when the list is made, and what is refused leaves gaps in it."""

    async def everything(
        _self: Interruptible, chunk_ids: Collection[str], _views: Sequence[View]
    ) -> set[str]:
        return set(chunk_ids)

    patch.setattr(Interruptible, "judge", everything)


@pytest.mark.parametrize(
    ("plant", "invariants"),
    [
        (no_purge, {"I2", "I4"}),
        (no_fence, {"I1", "I2", "I5"}),
        (retirement_by_the_live_sequence, {"I1"}),
        (an_id_without_the_sequence, {"I1", "I2"}),
        (a_mark_without_its_condition, {"I2", "I4"}),
        (fusion_before_judging, {"I2", "I3"}),
    ],
)
def test_a_planted_fault_is_found(
    plant: Callable[[pytest.MonkeyPatch], None],
    invariants: set[str],
    runner: asyncio.Runner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By a history of thirty steps, and the invariant that it breaks is named."""
    plant(monkeypatch)
    catalog, new_system = in_memory(runner)
    try:
        with pytest.raises(InvariantBroken) as found:
            run_state_machine_as_test(machine(runner, new_system), settings=examples(200, 200, 30))
    finally:
        runner.run(catalog.close())
    assert found.value.name in invariants
