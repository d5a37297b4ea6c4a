"""What our process and its children take: CPU time, and resident memory at its peak."""

import asyncio
import contextlib
import os
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

SAMPLE: Final = 0.5  # seconds between two looks
TICKS: Final = os.sysconf("SC_CLK_TCK")  # of CPU time, a second
_PARENT, _USER, _SYSTEM = 1, 11, 12  # fields of /proc/PID/stat behind the name (proc(5))


@dataclass
class Usage:
    """Of a span of time. Children are looked at in /proc, so they are missing elsewhere."""

    own_cpu: float = 0.0  # seconds
    own_peak: int = 0  # bytes
    child_peaks: dict[str, int] = field(default_factory=dict)  # bytes, of the largest by its name
    child_cpus: dict[str, float] = field(default_factory=dict)  # seconds, of all of a name
    _first: dict[int, float] = field(default_factory=dict)  # seconds, by pid
    # The newest figure of each child: one that has ended is not forgotten.
    _last: dict[int, tuple[str, float]] = field(default_factory=dict)

    @property
    def cpu(self) -> float:
        """Seconds of all processes."""
        return self.own_cpu + sum(self.child_cpus.values())

    def look(self) -> None:
        """Take the figures of every descendant that lives now."""
        for pid in _descendants(os.getpid()):
            with contextlib.suppress(OSError, ValueError, IndexError):
                fields = _fields(pid)
                seconds = (int(fields[_USER]) + int(fields[_SYSTEM])) / TICKS
                first = self._first.setdefault(pid, seconds)
                name, peak = _name_and_peak(pid)
                self._last[pid] = (name, seconds - first)
                self.child_peaks[name] = max(self.child_peaks.get(name, 0), peak)
        self.child_cpus = {name: 0.0 for name, _ in self._last.values()}
        for name, seconds in self._last.values():
            self.child_cpus[name] += seconds


@asynccontextmanager
async def watched() -> AsyncIterator[Usage]:
    """Look at all processes from time to time, until the body ends."""
    usage, before = Usage(), _own_cpu()
    usage.look()
    looking = asyncio.create_task(_look_again(usage))
    try:
        yield usage
    finally:
        looking.cancel()
        usage.look()
        usage.own_cpu = _own_cpu() - before
        usage.own_peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


async def _look_again(usage: Usage) -> None:
    while True:
        await asyncio.sleep(SAMPLE)
        usage.look()


def _own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _descendants(root: int) -> list[int]:
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            parents[int(entry.name)] = int(_fields(int(entry.name))[_PARENT])
    found: list[int] = []
    edge = {root}
    while edge:
        edge = {pid for pid, parent in parents.items() if parent in edge}
        found.extend(edge)
    return found


def _fields(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _name_and_peak(pid: int) -> tuple[str, int]:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    name = "parser" if b"documents.parsers.child" in words else Path(os.fsdecode(words[0])).name
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return name, int(line.split()[1]) * 1024
    return name, 0
