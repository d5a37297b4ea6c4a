"""Child processes that we own: pid files that prove it, and an end for what a crash left behind."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self

from contracts.errors import StoreUnavailable

TERM_GRACE: Final = 10.0  # seconds between SIGTERM and SIGKILL
KILL_GRACE: Final = 5.0  # seconds that a killed process may take to vanish
POLL: Final = 0.05  # seconds
_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h


@dataclass(frozen=True)
class ProcessIdentity:
    """A process beyond doubt: a pid is used again, a pid with its start time isn't."""

    pid: int
    started: str  # clock ticks since boot on Linux, a date elsewhere
    name: str  # command name, as the kernel has it

    @classmethod
    def of(cls, pid: int) -> Self | None:
        """The living process of that pid; None if there is none, or only a zombie."""
        if Path("/proc/self/stat").exists():
            return cls._from_proc(pid)
        return cls._from_ps(pid)

    @classmethod
    def _from_proc(cls, pid: int) -> Self | None:
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return None
        # The name is in parentheses and may hold some itself: the last one closes it.
        head, _, tail = text.rpartition(")")
        fields = tail.split()
        if fields[0] in {"Z", "X"}:
            return None
        return cls(pid=pid, started=fields[19], name=head.partition("(")[2])

    @classmethod
    def _from_ps(cls, pid: int) -> Self | None:
        answer = subprocess.run(  # noqa: S603 - fixed arguments and a number
            ["/bin/ps", "-o", "stat=,lstart=,comm=", "-p", str(pid)],
            capture_output=True,
            text=True,
            check=False,
            env={"LC_ALL": "C"},
        )
        words = answer.stdout.split()
        if len(words) < 7 or words[0].startswith("Z"):  # noqa: PLR2004 - state, five of the date, name
            return None
        return cls(pid=pid, started=" ".join(words[1:6]), name=" ".join(words[6:]))


class PidFiles:
    """A folder with one file a child process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def record(self, role: str, pid: int) -> None:
        """Note that this living process is ours.

        Args:
            role: what it does, a file name: `temporal`.
            pid: the process.

        Raises:
            StoreUnavailable: the folder can't be written.
        """
        identity = ProcessIdentity.of(pid)
        if identity is None:
            return
        try:
            self._path(role).write_text(json.dumps(asdict(identity)))
        except OSError as error:
            raise StoreUnavailable(
                f"{self._path(role)} can't be written: {error.strerror}"
            ) from error

    def forget(self, role: str) -> None:
        """The process has ended."""
        self._path(role).unlink(missing_ok=True)

    def end_leftovers(self) -> list[str]:
        """End every process that a pid file proves to be ours; answers their roles."""
        ended = []
        for path in sorted(self._folder.glob("*.pid")):
            identity = _read(path)
            if identity is not None and ProcessIdentity.of(identity.pid) == identity:
                end(identity)
                ended.append(path.stem)
            path.unlink(missing_ok=True)
        return ended

    def _path(self, role: str) -> Path:
        return self._folder / f"{role}.pid"


def end(identity: ProcessIdentity) -> None:
    """SIGTERM, and SIGKILL for what doesn't obey; returns when the process is gone."""
    for number, grace in ((signal.SIGTERM, TERM_GRACE), (signal.SIGKILL, KILL_GRACE)):
        if ProcessIdentity.of(identity.pid) != identity:
            return
        try:
            os.kill(identity.pid, number)
        except ProcessLookupError:
            return
        if _gone_within(identity, grace):
            return


def dies_with_parent() -> Callable[[], None] | None:
    """A `preexec_fn` that lets the kernel end a child when its parent dies; None elsewhere than on
    Linux. The signal follows the thread that forks: fork in one that lives as long as the process.
    """
    if sys.platform != "linux":
        return None
    # Loaded before the fork: a child between fork and exec must not take locks.
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def ask_kernel() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before we asked
            os._exit(1)

    return ask_kernel


def _read(path: Path) -> ProcessIdentity | None:
    try:
        return ProcessIdentity(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _gone_within(identity: ProcessIdentity, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if ProcessIdentity.of(identity.pid) != identity:
            return True
        time.sleep(POLL)
    return False
