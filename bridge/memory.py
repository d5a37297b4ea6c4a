"""The orchestrator port in memory: records what it is asked, and refuses when it is told to."""

import asyncio
from collections import deque

from contracts.activities import Command, CommandResult, RunReport
from contracts.errors import SluiceError
from contracts.events import ChangeSignal
from contracts.gate import Verdict


class RecordingOrchestrator:
    """For tests and trials: no workflow runs.

    `signals` has every accepted signal with its source; `failures` are raised first, one a call;
    `running` are the workflow ids that are said to be open.
    """

    def __init__(self) -> None:
        self.signals: list[tuple[str, ChangeSignal]] = []
        self.reports: list[tuple[str, RunReport]] = []
        self.commands: list[tuple[str, Command]] = []
        self.verdicts: list[tuple[str, int, Verdict]] = []
        self.failures: deque[SluiceError] = deque()
        self.running: set[str] = set()
        self.signalled = asyncio.Event()

    async def signal_changed(self, source_id: str, signal: ChangeSignal) -> None:
        """Record, or raise the next failure."""
        self._fail()
        self.signals.append((source_id, signal))
        self.signalled.set()

    async def report_run(self, source_id: str, report: RunReport) -> None:
        """Record, or raise the next failure."""
        self._fail()
        self.reports.append((source_id, report))

    async def command(self, source_id: str, command: Command) -> CommandResult:
        """Record, or raise the next failure."""
        self._fail()
        self.commands.append((source_id, command))
        return CommandResult(ok=True, message=f"{command.verb} was recorded")

    async def decide(self, source_id: str, seq: int, verdict: Verdict) -> CommandResult:
        """Record, or raise the next failure."""
        self._fail()
        self.verdicts.append((source_id, seq, verdict))
        return CommandResult(ok=True, message="the verdict was recorded", seq=seq)

    async def collected(self, source_id: str) -> int:
        """Keys that were signalled."""
        return len({k.key for name, s in self.signals if name == source_id for k in s.keys})

    async def is_running(self, workflow_id: str) -> bool:
        """Whether it was said to be."""
        return workflow_id in self.running

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.popleft()
