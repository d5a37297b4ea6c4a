"""What `sluice doctor` finds in a state folder."""

import sqlite3
from pathlib import Path

import pytest

from sluice.diagnosis import Finding, databases
from sluice.settings import Settings
from sluice.state import StateFolder


def found(state: StateFolder) -> Finding:
    return databases(Settings(state=state.root))


def test_databases_that_are_well_are_named(tmp_path: Path) -> None:
    """Those that aren't there yet too are well."""
    state = StateFolder(tmp_path / "state")
    assert found(state).ok
    state.prepare()
    with sqlite3.connect(state.catalog) as database:
        database.execute("CREATE TABLE t (x)")
    database.close()
    assert (found(state).ok, found(state).found) == (True, "catalog.sqlite")


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("catalog", "another folder"), ("keywords", "fills it again"), ("temporal", "crawls")],
)
def test_a_damaged_database_says_what_to_do(name: str, remedy: str, tmp_path: Path) -> None:
    """Each has a way out of its own."""
    state = StateFolder(tmp_path / "state")
    state.prepare()
    path = state.root / f"{name}.sqlite"
    path.write_bytes(b"this is no database " * 500)
    assert not found(state).ok
    assert str(path) in found(state).found
    assert remedy in found(state).remedy
